"""Bodies of requests: strict JSON of bounded depth, without what stores cannot hold."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from nasheval.files import parse_json
from nasheval.serving.bodies import LARGEST
from nasheval.serving.problems import Problem, invalid

_Body = TypeVar("_Body", bound=BaseModel)
_VALUES = f"a text, true, false, null, a number from {-LARGEST:g} to {LARGEST:g}, or a list of such numbers"
_OPEN, _CLOSE = (ord("["), ord("{")), (ord("]"), ord("}"))


def parsed(raw: bytes, kind: type[_Body], max_depth: int) -> _Body:
    """Return the body of a request; raises a Problem that names the argument."""
    value = json_object(raw, max_depth)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"] if not str(step).startswith(("list[", "function")))
        if first["loc"][0] == "context" and len(first["loc"]) > 2:  # one of the kinds that a value may be of
            where = ".".join(map(str, first["loc"][:2]))
            raise invalid(f"{where:.80} cannot be used; accepted are {_VALUES}", where[:80]) from None
        if first["type"] == "extra_forbidden":
            known = ", ".join(kind.model_fields)
            raise invalid(
                f"there is no field {where!r:.80}; accepted are {known}", where[:80], "unknown_field"
            ) from None
        raise invalid(f"{where or 'the request'}: {first['msg']}", where[:80]) from None


def json_object(raw: bytes, max_depth: int) -> dict[str, Any]:
    """Return a JSON object; raises a Problem for anything else."""
    if raw.count(b"[") + raw.count(b"{") > max_depth and _depth(raw, max_depth) > max_depth:
        raise Problem(400, "invalid_json", f"the body is nested more than {max_depth} levels deep; send it flat")
    try:
        value = parse_json(raw)
    except ValueError as error:
        said = " ".join(str(error).split())[:200]
        raise Problem(400, "invalid_json", f"the body is {said}; accepted is one JSON object in UTF-8") from None
    if b"\\u0000" in raw and _holds_nul(value):  # the only way to spell it: as it is, JSON does not allow it
        raise invalid("a text holds the character NUL, which cannot be stored; leave it out", "")
    return value


def _holds_nul(value: object) -> bool:
    """Tell whether a text of a JSON value holds the character NUL; "\\\\u0000" spells six others."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_holds_nul(name) or _holds_nul(one) for name, one in value.items())
        case list():
            return any(map(_holds_nul, value))
        case _:
            return False


def _depth(raw: bytes, enough: int) -> int:
    """Return how deep brackets nest outside of strings; stops above `enough`."""
    depth = deepest = 0
    inside = escaped = False
    for byte in raw:
        if inside:
            inside, escaped = escaped or byte != 0x22, not escaped and byte == 0x5C
        elif byte == 0x22:
            inside = True
        elif byte in _OPEN:
            depth += 1
            deepest = max(deepest, depth)
            if deepest > enough:
                return deepest
        elif byte in _CLOSE:
            depth -= 1
    return deepest
