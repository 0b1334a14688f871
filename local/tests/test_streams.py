"""Batches of a table's stream: which records a function gets, and gets again."""

import json

from local.stack import wait_for

# Takes every record but the one that is named, which it takes only the second time.
TAKES_SOME = """
SEEN = os.environ["SEEN"]
def handle(event):
    names = [record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"]]
    before = open(SEEN).read() if os.path.exists(SEEN) else ""
    with open(SEEN, "a") as seen:
        print(json.dumps(names), file=seen)
    failed = [record["dynamodb"]["SequenceNumber"] for record, name in zip(event["Records"], names) if name == "b-bad" and "b-bad" not in before]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in failed]}
"""


def batches(lab, tmp_path, name, **mapping):
    """What a function gets of five items, a filtered one among them: the batches, once the last item has come."""
    table, seen, dynamodb = f"{name}-{lab.id}", tmp_path / name, lab.stack.client("dynamodb")
    stream = dynamodb.create_table(
        TableName=table, BillingMode="PAY_PER_REQUEST", AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})["TableDescription"]["LatestStreamArn"]
    for pk in ("a", "other", "b-bad", "c", "d"):
        dynamodb.put_item(TableName=table, Item={"pk": {"S": pk}})
    function = lab.function(name, TAKES_SOME, ("dynamodb:*", "*"), environment={"SEEN": str(seen)})
    pattern = {"dynamodb": {"Keys": {"pk": {"S": [{"anything-but": ["other"]}]}}}}
    made = lab.lambdas.create_event_source_mapping(
        FunctionName=function, EventSourceArn=stream, StartingPosition="TRIM_HORIZON", BatchSize=100,
        FilterCriteria={"Filters": [{"Pattern": json.dumps(pattern)}]}, **mapping)["UUID"]
    try:
        dynamodb.put_item(TableName=table, Item={"pk": {"S": "last"}})
        wait_for(lambda: seen.exists() and "last" in seen.read_text().splitlines()[-1], 30, "the last item")
        return [json.loads(line) for line in seen.read_text().splitlines()]
    finally:
        lab.lambdas.delete_event_source_mapping(UUID=made)


def test_what_a_function_could_not_take_is_brought_again_with_all_behind_it(lab, tmp_path):
    got = batches(lab, tmp_path, "partial", FunctionResponseTypes=["ReportBatchItemFailures"])
    again = next(place for place, batch in enumerate(got) if place and "b-bad" in batch)
    assert got[again][0] == "b-bad" and "a" not in got[again], got
    assert {name for batch in got[again:] for name in batch} == {"b-bad", "c", "d", "last"}, got


def test_without_the_mappings_leave_such_an_answer_means_nothing(lab, tmp_path):
    got = batches(lab, tmp_path, "whole")
    assert sum("b-bad" in batch for batch in got) == 1, got
