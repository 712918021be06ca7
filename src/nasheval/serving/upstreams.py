"""`upstreams.toml`: where the gateway finds each agent, under which key, at what price and with how much patience.

[upstreams.small]
url = "http://127.0.0.1:11434/v1"      # any OpenAI-compatible base URL
model = "llama3.2"                     # its name there; without it, the agent's
key = "SMALL_API_KEY"                  # the environment variable that holds the key; without it, none is sent
prices = { input = 0.15, output = 0.6 }                            # per million tokens, in your units
seconds = { connect = 5, first_byte = 60, between_bytes = 60, whole = 300 }   # time-outs

[policies.cheap]                       # a name to ask for in place of "nasheval"
cost_weight = 0.5                      # also: budget, agents
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from nasheval.errors import Argument, InputError, ReadError

LOTTERY = "nasheval"  # the model to ask for where the lottery is to choose
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MILLION = 1e6


@dataclass(frozen=True)
class Seconds:
    """Time-outs of an upstream.

    Args:
        connect: until it accepts a connection.
        first_byte: until a streamed answer begins.
        between_bytes: of silence within a streamed answer.
        whole: until an answer that is not streamed is there.
    """

    connect: float = 5.0
    first_byte: float = 60.0
    between_bytes: float = 60.0
    whole: float = 300.0


@dataclass(frozen=True)
class Prices:
    """What a million tokens cost, in the user's units."""

    input: float = 0.0
    output: float = 0.0

    def of(self, usage: object) -> float | None:
        """Return what a request cost, given the usage that the upstream states; None where it states none."""
        if not isinstance(usage, Mapping):
            return None
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        read, written = (count if isinstance(count, int) and count >= 0 else 0 for count in counts)
        return (read * self.input + written * self.output) / _MILLION


@dataclass(frozen=True)
class Upstream:
    """Where one agent is found. It names the variable of its key; the key itself is read when a request is made.

    Args:
        agent: its name in the model of votes.
        url: base URL, up to and with /v1.
        model: its name at the upstream.
        key: environment variable that holds the key; "": none is sent.
        prices: of tokens.
        seconds: time-outs.
    """

    agent: str
    url: str
    model: str
    key: str = ""
    prices: Prices = field(default_factory=Prices)
    seconds: Seconds = field(default_factory=Seconds)

    @property
    def secret(self) -> str:
        """The key, read from the environment at each request; "" where there is none."""
        return os.environ.get(self.key, "").strip() if self.key else ""


@dataclass(frozen=True)
class NamedPolicy:
    """Terms of the lottery under a name of their own.

    Args:
        name: what to ask for as `model`.
        agents: those that may be chosen; None: all with an upstream.
        budget, cost_weight: as in /v1/route.
    """

    name: str
    agents: tuple[str, ...] | None = None
    budget: float | None = None
    cost_weight: float | None = None


@dataclass(frozen=True)
class Upstreams:
    """All that an `upstreams.toml` says: upstreams by agent, policies by name; "nasheval" is always one of these."""

    upstreams: Mapping[str, Upstream]
    policies: Mapping[str, NamedPolicy]

    def without_key(self) -> list[str]:
        """Return the variables that are named and not set."""
        return sorted({one.key for one in self.upstreams.values() if one.key and not one.secret})


def read_upstreams(path: str | Path) -> Upstreams:
    """Return what a file of upstreams says; a ReadError names the entry that cannot be used."""
    try:
        written = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            *(Argument("upstreams", str(path)), ": there is no such file; docs/guides/gateway.md has one.")
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        _refuse(path, f"it cannot be read as TOML ({error})")
    _require_known(path, "the file", written, ("upstreams", "policies"))
    tables = {name: _table(path, name, written.get(name, {})) for name in ("upstreams", "policies")}
    found = {agent: _upstream(path, agent, entry) for agent, entry in tables["upstreams"].items()}
    if not found:
        _refuse(path, "it names no upstream")
    policies = {LOTTERY: NamedPolicy(LOTTERY)}
    for name, entry in tables["policies"].items():
        policies[name] = _policy(path, name, entry, found)
    if both := sorted(set(found) & set(policies)):
        _refuse(path, f"{both[0]!r:.80} is the name of an upstream and of a policy")
    return Upstreams(found, policies)


def _upstream(path: str | Path, agent: str, given: object) -> Upstream:
    where = f"[upstreams.{agent:.80}]"
    entry = _table(path, where, given)
    _require_known(path, where, entry, ("url", "model", "key", "prices", "seconds"))
    url, key = entry.get("url"), entry.get("key", "")
    _require_url(path, where, url)
    if not isinstance(key, str) or (key and not _VARIABLE.fullmatch(key)):
        # What stands there may be the key itself, so it is not repeated.
        _refuse(path, f"{where} key is not the name of an environment variable, such as OPENAI_API_KEY")
    model = entry.get("model", agent)
    if not isinstance(model, str) or not model:
        _refuse(path, f"{where} model is no name")
    prices = _numbers(path, f"{where} prices", entry.get("prices", {}), Prices, least=0.0)
    seconds = _numbers(path, f"{where} seconds", entry.get("seconds", {}), Seconds, least=1e-3)
    return Upstream(agent, str(url).rstrip("/"), model, key, Prices(**prices), Seconds(**seconds))


def _policy(path: str | Path, name: str, given: object, upstreams: Mapping[str, Upstream]) -> NamedPolicy:
    where = f"[policies.{name:.80}]"
    entry = _table(path, where, given)
    _require_known(path, where, entry, ("agents", "budget", "cost_weight"))
    agents = entry.get("agents")
    if agents is not None and (not isinstance(agents, list) or not agents or any(a not in upstreams for a in agents)):
        _refuse(path, f"{where} agents are not a list of upstreams of this file")
    terms = {term: entry[term] for term in ("budget", "cost_weight") if term in entry}
    for term, value in terms.items():
        if not _is_number(value, 0.0):
            _refuse(path, f"{where} {term} is {value!r:.40} in place of a number from 0")
    return NamedPolicy(name, None if agents is None else tuple(agents), **terms)


def _require_url(path: str | Path, where: str, url: object) -> None:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        parts, fine = urlsplit(""), False
    if not fine:
        _refuse(path, f"{where} url is no base URL, such as https://api.example.org/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        _refuse(path, f"{where} url holds more than scheme, host and path; keys belong in environment variables")


def _numbers(path: str | Path, where: str, given: object, kind: Any, *, least: float) -> dict[str, float]:
    entry = _table(path, where, given)
    _require_known(path, where, entry, tuple(one.name for one in fields(kind)))
    for name, value in entry.items():
        if not _is_number(value, least):
            _refuse(path, f"{where}.{name} is {value!r:.40} in place of a number from {least:g}")
    return {name: float(value) for name, value in entry.items()}


def _is_number(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= least


def _table(path: str | Path, where: str, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        _refuse(path, f"{where} is no table")
    return given


def _require_known(path: str | Path, where: str, entry: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in entry:
        if name not in known:
            _refuse(path, f"{where} holds {name!r:.80}; accepted are {', '.join(known)}")


def _refuse(path: str | Path, what: str) -> NoReturn:
    fix = 'write it as [upstreams.AGENT] with url = "https://.../v1" and key = "VARIABLE"'
    raise ReadError(what, source=str(path), fix=fix)


def require_some(upstreams: Upstreams, agents: tuple[str, ...]) -> None:
    """Raise an InputError where none of the model's agents has an upstream."""
    if not set(upstreams.upstreams) & set(agents):
        theirs, ours = ", ".join(list(upstreams.upstreams)[:5]), ", ".join(agents[:5])
        raise InputError(f"No agent of the model has an upstream: the file names {theirs}; the model knows {ours}.")
