"""Tampering with the stores of a gate that runs, by whoever has all power over them."""

import contextlib
import json

import pytest
from auditor import Auditor, sealed
from gate import gate_of_its_own
from patience import wait_until


@pytest.fixture(scope="module")
def world():
    """A gate of its own: what is noticed stays in its archive for good."""
    with gate_of_its_own("tampering") as world:
        yield world


def test_tampering_with_the_stores_themselves_is_noticed_archived_and_found(world, workspace):
    auditor, shop = Auditor(world), workspace()
    run = shop.waiting()
    run.cancel()
    run.ended_well("canceled")
    auditor.archived()
    dynamodb, s3, chain = world.stack.client("dynamodb"), world.stack.client("s3"), f"run/{run.id}"
    table, key = world.outputs["AuditTable"], {"pk": {"S": chain}, "sk": {"S": "0000000002"}}
    item = dynamodb.get_item(TableName=table, Key=key)["Item"]
    event, digest = sealed({**json.loads(item["event"]["S"]), "at": "2020-01-01T00:00:00Z"})
    dynamodb.put_item(TableName=table, Item={**item, "event": {"S": event}, "digest": {"S": digest}})
    noticed, = wait_until(lambda: auditor.noticed(chain), "the change to be noticed")
    assert (noticed["kind"], noticed["before"], noticed["after"]) == ("modified", item["digest"]["S"], digest)
    # What the archive has is what happened.
    assert world.object(auditor.key(chain, 2), auditor.bucket).decode() == item["event"]["S"]
    first = auditor.verify(expect=1)["findings"][0]
    assert (first["chain"], first["seq"], first["source"], first["fault"]["code"]) == (chain, 2, "table", "rewritten")

    dynamodb.put_item(TableName=table, Item=item)
    dynamodb.delete_item(TableName=table, Key={"pk": {"S": chain}, "sk": {"S": "0000000003"}})
    wait_until(lambda: {"modified", "removed"} <= {each["kind"] for each in auditor.noticed(chain)}, "the removal to be noticed")
    first = auditor.verify(expect=1)["findings"][0]
    assert (first["chain"], first["seq"], first["source"], first["fault"]["code"]) == (chain, 3, "table", "missing")

    # Whoever may change the bucket's policy can lay something over an object, and cannot take away what is there.
    covered = auditor.key(chain, 1)
    policy = s3.get_bucket_policy(Bucket=auditor.bucket)["Policy"]
    s3.delete_bucket_policy(Bucket=auditor.bucket)
    try:
        s3.put_object(Bucket=auditor.bucket, Key=covered, Body=b"{}")
        version = s3.list_object_versions(Bucket=auditor.bucket, Prefix=covered)["Versions"][-1]["VersionId"]
        with contextlib.suppress(s3.exceptions.ClientError):
            s3.delete_object(Bucket=auditor.bucket, Key=covered, VersionId=version)
    finally:
        s3.put_bucket_policy(Bucket=auditor.bucket, Policy=policy)
    first = auditor.verify(expect=1)["findings"][0]
    assert (first["chain"], first["seq"], first["source"], first["fault"]["code"]) == (chain, 1, "archive", "covered")
