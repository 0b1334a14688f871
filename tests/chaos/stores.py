"""What the stores of a gate hold, as plain data for the checker: read with boto3, never through plangate's code or its API."""

import dataclasses
import json

FORGED = "chaos-forged"  # the metadata of objects that the campaign's attackers write: what they say is nobody's doing but theirs


@dataclasses.dataclass(frozen=True)
class Change:
    """One change of an item, in the order in which the table took them. Images are attributes as text; None: not there."""

    at: int
    pk: str
    sk: str
    before: dict | None
    after: dict | None


@dataclasses.dataclass(frozen=True)
class Version:
    """One version of an object, or of its deletion (`content` is None). `forged`: written by the campaign itself."""

    key: str
    version: str
    content: bytes | None
    forged: bool = False


@dataclasses.dataclass(frozen=True)
class Trace:
    """A mark that an apply has left outside of the gate: an engine that was started, or a resource that was made."""

    run: str
    at: float
    marker: str = ""


@dataclasses.dataclass
class Stores:
    """Everything that the checker judges from."""

    taken_at: int = 0
    items: dict = dataclasses.field(default_factory=dict)  # (pk, sk): attributes
    audit: dict = dataclasses.field(default_factory=dict)  # chain: its items, in order
    changes: list = dataclasses.field(default_factory=list)  # of the table, oldest first
    audit_changes: list = dataclasses.field(default_factory=list)
    exchange: dict = dataclasses.field(default_factory=dict)  # key: versions, oldest first
    estates: dict = dataclasses.field(default_factory=dict)  # bucket: {key: versions, oldest first}
    executions: dict = dataclasses.field(default_factory=dict)  # run: [(kind of machine, status)]
    engines: list = dataclasses.field(default_factory=list)  # traces of engines that were started to apply
    made: list = dataclasses.field(default_factory=list)  # traces of resources that were made

    def body(self, pk, sk):
        """The body of an item as JSON; None if there is none, or no JSON."""
        return body(self.items.get((pk, sk)))


def body(image):
    """The body of an image as JSON; None if there is none, or it is no JSON."""
    try:
        return json.loads(image["body"]) if image else None
    except (KeyError, ValueError):
        return None


def plain(image):
    """An image without DynamoDB's types: texts, and numbers as text."""
    return {name: value.get("S", value.get("N")) for name, value in image.items()} if image is not None else None


class Reader:
    """Reads the stores of a deployed gate, again and again; what cannot have changed is not read twice."""

    def __init__(self, stack, outputs, journal):
        self._stack, self._outputs, self._journal = stack, outputs, journal
        self._streams, self._changes, self._objects = {}, {}, {}
        dynamodb = stack.client("dynamodb")
        # The audit table has its stream already; the table gets one here, so that each change can be looked at in its order.
        dynamodb.update_table(TableName=outputs["Table"], StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
        for table in (outputs["Table"], outputs["AuditTable"]):
            arn = dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"]
            streams = stack.client("dynamodbstreams")
            shard, = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
            self._streams[table] = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
            self._changes[table] = []

    def read(self, now):
        """Reads everything; the stack should be at rest, or what is read is of several moments."""
        table, audit = self._outputs["Table"], self._outputs["AuditTable"]
        stores = Stores(taken_at=int(now))
        stores.changes, stores.audit_changes = self._stream(table), self._stream(audit)
        stores.items = {(item["pk"], item["sk"]): item for item in self._scan(table)}
        for item in sorted(self._scan(audit), key=lambda item: (item["pk"], int(item["sk"]))):
            stores.audit.setdefault(item["pk"], []).append(item)
        stores.exchange = self._bucket(self._outputs["ExchangeBucket"])
        for (pk, _), item in list(stores.items.items()):
            if pk.startswith("DOC#workspace#") and (document := body(item)) is not None:
                bucket = document["spec"]["sealed_bucket"]
                stores.estates[bucket] = self._bucket(bucket)
        for kind, output in (("applicable", "MachineApplicableArn"), ("plan-only", "MachinePlanOnlyArn")):
            pages = self._stack.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=self._outputs[output])
            for execution in (each for page in pages for each in page["executions"]):
                stores.executions.setdefault(execution["name"], []).append((kind, execution["status"]))
        stores.engines, stores.made = self._journal.engines(), self._journal.made()
        return stores

    def _scan(self, table):
        pages = self._stack.client("dynamodb").get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        return [plain(item) for page in pages for item in page["Items"]]

    def _stream(self, table):
        streams = self._stack.client("dynamodbstreams")
        while True:
            page = streams.get_records(ShardIterator=self._streams[table])
            for record in page["Records"]:
                change = record["dynamodb"]
                at = change["ApproximateCreationDateTime"]
                keys = plain(change["Keys"])
                self._changes[table].append(Change(
                    int(at if isinstance(at, (int, float)) else at.timestamp()), keys["pk"], keys["sk"],
                    plain(change.get("OldImage")), plain(change.get("NewImage"))))
            self._streams[table] = page.get("NextShardIterator") or self._streams[table]
            if not page["Records"]:
                return list(self._changes[table])

    def _bucket(self, bucket):
        s3, found = self._stack.client("s3"), {}
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for each in page.get("Versions", []):
                found.setdefault(each["Key"], []).append((each["LastModified"], self._object(s3, bucket, each["Key"], each["VersionId"])))
            for each in page.get("DeleteMarkers", []):
                found.setdefault(each["Key"], []).append((each["LastModified"], Version(each["Key"], each["VersionId"], None)))
        # S3 lists the newest first; where two are of one moment that order stands.
        return {key: [version for _, version in sorted(reversed(versions), key=lambda each: each[0])] for key, versions in found.items()}

    def _object(self, s3, bucket, key, version):
        if (bucket, key, version) not in self._objects:
            got = s3.get_object(Bucket=bucket, Key=key, VersionId=version)
            self._objects[bucket, key, version] = Version(key, version, got["Body"].read(), FORGED in got["Metadata"])
        return self._objects[bucket, key, version]
