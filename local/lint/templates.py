"""Holds what checkov finds in the templates against what it may find. Whatever else it finds fails; so does an exception that has no use.

    python -m local.lint.templates FOUND    the JSON that checkov wrote
"""

import fnmatch
import json
import pathlib
import sys

# Check: the resources that it may find fault with, as `FILE:NAME` with `*` for any text, and why.
EXCEPTIONS = {
    "CKV_AWS_18": (["gate.yaml:ExchangeBucket", "gate.yaml:ArchiveBucket", "workspace.yaml:StateBucket", "estate.yaml:StateBucket"],
                   "S3's access logs are best effort and a bucket more to keep; CloudTrail's data events are complete, and an account's own to switch on"),
    "CKV_AWS_27": (["gate.yaml:ArchiveFailures", "gate.yaml:AnnounceFailures"],
                   "encrypted by SQS itself (SSE-SQS): a message names a batch of the stream and holds nothing of it"),
    "CKV_AWS_33": (["gate.yaml:GateKey"],
                   "for everybody under conditions: the account, the path of the role, and the service through which the key is used (test_least_privilege.py)"),
    "CKV_AWS_65": (["gate.yaml:Cluster"],
                   "Container Insights measures what runs for long; a task of a run tells its times itself, and the bill is by the metric"),
    "CKV_AWS_115": (["*:*Function"],
                    "reserved where it protects something, by parameters (api, sweep, slack); elsewhere it would only take from the account, and the state machine tries again"),
    "CKV_AWS_116": (["*:*Function"],
                    "called by the state machine or the API, which see each failure; schedules come again, and streams have a destination where something could be lost"),
    "CKV_AWS_117": (["*:*Function"],
                    "no function reaches anything within a VPC; what each may call is its role's to say, and a VPC would add NAT, addresses and cold starts"),
    "CKV_AWS_173": (["*:*Function"],
                    "variables are names and addresses, never secrets (test_templates.py::settings_are_read); Lambda encrypts them at rest anyway"),
}


def problems(found):
    """What is wrong, a line each; `found` is checkov's report, or the list of them."""
    used = set()
    for report in found if isinstance(found, list) else [found]:
        if report.get("results", {}).get("parsing_errors"):
            yield f"not read: {report['results']['parsing_errors']}"
        for failed in report.get("results", {}).get("failed_checks", []):
            check, where = failed["check_id"], f"{pathlib.PurePath(failed['file_path']).name}:{failed['resource'].rpartition('.')[2]}"
            names = EXCEPTIONS.get(check, ([], ""))[0]
            fitting = [name for name in names if fnmatch.fnmatchcase(where, name)]
            used.update((check, name) for name in fitting)
            if not fitting:
                yield f"{where}: {check}: {failed['check_name']}: mend it, or except it in local/lint/templates.py with a reason"
    for check, (names, _) in EXCEPTIONS.items():
        yield from (f"{check} finds nothing at {name} any more: take the exception out" for name in names if (check, name) not in used)


def main():
    """The command line."""
    found = json.loads(pathlib.Path(sys.argv[1]).read_text())
    reports = found if isinstance(found, list) else [found]
    passed = sum(report.get("summary", {}).get("passed", report.get("passed", 0)) for report in reports)
    wrong = list(problems(found))
    if not passed:
        wrong.append("checkov has checked nothing")
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
