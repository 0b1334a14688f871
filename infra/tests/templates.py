"""Reads the templates and the state machine, and what their policies say, for the tests of this folder."""

import json
import pathlib
import re

import yaml

INFRA = pathlib.Path(__file__).resolve().parent.parent
# How an alarm reaches the topic, whether that was given or made.
HEARD = {"Fn::If": ["HasAlarmTopic", [{"Fn::If": ["MakesAlarmTopic", {"Ref": "AlarmTopic"}, {"Ref": "AlarmTopicArn"}]}], {"Ref": "AWS::NoValue"}]}
MACHINE = INFRA.parent / "statemachine/run.asl.json"


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short functions, in their long form."""


def _function(loader, tag, node):
    name = tag if tag in ("Ref", "Condition") else f"Fn::{tag}"
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        return {name: value.split(".", 1) if tag == "GetAtt" else value}
    construct = loader.construct_sequence if isinstance(node, yaml.SequenceNode) else loader.construct_mapping
    return {name: construct(node, deep=True)}


_Loader.add_multi_constructor("!", _function)


def template(name):
    """One template of this repository, as data."""
    return yaml.load((INFRA / name).read_text(), _Loader)


def state_machine():
    """The definition of a run."""
    return json.loads(MACHINE.read_text())


def texts(value):
    """The strings that a property may come to, with references left as `${Name}`; every branch of a condition."""
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    if isinstance(value, dict):
        (name, argument), = value.items()
        if name == "Ref":
            return [] if argument == "AWS::NoValue" else [f"${{{argument}}}"]
        if name == "Fn::GetAtt":
            return [f"${{{'.'.join(argument)}}}"]
        if name == "Fn::Sub":
            return [argument]
        if name == "Fn::If":
            return texts(argument[1:])
        raise AssertionError(f"no rule here reads {name}; teach it to, or write the property plainly")
    return [str(value)]


def arns(value):
    """As `texts`, with the ARN's partition, region and account as any account has them."""
    known = {"AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": "111122223333"}
    return [re.sub(r"\$\{(AWS::\w+)\}", lambda found: known[found[1]], text) for text in texts(value)]


def listed(value):
    """A list, where a policy may also have one thing alone."""
    return value if isinstance(value, list) else [value]


def branches(value):
    """The members of a list, those of every branch of a condition among them."""
    found = []
    for each in listed(value):
        several = each["Fn::If"][1:] if "Fn::If" in each else None
        found += [each] if several is None else branches([branch for branch in several if branch != {"Ref": "AWS::NoValue"}])
    return found


def of_type(found, kind):
    """The resources of a type, by their name."""
    return {name: each["Properties"] for name, each in found["Resources"].items() if each["Type"] == kind}


def policies(found):
    """Every IAM policy of a template: whose (the resource's name) and its statements, those under a condition among them."""
    for name, role in of_type(found, "AWS::IAM::Role").items():
        for policy in role.get("Policies", []):
            yield name, branches(policy["PolicyDocument"]["Statement"])
    for name, policy in of_type(found, "AWS::IAM::ManagedPolicy").items():
        yield name, branches(policy["PolicyDocument"]["Statement"])


def statements(found, effect="Allow"):
    """Every statement of every IAM policy, with whose it is."""
    return [(owner, each) for owner, several in policies(found) for each in several if each["Effect"] == effect]


def permissions(found, role):
    """The Allow statements that a role has: its own and those of the managed policies of this template."""
    names = {role}
    for text in texts(of_type(found, "AWS::IAM::Role")[role].get("ManagedPolicyArns", [])):
        names.add(text.strip("${}"))
    for name, policy in of_type(found, "AWS::IAM::ManagedPolicy").items():
        if f"${{{role}}}" in texts(policy.get("Roles", [])):
            names.add(name)
    return [statement for owner, statement in statements(found) if owner in names]


def resolved(found, chosen):
    """The template as CloudFormation reads it for these parameters: conditions decided, what is not made left out, no Fn::If left."""
    values = {name: chosen.get(name, parameter.get("Default", f"given-{name}")) for name, parameter in found["Parameters"].items()}
    assert set(chosen) <= set(values), f"no parameters: {set(chosen) - set(values)}"
    holds = {name: _holds(condition, found, values) for name, condition in found.get("Conditions", {}).items()}
    there = {name: each for name, each in found["Resources"].items() if holds.get(each.get("Condition"), True)}
    outputs = {name: each for name, each in found["Outputs"].items() if holds.get(each.get("Condition"), True)}
    return {**found, "Conditions": holds, "Resources": _decided(there, holds), "Outputs": _decided(outputs, holds)}


def _holds(condition, found, values):
    (name, argument), = condition.items()
    if name == "Condition":
        return _holds(found["Conditions"][argument], found, values)
    if name == "Fn::Not":
        return not _holds(argument[0], found, values)
    if name in ("Fn::And", "Fn::Or"):
        return (all if name == "Fn::And" else any)([_holds(each, found, values) for each in argument])
    if name == "Fn::Equals":
        return _plain(argument[0], values) == _plain(argument[1], values)
    raise AssertionError(f"no rule here reads the condition {name}; teach it to")


def _plain(value, values):
    if isinstance(value, dict):
        (name, argument), = value.items()
        if name == "Ref":
            return str(values[argument])
        if name == "Fn::Join":
            return _plain(argument[1], values)
        raise AssertionError(f"no rule here reads {name} in a condition; teach it to")
    return str(value)


NOTHING = object()


def _decided(part, holds):
    if isinstance(part, list):
        return [each for each in (_decided(each, holds) for each in part) if each is not NOTHING]
    if not isinstance(part, dict):
        return part
    if set(part) == {"Fn::If"}:
        condition, yes, no = part["Fn::If"]
        return _decided(yes if holds[condition] else no, holds)
    if part == {"Ref": "AWS::NoValue"}:
        return NOTHING
    return {key: value for key, value in ((key, _decided(each, holds)) for key, each in part.items()) if value is not NOTHING}
