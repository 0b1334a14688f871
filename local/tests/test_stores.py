"""A search of the stack finds a word wherever it was put."""

from local.stack import REGION
from local.search import Search
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


def test_a_search_leaves_out_what_was_there_before_it_and_copies_of_that_and_nothing_else(lab):
    word, stack = f"needle-{lab.id}", lab.stack
    s3, bucket = stack.client("s3"), f"search-{lab.id}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    put = lambda key, text, **more: s3.put_object(Bucket=bucket, Key=key, Body=text.encode(), **more)  # noqa: E731
    put("before", f"{word} of another")
    (stack.directory / "tmp" / f"before-{lab.id}").write_text(word)
    search = Search(stack)
    put("copy", f"{word} of another")
    put("noted", f"{word} of another", Metadata={"note": word})
    put("new", word)
    put("again", word)
    (stack.directory / "tmp" / f"new-{lab.id}").write_text(word)
    found = {place for place in search.places([word])[word] if lab.id in place}
    assert found == {f"s3://{bucket}/noted (metadata)", f"s3://{bucket}/new", f"s3://{bucket}/again", f"file://tmp/new-{lab.id}"}
    put("later", word)
    assert f"s3://{bucket}/later" in search.places([word])[word], "found once, it is found wherever it comes to be besides"
