"""Functions: what they see, and who may call them."""

import http.client
import json

import botocore.auth
import botocore.awsrequest

from local.stack import ACCOUNT, REGION, wait_for

from .conftest import only

ENVIRONMENT = "def handle(event): return dict(os.environ)"


def call_api(lab, api, path, session=None):
    """GET from an HTTP API, signed if a session is given; gives status and body."""
    url = f"{lab.stack.api_url(api)}{path}"
    request = botocore.awsrequest.AWSRequest("GET", url)
    if session:
        botocore.auth.SigV4Auth(session.get_credentials().get_frozen_credentials(), "execute-api", REGION).add_auth(request)
    connection = http.client.HTTPConnection("127.0.0.1", lab.stack.port)
    connection.request("GET", path, headers={**dict(request.prepare().headers), "Host": url.split("/")[2]})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def api_for(lab, function, authorization, route="ANY /v1/{proxy+}"):
    gateway = lab.stack.client("apigatewayv2")
    api = gateway.create_api(Name=f"api-{lab.id}", ProtocolType="HTTP")["ApiId"]
    integration = gateway.create_integration(
        ApiId=api, IntegrationType="AWS_PROXY", IntegrationUri=function, PayloadFormatVersion="2.0")["IntegrationId"]
    gateway.create_route(ApiId=api, RouteKey=route, AuthorizationType=authorization, Target=f"integrations/{integration}")
    gateway.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
    return api


def permit(lab, function, service, source):
    lab.lambdas.add_permission(
        FunctionName=function, StatementId=service.split(".")[0], Action="lambda:InvokeFunction", Principal=service, SourceArn=source)


def test_a_function_sees_its_own_environment_alone(lab):
    function = lab.function("env", ENVIRONMENT, environment={"PLANGATE_TABLE": "plangate"})
    seen = json.load(lab.lambdas.invoke(FunctionName=function)["Payload"])
    assert seen["PLANGATE_TABLE"] == "plangate"
    assert seen["AWS_LAMBDA_FUNCTION_NAME"] == f"env-{lab.id}"
    assert seen["AWS_ENDPOINT_URL"] == lab.stack.endpoint
    assert lab.stack.root_key not in seen.values() and lab.stack.root_secret not in seen.values()
    assert not [name for name in seen if name.startswith(("LOCAL_", "MINISTACK", "PYTHON", "GATEWAY")) or name in ("HOME", "TMPDIR", "AUTH")]


def test_a_function_acts_as_its_role(lab):
    function = lab.function("who", "import boto3\ndef handle(event): return boto3.client('sts').get_caller_identity()['Arn']")
    arn = json.load(lab.lambdas.invoke(FunctionName=function)["Payload"])
    assert arn == f"arn:aws:sts::{ACCOUNT}:assumed-role/fn-who-{lab.id}/who-{lab.id}"


def test_an_api_tells_the_function_who_called(lab):
    function = lab.function("api", "def handle(event): return {'who': event['requestContext']['authorizer']['iam']['userArn']}")
    api = api_for(lab, function, "AWS_IAM")
    permit(lab, function, "apigateway.amazonaws.com", f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{api}/*/*/v1/{{proxy+}}")
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    role = lab.iam.create_role(RoleName=f"alice-{lab.id}", AssumeRolePolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [trust]}))["Role"]["Arn"]
    alice = lab.stack.session_for_role(role, "laptop")
    assert call_api(lab, api, "/v1/runs", alice) == (403, {"message": "Forbidden"})
    lab.allow(role, ("execute-api:Invoke", f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{api}/*/GET/v1/*"))
    assert call_api(lab, api, "/v1/runs?a=b", alice) == (
        200, {"who": f"arn:aws:sts::{ACCOUNT}:assumed-role/alice-{lab.id}/laptop"})
    assert call_api(lab, api, "/v1/runs") == (403, {"message": "Forbidden"})


def test_a_route_without_authorization_takes_unsigned_requests(lab):
    function = lab.function("open", "def handle(event): return {'open': True}")
    api = api_for(lab, function, "NONE", "GET /callback")
    permit(lab, function, "apigateway.amazonaws.com", f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{api}/*/*/callback")
    assert call_api(lab, api, "/callback") == (200, {"open": True})


def test_an_api_calls_only_a_function_that_lets_it(lab):
    function = lab.function("closed", "def handle(event): return 1")
    api = api_for(lab, function, "NONE", "GET /callback")
    assert call_api(lab, api, "/callback") == (500, {"message": "Internal Server Error"})
    permit(lab, function, "apigateway.amazonaws.com", f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{api}/*/*/other")
    assert call_api(lab, api, "/callback")[0] == 500


MARK = '''
import boto3
def handle(event):
    boto3.client("ssm").put_parameter(Name=event["mark"], Value=json.dumps(event), Type="String", Overwrite=True)
'''


def marked(lab, name):
    return wait_for(lambda: lab.stack.client("ssm").get_parameters(Names=[name])["Parameters"], 30, f"the mark {name}")


def unmarked(lab, name):
    return not lab.stack.client("ssm").get_parameters(Names=[name])["Parameters"]


def test_a_rule_hears_of_ended_executions_and_calls_only_a_function_that_lets_it(lab):
    function = lab.function("mark", MARK, ("ssm:PutParameter", "*"))
    machine = lab.machine(only({"Type": "Pass", "End": True}))
    events = lab.stack.client("events")
    for name, allowed in (("open", True), ("closed", False)):
        rule = events.put_rule(Name=f"{name}-{lab.id}", EventPattern=json.dumps({
            "source": ["aws.states"], "detail-type": ["Step Functions Execution Status Change"],
            "detail": {"status": ["SUCCEEDED"], "stateMachineArn": [machine]}}))["RuleArn"]
        if allowed:
            permit(lab, function, "events.amazonaws.com", rule)
        # Its own name, so that the two can be told apart.
        events.put_targets(Rule=f"{name}-{lab.id}", Targets=[{"Id": "mark", "Arn": function, "InputTransformer": {
            "InputPathsMap": {"run": "$.detail.name"}, "InputTemplate": f'{{"mark": "/{lab.id}/{name}", "run": <run>}}'}}])
    execution = lab.start(machine)
    assert execution.rsplit(":", 1)[-1] in marked(lab, f"/{lab.id}/open")[0]["Value"]
    assert unmarked(lab, f"/{lab.id}/closed")


def test_a_schedule_calls_under_its_own_role(lab):
    function = lab.function("mark", MARK, ("ssm:PutParameter", "*"))
    scheduler = lab.stack.client("scheduler")
    without = lab.role("without", "scheduler.amazonaws.com")
    allowed = lab.role("with", "scheduler.amazonaws.com", ("lambda:InvokeFunction", function))
    # The one without the permission comes first: once the other has fired, it had its turn.
    for name, role in (("closed", without), ("open", allowed)):
        scheduler.create_schedule(
            Name=f"{name}-{lab.id}", ScheduleExpression="at(2026-01-01T00:00:00)", FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": function, "RoleArn": role, "Input": json.dumps({"mark": f"/{lab.id}/{name}"})})
    marked(lab, f"/{lab.id}/open")
    assert unmarked(lab, f"/{lab.id}/closed")
