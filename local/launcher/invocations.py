"""Who may call a function: services that do so on somebody's behalf.

AWS: EventBridge and API Gateway call a function only if its resource policy lets them, for that rule or that route; Scheduler calls under
the schedule's role. The emulator: they all call.
"""

import logging

from ministack.core import iam_evaluator
from ministack.core.arn import execute_api_arn
from ministack.core.responses import get_account_id, get_region
from ministack.services import apigateway, eventbridge, lambda_svc

from . import roles

logger = logging.getLogger("local.invocations")
_invoke_target, _invoke_lambda_proxy = eventbridge._invoke_target, apigateway._invoke_lambda_proxy


def install():
    """Puts the supplements in place."""
    eventbridge._invoke_target = invoke_target
    apigateway._invoke_lambda_proxy = invoke_lambda_proxy


def lets(function_arn, service, source_arn):
    """Whether the function's resource policy lets `service` call it for `source_arn`."""
    found = lambda_svc.function_policy_for_arn(function_arn)
    context = iam_evaluator.EvalContext(
        principal_arn=service, principal_type="Service", principal_account=get_account_id(), action="lambda:InvokeFunction",
        resource_arn=function_arn, region=get_region(),
        service_context={"aws:sourcearn": source_arn, "aws:sourceaccount": get_account_id()})
    policy = found[0] if found else None
    return iam_evaluator.evaluate_resource_policy(policy, context, service=service).decision == "Allow"


def invoke_target(target, event, rule, view=None):
    """The target of a rule or of a schedule, if it may be called."""
    arn = target.get("Arn", "")
    if ":lambda:" in arn:
        if "FlexibleTimeWindow" in rule:
            try:
                roles.require(target.get("RoleArn", ""), "scheduler", "lambda:InvokeFunction", arn)
            except roles.AccessDenied as denied:
                logger.warning("the schedule %s does not fire: %s", rule.get("Arn"), denied)
                return None
        elif not lets(arn, "events.amazonaws.com", rule.get("Arn", "")):
            logger.warning("the rule %s may not call %s", rule.get("Arn"), arn)
            return None
    return _invoke_target(target, event, rule, view)


async def invoke_lambda_proxy(integration, api_id, stage, path, method, *rest, **named):
    """The function of an HTTP API's route; AWS answers 500 if the function does not let the API call it."""
    function = apigateway._extract_lambda_ref_from_integration_uri(integration.get("integrationUri", ""))
    route = named.get("route_key") or (rest[3] if len(rest) > 3 else "$default")
    # AWS names the route here, not the path that was asked for.
    verb, _, pattern = route.partition(" ")
    source = execute_api_arn(get_region(), get_account_id(), api_id, stage, "*" if verb == "ANY" else verb, pattern or "/")
    if function and function.startswith("arn:") and not lets(function, "apigateway.amazonaws.com", source):
        logger.warning("the API %s may not call %s for %s", api_id, function, source)
        return 500, {"Content-Type": "application/json"}, b'{"message":"Internal Server Error"}'
    return await _invoke_lambda_proxy(integration, api_id, stage, path, method, *rest, **named)
