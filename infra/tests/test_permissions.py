"""What each role can do, tried as that role on the laptop stack with these very templates. Evidence about our policies, not about AWS."""

import botocore.exceptions
import pytest
from deployed import ACCOUNT, CONTROL, OURS, SLACK, THEIRS

from local.stack import refused

RUN = "run-01aaaaaaaaaaaaaaaaaaaaaaaa"
DOCUMENT = f"documents/{OURS}/{RUN}.json"
# Who writes what in the exchange, by a key of each kind.
WRITERS = {
    f"bundles/{OURS}/%.tar.zst": {"plangate-api"},
    f"orders/{OURS}/%/plan.json": {"plangate-prepare"},
    f"orders/{OURS}/%/apply.json": {"plangate-authorize"},
    f"orders/{OURS}/%/apply.sig.json": {"plangate-authorize"},
    f"receipts/{OURS}/%/plan.json": {f"{OURS}-plan"},
    f"receipts/{OURS}/%/apply.json": {f"{OURS}-apply"},
    f"documents/{OURS}/%.json": {f"{OURS}-plan"},
    f"projections/{OURS}/%.json": {"plangate-project"},
    f"claims/{OURS}/%": {f"{OURS}-apply", "plangate-conclude", "plangate-sweep"},
    f"results/{OURS}/%.json": {f"{OURS}-apply"},
    f"logs/{OURS}/%/plan.log": {f"{OURS}-plan", "plangate-conclude", "plangate-sweep"},
    f"logs/{OURS}/%/apply.log": {f"{OURS}-apply", "plangate-conclude", "plangate-sweep"},
}
# Which items of the table each function writes, by a partition key of each kind.
RUNS, LINE = ["RUN#x", "CHAIN#run/x"], ["WS#x", "CHAIN#ws/x"]
CONFIGURATION = ["DOC#policy#x", "GRANTED#x", "IDENTITY#x", "UNIQUE#name#x", "REQ#x", "DEC#x", "CHAIN#gate", "FREEZE#gate", "WORKSPACES", "CHAIN#strangers"]
WRITING = [name for name in CONTROL if name not in ("archive", "announce", "witness")]
CHATS = ["MAC#x", "ACT#x", "WORD#x", "NOTICE#x"]
ITEMS = {"api": RUNS + LINE + CONFIGURATION, "prepare": [*RUNS, "POLICY#x"], "review": [*RUNS, "AUTO#x"], "request-approval": RUNS,
         "slack": [*RUNS, *LINE, "DEC#x", *CHATS[:3]], "notify": ["CHAIN#run/x", "NOTICE#x"], "drift": [*RUNS, "CHAIN#ws/x", "DRIFT#x"]}
# Who may end a run; whose partitions of the table a function looks through, by one of each kind; who looks for objects that may not be there.
ENDERS = ("admit", "intake", "project", "guard", "authorize", "conclude", "sweep")
LOOKS = {"WS#x": (*ENDERS, "api", "slack"), "GRANTED#x": ("api", "slack"), "WORKSPACES": ("api", "drift"), "RUN#x": (), "DOC#policy#x": (), "REQ#x": ()}
MISSES = (*ENDERS, "api", "review", "drift", "notify")
# Which of them it may remove, where that is not all or nothing.
REMOVES = {"prepare": [], "review": [], "request-approval": [], "slack": ["WS#x"], "notify": [], "drift": []}


@pytest.fixture(scope="module", autouse=True)
def stored(gate):
    """A state, an artifact, a document and an order, each written by the role that writes it."""
    plan, bucket = gate.client(f"{OURS}-plan", "s3"), gate.ours["StateBucket"]
    gate.client(f"{OURS}-apply", "s3").put_object(Bucket=bucket, Key="state/terraform.tfstate", Body=b"state")
    plan.put_object(Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan", Body=b"plan", IfNoneMatch="*")
    plan.put_object(Bucket=gate.bucket, Key=DOCUMENT, Body=b"{}", IfNoneMatch="*", ServerSideEncryption="aws:kms", SSEKMSKeyId=gate.outputs["DocumentKeyArn"])
    gate.client("plangate-prepare", "s3").put_object(Bucket=gate.bucket, Key=f"orders/{OURS}/{RUN}/plan.json", Body=b"{}", IfNoneMatch="*")
    gate.client("plangate-project", "s3").put_object(Bucket=gate.bucket, Key=f"projections/{OURS}/{RUN}.json", Body=b"{}", IfNoneMatch="*")
    gate.client("plangate-api", "s3").put_object(Bucket=gate.bucket, Key=f"bundles/{OURS}/{RUN}.tar.zst", Body=b"{}")


@pytest.fixture(scope="module")
def estate(gate):
    """A role of the account that manages an estate with a policy that is far too wide: s3:* and kms:*, on everything."""
    return gate.stack.session_for_role(gate.person("estate"), "test")


def put(s3, gate, key, **more):
    """Puts a record as whoever writes it does."""
    if key.startswith("documents/"):
        more = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": gate.outputs["DocumentKeyArn"], **more}
    return s3.put_object(Bucket=gate.bucket, Key=key, Body=b"{}", IfNoneMatch="*", **more)


@pytest.mark.parametrize("name", CONTROL)
def test_no_function_reaches_a_workspace(gate, name):
    role = f"plangate-{name}"
    s3, bucket = gate.client(role, "s3"), gate.ours["StateBucket"]
    assert refused(s3.get_object, Bucket=bucket, Key="state/terraform.tfstate")
    assert refused(s3.put_object, Bucket=bucket, Key="state/terraform.tfstate", Body=b"forged")
    assert refused(s3.get_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan")
    assert refused(s3.put_object, Bucket=bucket, Key=f"artifacts/{RUN}/other.tfplan", Body=b"forged", IfNoneMatch="*")
    assert refused(s3.list_objects_v2, Bucket=bucket)
    assert refused(gate.client(role, "ssm").get_parameters, Names=[f"/plangate/{OURS}/password"], WithDecryption=True)
    assert refused(gate.client(role, "sts").assume_role, RoleArn=f"arn:aws:iam::{ACCOUNT}:role/estate", RoleSessionName="test")
    assert refused(gate.client(role, "ecs").run_task, cluster="plangate", taskDefinition=gate.outputs["TaskDefinition"])


@pytest.mark.parametrize("name", CONTROL)
def test_no_function_forges_what_the_runner_says(gate, name):
    s3 = gate.client(f"plangate-{name}", "s3")
    for key in (f"receipts/{OURS}/{RUN}/plan.json", f"receipts/{OURS}/{RUN}/apply.json", f"results/{OURS}/{RUN}.json"):
        assert refused(s3.put_object, Bucket=gate.bucket, Key=key, Body=b"{}", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"documents/{OURS}/forged.json", Body=b"{}", IfNoneMatch="*",
                   ServerSideEncryption="aws:kms", SSEKMSKeyId=gate.outputs["DocumentKeyArn"])
    assert refused(s3.delete_object, Bucket=gate.bucket, Key=DOCUMENT)


@pytest.mark.parametrize("name", CONTROL)
def test_documents_are_open_to_project_and_guard_alone(gate, name):
    s3 = gate.client(f"plangate-{name}", "s3")
    assert refused(s3.get_object, Bucket=gate.bucket, Key=DOCUMENT) == (name not in ("project", "guard"))


def test_a_plan_role_cannot_open_its_own_document_again(gate):
    assert refused(gate.client(f"{OURS}-plan", "s3").get_object, Bucket=gate.bucket, Key=DOCUMENT)


@pytest.mark.parametrize("key", WRITERS)
def test_each_record_of_the_exchange_has_its_writers_whatever_a_policy_allows(gate, estate, key):
    roles = [*(f"plangate-{name}" for name in CONTROL), *(f"{workspace}-{phase}" for workspace in (OURS, THEIRS) for phase in ("plan", "apply"))]
    wrote = {role for role in roles if not refused(put, gate.client(role, "s3"), gate, key.replace("%", f"by-{role}"))}
    assert wrote == WRITERS[key]
    assert refused(put, estate.client("s3"), gate, key.replace("%", "by-estate"))
    assert refused(estate.client("s3").delete_object, Bucket=gate.bucket, Key=key.replace("%", f"by-{min(wrote)}"))


@pytest.mark.parametrize("name", WRITING)
def test_the_audit_is_appended_inside_a_transaction_alone(gate, name):
    role = f"plangate-{name}"
    dynamodb, table = gate.client(role, "dynamodb"), gate.outputs["AuditTable"]
    key = {"pk": {"S": f"run/{role}"}, "sk": {"S": "0000000001"}}
    assert refused(dynamodb.put_item, TableName=table, Item=key)
    assert not refused(dynamodb.transact_write_items, TransactItems=[
        {"Put": {"TableName": gate.outputs["Table"], "Item": {"pk": {"S": f"{ITEMS.get(name, RUNS)[0]}-{role}"}, "sk": {"S": "x"}}}},
        {"Put": {"TableName": table, "Item": key, "ConditionExpression": "attribute_not_exists(pk)"}}])
    assert refused(dynamodb.delete_item, TableName=table, Key=key)
    assert refused(dynamodb.transact_write_items, TransactItems=[{"Delete": {"TableName": table, "Key": key}}])
    assert refused(dynamodb.update_item, TableName=table, Key=key, UpdateExpression="SET event = :e", ExpressionAttributeValues={":e": {"S": "x"}})
    assert gate.stack.client("dynamodb").get_item(TableName=table, Key=key)["Item"] == key
    chains = {chain for chain in ("run/x", "ws/x", "gate", "strangers") if not refused(dynamodb.transact_write_items, TransactItems=[
        {"Put": {"TableName": table, "Item": {"pk": {"S": chain}, "sk": {"S": role}}}}])}
    assert chains == {item.removeprefix("CHAIN#") for item in ITEMS.get(name, RUNS + LINE) if item.startswith("CHAIN#")}


@pytest.mark.parametrize("name", ["archive", "announce", "witness"])
def test_who_copies_or_tells_the_audit_cannot_write_it(gate, name):
    dynamodb, key = gate.client(f"plangate-{name}", "dynamodb"), {"pk": {"S": "run/x"}, "sk": {"S": name}}
    for table in (gate.outputs["AuditTable"], gate.outputs["Table"]):
        assert refused(dynamodb.put_item, TableName=table, Item=key)
        assert refused(dynamodb.transact_write_items, TransactItems=[{"Put": {"TableName": table, "Item": key}}])
        assert refused(dynamodb.delete_item, TableName=table, Key=key)
    moved = {"TableName": gate.outputs["Table"], "IndexName": "lists", "KeyConditionExpression": "lists_pk = :x"}
    assert refused(dynamodb.query, **moved, ExpressionAttributeValues={":x": {"S": "HEADS#2026-11-30"}}) == (name == "announce")
    assert refused(dynamodb.query, **moved, ExpressionAttributeValues={":x": {"S": "RUNS#x"}})


@pytest.mark.parametrize("key", ["events/gate/%.json", "tampering/gate/%.json", "witnesses/%.json", "other/%.json"])
def test_the_archive_has_its_writers_and_forgets_nothing(gate, estate, key):
    bucket, writer = gate.outputs["ArchiveBucket"], {"events": "archive", "tampering": "archive", "witnesses": "witness"}.get(key.split("/")[0])
    store = lambda s3, name, **more: refused(s3.put_object, Bucket=bucket, Key=key.replace("%", name), Body=b"{}", **more)  # noqa: E731
    assert {name for name in CONTROL if not store(gate.client(f"plangate-{name}", "s3"), name, IfNoneMatch="*")} == {writer} - {None}
    assert store(estate.client("s3"), "estate", IfNoneMatch="*")
    if writer is None:
        return
    written = key.replace("%", writer)
    assert store(gate.client(f"plangate-{writer}", "s3"), "over")
    for s3 in (estate.client("s3"), gate.client(f"plangate-{writer}", "s3")):
        assert refused(s3.delete_object, Bucket=bucket, Key=written)
    # Under the lock, for the account's root too, once it has done away with the policy.
    root = gate.stack.client("s3")
    version = root.list_object_versions(Bucket=bucket, Prefix=written)["Versions"][0]["VersionId"]
    assert root.get_object_retention(Bucket=bucket, Key=written)["Retention"]["Mode"] == "COMPLIANCE"
    policy = root.get_bucket_policy(Bucket=bucket)["Policy"]
    root.delete_bucket_policy(Bucket=bucket)
    try:
        assert refused(root.delete_object, Bucket=bucket, Key=written, VersionId=version)
    finally:
        root.put_bucket_policy(Bucket=bucket, Policy=policy)


def test_an_auditor_reads_the_audit_and_nothing_else(gate):
    arn = gate.person("auditor-of-the-gate")
    iam = gate.stack.client("iam")
    iam.detach_role_policy(RoleName="auditor-of-the-gate", PolicyArn=gate.wide)
    iam.attach_role_policy(RoleName="auditor-of-the-gate", PolicyArn=gate.outputs["AuditorPolicyArn"])
    session, archive = gate.stack.session_for_role(arn, "test"), gate.outputs["ArchiveBucket"]
    dynamodb, s3 = session.client("dynamodb"), session.client("s3")
    assert not refused(dynamodb.scan, TableName=gate.outputs["AuditTable"])
    assert refused(dynamodb.scan, TableName=gate.outputs["Table"])
    read = lambda pk: refused(dynamodb.get_item, TableName=gate.outputs["Table"], Key={"pk": {"S": pk}, "sk": {"S": "x"}})  # noqa: E731
    assert (read("CHAIN#gate"), read("RUN#x"), read("DOC#policy#x")) == (False, True, True)
    assert not refused(s3.list_object_versions, Bucket=archive)
    gate.client("plangate-archive", "s3").put_object(Bucket=archive, Key="events/gate/read.json", Body=b"{}", IfNoneMatch="*")
    assert not refused(s3.get_object, Bucket=archive, Key="events/gate/read.json")
    assert refused(s3.put_object, Bucket=archive, Key="events/gate/new.json", Body=b"{}", IfNoneMatch="*")
    assert refused(s3.get_object, Bucket=gate.bucket, Key=f"projections/{OURS}/{RUN}.json")


@pytest.mark.parametrize("name", WRITING)
def test_a_function_writes_its_own_kinds_of_items_inside_a_transaction_alone(gate, name):
    dynamodb, table, mine = gate.client(f"plangate-{name}", "dynamodb"), gate.outputs["Table"], ITEMS.get(name, RUNS + LINE)
    item = lambda pk: {"pk": {"S": pk}, "sk": {"S": f"written by {name}"}}  # noqa: E731
    together = lambda *writes: refused(dynamodb.transact_write_items, TransactItems=[*writes])  # noqa: E731
    kinds = RUNS + LINE + CONFIGURATION + CHATS + ["AUTO#x", "DRIFT#x", "POLICY#x", "OTHER#x", "RUN", "DOCS#x"]
    assert [pk for pk in kinds if not together({"Put": {"TableName": table, "Item": item(pk)}})] == [pk for pk in kinds if pk in mine]
    assert not together(*({"Put": {"TableName": table, "Item": item(pk)}} for pk in mine))
    assert together(*({"Put": {"TableName": table, "Item": item(pk)}} for pk in [*mine, "OTHER#x"]))
    assert refused(dynamodb.put_item, TableName=table, Item=item(mine[0]))
    assert refused(dynamodb.delete_item, TableName=table, Key=item(mine[0]))
    assert refused(dynamodb.batch_write_item, RequestItems={table: [{"PutRequest": {"Item": item(mine[0])}}]})
    assert together({"Update": {"TableName": table, "Key": item(mine[0]), "UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"S": "1"}}}})
    removes = REMOVES.get(name, mine)
    assert [pk for pk in kinds if not together({"Delete": {"TableName": table, "Key": item(pk)}})] == [pk for pk in kinds if pk in removes]
    checks = {"api": mine, "prepare": ["WS#x"], "review": ["WS#x"], "request-approval": [], "slack": ["WS#x"], "notify": [], "drift": []}.get(name, mine)
    check = lambda pk: {"ConditionCheck": {"TableName": table, "Key": item(pk), "ConditionExpression": "attribute_not_exists(nothing)"}}  # noqa: E731
    assert [pk for pk in kinds if not together(check(pk))] == [pk for pk in kinds if pk in checks]
    assert together(check("DOC#workspace#x")) == (name not in ("api", "slack", "review"))
    if name == "review":  # as it writes an approval of nobody's
        assert not together(check("DOC#workspace#x"), check("WS#x"), *({"Put": {"TableName": table, "Item": item(f"{pk}y")}} for pk in mine))


@pytest.mark.parametrize("name", CONTROL)
def test_what_a_function_does_not_look_through_stays_closed(gate, name):
    dynamodb, table = gate.client(f"plangate-{name}", "dynamodb"), gate.outputs["Table"]
    found = {index for index in ("lists", "open") if not refused(
        dynamodb.query, TableName=table, IndexName=index, KeyConditionExpression=f"{index}_pk = :x", ExpressionAttributeValues={":x": {"S": "x"}})}
    assert found == {"api": {"lists"}, "sweep": {"open"}}.get(name, set())
    grants = {"KeyConditionExpression": "lists_pk = :x", "ExpressionAttributeValues": {":x": {"S": "DOCS#grant"}}}
    assert refused(dynamodb.query, TableName=table, IndexName="lists", **grants) == (name not in ("api", "slack"))
    looked = [pk for pk in LOOKS if not refused(
        dynamodb.query, TableName=table, KeyConditionExpression="pk = :x", ExpressionAttributeValues={":x": {"S": pk}})]
    assert looked == [pk for pk in LOOKS if name in LOOKS[pk]]
    assert refused(dynamodb.scan, TableName=table)
    # The audit is read by whoever shows, copies or tells it, chain by chain.
    events = {"TableName": gate.outputs["AuditTable"], "KeyConditionExpression": "pk = :x", "ExpressionAttributeValues": {":x": {"S": "run/x"}}}
    assert refused(dynamodb.query, **events) == (name not in ("api", "archive", "announce"))
    assert refused(dynamodb.get_item, TableName=gate.outputs["AuditTable"], Key={"pk": {"S": "run/x"}, "sk": {"S": "x"}})
    assert refused(gate.client(f"plangate-{name}", "s3").list_objects_v2, Bucket=gate.bucket) == (name not in MISSES)
    assert refused(gate.client(f"plangate-{name}", "logs").filter_log_events, logGroupName=gate.outputs["LogGroup"])
    s3 = gate.client(f"plangate-{name}", "s3")
    assert refused(s3.get_object, Bucket=gate.bucket, Key=f"projections/{OURS}/{RUN}.json") == (name not in ("api", "project", "review", "notify"))


@pytest.mark.parametrize("name", CONTROL)
def test_runs_are_woken_by_those_who_may_find_one_asleep(gate, name):
    states = gate.client(f"plangate-{name}", "stepfunctions")
    with pytest.raises(botocore.exceptions.ClientError) as answer:
        states.send_task_success(taskToken="nobody's", output="{}")
    code = answer.value.response["Error"]["Code"]
    assert (code == "InvalidToken") == (name in ("api", "admit", "request-approval", "conclude", "sweep", "slack")), code
    assert code in ("InvalidToken", "AccessDeniedException")


@pytest.mark.parametrize("name", CONTROL)
def test_slacks_secrets_are_read_by_those_alone_who_need_them(gate, name):
    ssm = gate.client(f"plangate-{name}", "ssm")
    for parameter in [*SLACK, "/slack/other"]:
        assert refused(ssm.get_parameter, Name=parameter, WithDecryption=True) == (name not in SLACK.get(parameter, ())), parameter
    assert refused(ssm.put_parameter, Name="/slack/bot-token", Value="mine", Type="SecureString", Overwrite=True)
    # Nobody but API Gateway and the table's stream calls them.
    for function in ("slack", "notify"):
        assert refused(gate.client(f"plangate-{name}", "lambda").invoke, FunctionName=f"plangate-{function}", InvocationType="DryRun")


@pytest.mark.parametrize("name", CONTROL)
def test_announce_alone_tells_in_the_gates_name_on_its_bus(gate, name):
    events = gate.client(f"plangate-{name}", "events")
    told = {"Source": "plangate", "DetailType": "Run applied", "Detail": "{}", "EventBusName": "default"}
    put = lambda *entries: refused(events.put_events, Entries=[{**told, **each} for each in entries])  # noqa: E731
    assert put({}) == (name != "announce")
    assert put({"Source": "somebody"})
    assert put({}, {"Source": "somebody"})
    assert put({"EventBusName": "other"})


@pytest.mark.parametrize("name", CONTROL)
def test_authorize_alone_signs_orders(gate, name):
    kms = gate.client(f"plangate-{name}", "kms")
    order = {"KeyId": gate.outputs["OrderKeyArn"], "Message": b"order", "MessageType": "RAW", "SigningAlgorithm": "ECDSA_SHA_256"}
    assert refused(kms.sign, **order) == (name != "authorize")


@pytest.mark.parametrize("name", CONTROL)
def test_review_alone_asks_reviewers_and_models(gate, name):
    call = gate.client(f"plangate-{name}", "lambda").invoke
    assert refused(call, FunctionName=f"plangate-review-{OURS}", InvocationType="DryRun") == (name != "review")
    assert refused(call, FunctionName="plangate-authorize", InvocationType="DryRun")
    assert refused(call, FunctionName="plangate-review", InvocationType="DryRun")
    bedrock = gate.client(f"plangate-{name}", "bedrock-runtime")
    said = {"messages": [{"role": "user", "content": [{"text": "x"}]}]}
    assert refused(bedrock.converse, modelId="anthropic.model-1:0", **said) == (name != "review")
    assert refused(bedrock.converse, modelId="anthropic.model-2:0", **said)
    assert refused(bedrock.converse, modelId="eu.anthropic.model-1:0", **said)


def test_a_reviewer_reads_its_workspaces_projections_and_its_models_key_and_nothing_else(gate):
    keys = {workspace: f"/plangate/reviewer/{workspace}/key" for workspace in (OURS, THEIRS)}
    sealed = {OURS: gate.ours["SealedKeyArn"], THEIRS: gate.theirs["SealedKeyArn"]}
    ssm = gate.stack.client("ssm")
    for workspace, name in keys.items():
        ssm.put_parameter(Name=name, Value="sk", Type="SecureString", KeyId=sealed[workspace])
    ssm.put_parameter(Name=f"/plangate/{OURS}/for-the-engine", Value="secret", Type="SecureString", KeyId=sealed[OURS])
    s3, own = gate.client(f"{OURS}-review", "s3"), gate.client(f"{OURS}-review", "ssm")
    assert s3.get_object(Bucket=gate.bucket, Key=f"projections/{OURS}/{RUN}.json")["Body"].read() == b"{}"
    assert own.get_parameter(Name=keys[OURS], WithDecryption=True)["Parameter"]["Value"] == "sk"
    for key in (f"projections/{THEIRS}/{RUN}.json", f"bundles/{OURS}/{RUN}.tar.zst", f"orders/{OURS}/{RUN}/plan.json", DOCUMENT):
        assert refused(s3.get_object, Bucket=gate.bucket, Key=key)
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"projections/{OURS}/forged.json", Body=b"{}", IfNoneMatch="*")
    assert refused(s3.get_object, Bucket=gate.ours["StateBucket"], Key="state/terraform.tfstate")
    assert refused(own.get_parameter, Name=keys[THEIRS], WithDecryption=True)
    assert refused(own.get_parameter, Name=f"/plangate/{OURS}/for-the-engine", WithDecryption=True)
    kms = gate.client(f"{OURS}-review", "kms")
    assert refused(kms.generate_data_key, KeyId=sealed[OURS], KeySpec="AES_256")
    assert refused(gate.client(f"{OURS}-review", "dynamodb").get_item, TableName=gate.outputs["Table"], Key={"pk": {"S": "RUN#x"}, "sk": {"S": "RUN"}})
    # Nor do the workspace's other roles, or the control plane's, read that key.
    for role in (f"{OURS}-plan", f"{OURS}-apply", "plangate-review", "plangate-api"):
        assert refused(gate.client(role, "ssm").get_parameter, Name=keys[OURS], WithDecryption=True)


def test_a_reviewer_with_a_policy_that_is_far_too_wide_keeps_to_its_own_projections(gate):
    tags = [{"Key": "plangate-workspace", "Value": OURS}]
    wide = gate.stack.session_for_role(gate.person("wide-review", "/plangate/review/", Tags=tags), "test").client("s3")
    assert not refused(wide.get_object, Bucket=gate.bucket, Key=f"projections/{OURS}/{RUN}.json")
    for key in (f"projections/{THEIRS}/{RUN}.json", f"orders/{OURS}/{RUN}/plan.json", DOCUMENT):
        assert refused(wide.get_object, Bucket=gate.bucket, Key=key)
    assert refused(wide.list_objects_v2, Bucket=gate.bucket)


def test_a_record_is_written_once(gate):
    s3, key = gate.client("plangate-prepare", "s3"), f"orders/{OURS}/{RUN}/plan.json"
    assert refused(s3.put_object, Bucket=gate.bucket, Key=key, Body=b"other")
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=gate.bucket, Key=key, Body=b"other", IfNoneMatch="*")
    claim = {"Bucket": gate.bucket, "Key": f"claims/{OURS}/{RUN}", "Body": b"", "IfNoneMatch": "*"}
    gate.client("plangate-conclude", "s3").put_object(**claim)
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        gate.client(f"{OURS}-apply", "s3").put_object(**claim)


def test_a_document_is_under_the_documents_key_or_not_at_all(gate):
    s3 = gate.client(f"{OURS}-plan", "s3")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"documents/{OURS}/plain.json", Body=b"{}", IfNoneMatch="*")


def test_plan_reads_the_state_and_cannot_write_it(gate):
    s3, bucket = gate.client(f"{OURS}-plan", "s3"), gate.ours["StateBucket"]
    assert s3.get_object(Bucket=bucket, Key="state/terraform.tfstate")["Body"].read() == b"state"
    for key in ("state/terraform.tfstate", "state/terraform.tfstate.tflock", f"sealed/{RUN}/errored.tfstate"):
        assert refused(s3.put_object, Bucket=bucket, Key=key, Body=b"x")
    assert refused(s3.delete_object, Bucket=bucket, Key="state/terraform.tfstate")
    assert refused(s3.put_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan", Body=b"swapped")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"claims/{OURS}/{RUN}-plan", Body=b"", IfNoneMatch="*")


def test_apply_locks_and_writes_the_state(gate):
    s3, bucket = gate.client(f"{OURS}-apply", "s3"), gate.ours["StateBucket"]
    lock = {"Bucket": bucket, "Key": "state/terraform.tfstate.tflock"}
    key = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": gate.ours["SealedKeyArn"]}
    s3.put_object(**lock, **key, Body=b"{}", IfNoneMatch="*")
    s3.put_object(Bucket=bucket, Key="state/terraform.tfstate", Body=b"state", **key)
    s3.delete_object(**lock)
    assert s3.get_object(Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan")["Body"].read() == b"plan"
    assert refused(s3.put_object, Bucket=bucket, Key="state/terraform.tfstate", Body=b"state", ServerSideEncryption="AES256")
    assert refused(s3.delete_object, Bucket=bucket, Key="state/terraform.tfstate")
    assert refused(s3.delete_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan")
    assert refused(s3.put_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan", Body=b"swapped", IfNoneMatch="*")


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_a_workspace_does_not_reach_another(gate, phase):
    s3 = gate.client(f"{THEIRS}-{phase}", "s3")
    assert refused(s3.get_object, Bucket=gate.ours["StateBucket"], Key="state/terraform.tfstate")
    assert refused(s3.put_object, Bucket=gate.ours["StateBucket"], Key="state/terraform.tfstate", Body=b"forged")
    kms = gate.client(f"{THEIRS}-{phase}", "kms")
    assert refused(kms.generate_data_key, KeyId=gate.ours["SealedKeyArn"], KeySpec="AES_256")
    assert refused(kms.sign, KeyId=gate.outputs["OrderKeyArn"], Message=b"order", SigningAlgorithm="ECDSA_SHA_256")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"receipts/{OURS}/{RUN}/{phase}.json", Body=b"{}", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"claims/{OURS}/{RUN}-{phase}", Body=b"", IfNoneMatch="*")
    assert refused(s3.get_object, Bucket=gate.bucket, Key=f"orders/{OURS}/{RUN}/plan.json")
    assert refused(gate.client(f"{THEIRS}-{phase}", "ssm").get_parameters, Names=[f"/plangate/{OURS}/password"], WithDecryption=True)


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_an_estates_policy_opens_nothing_of_another_workspace_in_the_exchange(gate, phase):
    s3 = gate.client(f"{THEIRS}-{phase}", "s3")
    gate.client("plangate-api", "s3").put_object(Bucket=gate.bucket, Key=f"bundles/{THEIRS}/own.tar.zst", Body=b"own")
    assert s3.get_object(Bucket=gate.bucket, Key=f"bundles/{THEIRS}/own.tar.zst")["Body"].read() == b"own"
    for key in (f"bundles/{OURS}/{RUN}.tar.zst", f"orders/{OURS}/{RUN}/plan.json", f"projections/{OURS}/{RUN}.json", DOCUMENT):
        assert refused(s3.get_object, Bucket=gate.bucket, Key=key)
    # Neither does a key in which their own name stands further on.
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"bundles/{OURS}/{THEIRS}/x", Body=b"x")
    assert refused(s3.delete_object, Bucket=gate.bucket, Key=f"bundles/{OURS}/{RUN}.tar.zst")
    assert refused(s3.list_objects_v2, Bucket=gate.bucket)
    assert refused(s3.get_bucket_policy, Bucket=gate.bucket)
    assert refused(s3.delete_bucket_policy, Bucket=gate.bucket)


@pytest.mark.parametrize("path", ["plan", "apply", "break-glass"])
def test_a_role_that_bears_no_workspace_reaches_nothing_in_the_exchange(gate, path):
    nobody, ours = (gate.stack.session_for_role(gate.person(f"{name}-{path}", f"/plangate/{path}/", Tags=tags), "test").client("s3")
                    for name, tags in (("nobodys", []), ("ours", [{"Key": "plangate-workspace", "Value": OURS}])))
    bundle = {"Bucket": gate.bucket, "Key": f"bundles/{OURS}/{RUN}.tar.zst"}
    assert not refused(ours.get_object, **bundle)
    assert refused(nobody.get_object, **bundle)
    assert refused(nobody.list_objects_v2, Bucket=gate.bucket)
    assert refused(nobody.get_bucket_policy, Bucket=gate.bucket)


@pytest.mark.parametrize(("machine", "role", "allowed"), [
    ("plan-only", f"plangate/plan/{OURS}-plan", True),
    ("plan-only", f"plangate/apply/{OURS}-apply", False),
    ("plan-only", "administrator", False),
    ("applicable", f"plangate/plan/{OURS}-plan", True),
    ("applicable", f"plangate/apply/{OURS}-apply", True),
    ("applicable", "administrator", False),
    ("applicable", "plangate/control/plangate-authorize", False),
])
def test_a_machine_runs_tasks_under_its_kind_of_role_alone(gate, machine, role, allowed):
    # A task that nothing can start ends at once; what counts is whether the request for it is admitted.
    ecs = gate.client(f"plangate-machine-{machine}", "ecs")
    asked = {"cluster": "plangate", "launchType": "FARGATE", "overrides": {"taskRoleArn": f"arn:aws:iam::{ACCOUNT}:role/{role}"}}
    assert refused(ecs.run_task, taskDefinition=gate.outputs["TaskDefinition"], **asked) == (not allowed)


def test_a_machine_runs_this_definition_in_this_cluster_alone(gate):
    ecs = gate.client("plangate-machine-applicable", "ecs")
    overrides = {"taskRoleArn": gate.ours["PlanRoleArn"]}
    other = gate.outputs["TaskDefinition"].rpartition(":")[0] + ":2"
    assert refused(ecs.run_task, cluster="plangate", taskDefinition=other, overrides=overrides)
    assert refused(ecs.run_task, cluster="default", taskDefinition=gate.outputs["TaskDefinition"], overrides=overrides)
    assert refused(ecs.register_task_definition, family="plangate-runner", containerDefinitions=[{"name": "runner", "image": "evil"}])


@pytest.mark.parametrize(("machine", "function", "allowed"), [
    ("plan-only", "conclude", True), ("plan-only", "authorize", False), ("plan-only", "request-approval", False), ("applicable", "api", False)])
def test_a_machine_calls_the_functions_of_its_runs_alone(gate, machine, function, allowed):
    call = gate.client(f"plangate-machine-{machine}", "lambda").invoke
    assert refused(call, FunctionName=f"plangate-{function}", InvocationType="DryRun") == (not allowed)


@pytest.mark.parametrize("name", CONTROL)
def test_tasks_are_found_by_api_too_and_stopped_by_conclude_and_sweep_alone(gate, name):
    ecs, finds, stops = gate.client(f"plangate-{name}", "ecs"), name in ("api", "conclude", "sweep"), name in ("conclude", "sweep")
    for status in ("RUNNING", "STOPPED"):
        assert refused(ecs.list_tasks, cluster="plangate", desiredStatus=status) == (not finds)
    assert refused(ecs.describe_tasks, cluster="plangate", tasks=["0" * 32]) == (not finds)
    try:
        assert refused(ecs.stop_task, cluster="plangate", task="0" * 32) == (not stops)
    except ecs.exceptions.InvalidParameterException:
        assert stops  # there is no such task
    assert refused(ecs.list_tasks, cluster="default") is True


@pytest.mark.parametrize("name", CONTROL)
def test_runs_are_started_by_api_and_sweep_alone_and_by_drift_where_nothing_can_be_applied(gate, name):
    states = gate.client(f"plangate-{name}", "stepfunctions")
    for machine, starts in (("Applicable", ("api", "sweep")), ("PlanOnly", ("api", "sweep", "drift"))):
        arn = gate.outputs[f"Machine{machine}Arn"]
        if name not in starts:
            assert refused(states.start_execution, stateMachineArn=arn, name=RUN, input="{}")
        assert refused(states.update_state_machine, stateMachineArn=arn, definition="{}")


def test_the_glass_is_not_broken_without_a_second_factor(gate):
    arn = f"arn:aws:iam::{ACCOUNT}:role/plangate/break-glass/{THEIRS}-break-glass"
    assert refused(gate.stack.session_for_role, arn, "night")
    iam = gate.stack.client("iam")
    attached = [[each["PolicyArn"] for each in iam.list_attached_role_policies(RoleName=f"{THEIRS}-{role}")["AttachedPolicies"]] for role in ("apply", "break-glass")]
    assert sorted(attached[0]) == sorted(attached[1])


def test_who_breaks_the_glass_finds_the_own_orders_and_the_own_bundle_in_the_exchange(gate):
    def listed(s3, workspace):
        return [found["Key"] for found in s3.list_objects_v2(Bucket=gate.bucket, Prefix=f"orders/{workspace}/")["Contents"]]

    ours, theirs = f"orders/{OURS}/{RUN}/apply.json", f"orders/{THEIRS}/{RUN}/apply.json"
    for key in (ours, theirs):
        gate.client("plangate-authorize", "s3").put_object(Bucket=gate.bucket, Key=key, Body=b"order", IfNoneMatch="*")
    # Their estate's policy permits all of S3, so what is refused is refused by the bucket.
    wide = gate.person("wide-break-glass", "/plangate/break-glass/", Tags=[{"Key": "plangate-workspace", "Value": THEIRS}])
    for s3 in (gate.stack.session_for_role(wide, "test").client("s3"), gate.client(f"{THEIRS}-apply", "s3"), gate.client(f"{THEIRS}-plan", "s3")):
        assert theirs in listed(s3, THEIRS)
        for prefix in ({}, {"Prefix": "orders/"}, {"Prefix": f"orders/{THEIRS}"}, {"Prefix": f"orders/{OURS}/"}, {"Prefix": f"bundles/{THEIRS}/"}):
            assert refused(s3.list_objects_v2, Bucket=gate.bucket, **prefix)
        assert refused(s3.list_object_versions, Bucket=gate.bucket, Prefix=f"orders/{THEIRS}/")
        assert refused(s3.get_object, Bucket=gate.bucket, Key=ours)
        assert refused(s3.put_bucket_policy, Bucket=gate.bucket, Policy="{}")
    # Without such a policy, the break-glass role alone may look for orders.
    assert refused(gate.client(f"{OURS}-apply", "s3").list_objects_v2, Bucket=gate.bucket, Prefix=f"orders/{OURS}/")
    assert refused(gate.client(f"{OURS}-plan", "s3").list_objects_v2, Bucket=gate.bucket, Prefix=f"orders/{OURS}/")
    assert ours in listed(gate.client(f"{OURS}-break-glass", "s3"), OURS)


def test_the_glass_is_broken_by_people_of_the_permission_set_that_was_named(gate):
    arn = f"arn:aws:iam::{ACCOUNT}:role/plangate/break-glass/{THEIRS}-break-glass"

    def breaks(name, path="/aws-reserved/sso.amazonaws.com/"):
        person = gate.stack.session_for_role(gate.person(name, path), "night")
        return not refused(person.client("sts").assume_role, RoleArn=arn, RoleSessionName="night")

    assert breaks("AWSReservedSSO_Emergency_0123456789abcdef")
    assert breaks("AWSReservedSSO_Emergency_fedcba9876543210", "/aws-reserved/sso.amazonaws.com/eu-central-1/")
    assert not breaks("AWSReservedSSO_Everyday_0123456789abcdef")
    assert not breaks("AWSReservedSSO_Emergency_x_0123456789abcdef")
    assert not breaks("AWSReservedSSO_Emergency_00112233445566aa", "/somebody-elses/")
