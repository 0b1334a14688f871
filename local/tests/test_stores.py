"""A search of the stack finds a word wherever it was put."""

from local.stack import REGION
from local.stores import everything

from .conftest import only


def test_a_word_is_found_in_every_store(lab):
    word, stack = f"needle-{lab.id}", lab.stack
    s3, bucket = stack.client("s3"), f"stores-{lab.id}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket=bucket, Key="old", Body=word.encode())
    s3.put_object(Bucket=bucket, Key="old", Body=b"", Metadata={"note": word})
    stack.client("dynamodb").create_table(
        TableName=f"stores-{lab.id}", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
    stack.client("dynamodb").put_item(TableName=f"stores-{lab.id}", Item={"pk": {"S": "a"}, "b": {"M": {"c": {"S": word}}}})
    stack.client("ssm").put_parameter(Name=f"/stores/{lab.id}", Value=word, Type="String")
    stack.client("ssm").put_parameter(Name=f"/stores/{lab.id}/sealed", Value=word, Type="SecureString")
    function = lab.function("say", "def handle(event): print(event['word'], flush=True)", environment={"WORD": word})
    lab.run(lab.machine(only({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True, "Arguments": {
        "FunctionName": function, "Payload": {"word": "{% $states.input.word %}"}}}), ("lambda:InvokeFunction", function)), {"word": word})
    (stack.directory / "tmp" / f"left-{lab.id}").write_text(word)
    places = {place for place, content in everything(stack) if word.encode() in content}
    for prefix in (f"s3://{bucket}/old", f"s3://{bucket}/old (metadata)", f"dynamodb://stores-{lab.id}/a", f"ssm:///stores/{lab.id}",
                   f"logs:///aws/lambda/say-{lab.id}", "states://", f"lambda://say-{lab.id}", f"file://tmp/left-{lab.id}"):
        assert any(place == prefix or place.startswith(f"{prefix}/") or prefix.endswith("//") and place.startswith(prefix) for place in places), (prefix, places)
    assert f"ssm:///stores/{lab.id}/sealed" not in places
