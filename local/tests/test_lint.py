"""What checkov finds is excepted by name and for a reason, or it fails."""

from local.lint.templates import EXCEPTIONS, problems


def finding(check, file, resource):
    return {"check_id": check, "check_name": "a rule", "file_path": f"/{file}", "resource": resource}


def all_that_is_excepted():
    return [finding(check, name.split(":")[0].replace("*", "gate.yaml"), f"AWS::X.{name.split(':')[1].replace('*', 'New')}")
            for check, (names, _) in EXCEPTIONS.items() for name in names]


def test_a_finding_that_is_not_excepted_and_an_exception_without_a_finding_fail():
    known = all_that_is_excepted()
    assert list(problems({"results": {"failed_checks": known}})) == []
    more = [*known, finding("CKV_AWS_18", "gate.yaml", "AWS::S3::Bucket.Another"), finding("CKV_AWS_999", "gate.yaml", "AWS::S3::Bucket.ExchangeBucket")]
    assert [line.split(": ")[1] for line in problems([{"results": {"failed_checks": more}}])] == ["CKV_AWS_18", "CKV_AWS_999"]
    assert [line.split()[0] for line in problems({"results": {"failed_checks": known[1:]}})] == [known[0]["check_id"]]
    assert all(len(reason.split()) > 5 for _, reason in EXCEPTIONS.values())
