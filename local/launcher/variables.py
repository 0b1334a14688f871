"""Policy variables: `${aws:PrincipalTag/...}` and its like in a policy's resources and conditions.

AWS: a variable stands for the request's value of that condition key; a statement whose variable has no value does not apply. The emulator
takes the text as it is.
"""

import dataclasses
import re

from ministack.core import iam_evaluator

_VARIABLE = re.compile(r"\$\{([\w:/.@=+-]+)\}")
_first_match = iam_evaluator._first_match


class Unresolved(Exception):
    """A variable for which the request has no value."""


def install():
    """Puts the supplement in place."""
    iam_evaluator._first_match = first_match


def first_match(context, statements, effect):
    """The emulator's own, over the statements as they read for this request."""
    return _first_match(context, [read for each in statements if (read := resolved(each, context)) is not None], effect)


def resolved(statement, context):
    """The statement with the values of its variables; None if one has no value."""
    try:
        return dataclasses.replace(
            statement, resources=_filled(statement.resources, context), not_resources=_filled(statement.not_resources, context),
            conditions=_filled(statement.conditions, context))
    except Unresolved:
        return None


def _filled(part, context):
    if isinstance(part, str):
        return _VARIABLE.sub(lambda found: _value(found[1], context), part)
    if isinstance(part, list):
        return [_filled(each, context) for each in part]
    return {key: _filled(value, context) for key, value in part.items()} if isinstance(part, dict) else part


def _value(key, context):
    value = iam_evaluator._resolve_condition_key(key, context)
    if not isinstance(value, str):
        raise Unresolved(key)
    return value
