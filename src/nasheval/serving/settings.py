"""`Settings`: all that a service is told, the same in every worker."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from nasheval.errors import Argument, InputError

VARIABLE = "NASHEVAL_SERVING"  # how workers are told, which are processes of their own
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a service is told.

    Args:
        model: folder of the model that is served first; None: the one that the store names.
        store: where decisions and votes are kept: sqlite:///votes.db or postgresql://user@host/name.
        models: folder in which versions of the model are kept; "": beside the SQLite file, else "models".
        keys: TOML file of API keys (`nasheval keys`); "": none, which is refused beyond loopback.
        host, port: where to listen.
        workers: processes.
        default: agent to answer where the model is unsure; "": never.
        new_agents: agents that the model does not know, which may be voted on with menus of the caller's own.
        floor: share of the menus of /v1/compare that is drawn uniformly, so that every pair is asked.
        keep_prompts: whether prompts are kept as they are; else a keyed hash and their embedding.
        retention_days: decisions and votes older than this are deleted; 0: never.
        session_hours: how long a session keeps its agent after its last request.
        max_body: bytes of a request.
        max_depth: nesting of a request.
        body_seconds: until a request must have arrived.
        rate: requests per second and client over all workers, twice that at once; 0: no limit.
        in_flight: requests that a worker holds at once.
        origins: web pages that may call it (CORS), such as https://arena.example.org.
        hosts: names it answers to where there are no keys, beside those of this machine.
        poll_seconds: between looks at which version serves.
        text_encoder: what embeds texts, where the model does not hold it.
        upstreams: TOML file of the gateway's upstreams; "": no gateway.
        log_requests: whether each request is logged, without its content.
        run_folder: where workers share their counters; made by `serve`.
    """

    model: str | None = None
    store: str = "sqlite:///votes.db"
    models: str = ""
    keys: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    default: str = ""
    new_agents: tuple[str, ...] = ()
    floor: float = 0.2
    keep_prompts: bool = False
    retention_days: float = 0.0
    session_hours: float = 24.0
    max_body: int = 1 << 18
    max_depth: int = 16
    body_seconds: float = 10.0
    rate: float = 0.0
    in_flight: int = 1000
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    poll_seconds: float = 1.0
    text_encoder: str = ""
    upstreams: str = ""
    log_requests: bool = False
    run_folder: str = ""

    def __post_init__(self) -> None:
        for name in ("new_agents", "origins", "hosts"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise InputError(Argument(name, value), f": accepted is a number from {least:g} to {most:g}.")
        object.__setattr__(self, "origins", tuple(map(_origin, self.origins)))
        if not self.is_local and not self.keys:
            raise InputError(
                f"{self.host} can be reached from other machines, and there are no keys; make some with `nasheval keys "
                "new --scope route,vote`, and give their file with ",
                *(Argument("keys", "keys.toml"), ", or listen on ", Argument("host", "127.0.0.1"), "."),
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names that a request may be addressed to where there are no keys: others are a web page's trick."""
        return (*_LOCAL_NAMES, *self.hosts)

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return what `to_json` wrote."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in json.loads(text).items() if name in known})

    @classmethod
    def of_environment(cls) -> Settings:
        """Return what the process that started this worker told it."""
        text = os.environ.get(VARIABLE)
        if not text:
            raise InputError(f"{VARIABLE} is not set; start the service with `nasheval serve model/`.")
        return cls.from_json(text)

    @property
    def models_folder(self) -> Path:
        """Where versions of the model are kept."""
        return models_folder(self.models, self.store)


def _origin(given: str) -> str:
    """Return the origin of a web page as browsers send it, checked."""
    if given == "*":
        raise InputError("origins holds '*', every page of the web; name those that may call it.")
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        said = "; accepted is scheme and host, and a port if it has one, such as https://arena.example.org"
        raise InputError(*(Argument("origins", given), f"{said}."))
    return f"{parts.scheme}://{parts.netloc}".lower()


_RANGES = (
    ("port", 0, 65_535), ("workers", 1, 256), ("floor", 1e-3, 1), ("retention_days", 0, 36_500),
    ("session_hours", 0.01, 8_760), ("max_body", 1 << 10, 1 << 26), ("max_depth", 4, 64), ("body_seconds", 0.1, 600),
    ("rate", 0, 1e6), ("in_flight", 1, 100_000), ("poll_seconds", 0.05, 600),
)  # fmt: skip


def models_folder(given: str, store: str) -> Path:
    """Return where versions of the model are kept: beside an SQLite file, unless it is given."""
    if given:
        return Path(given)
    scheme, _, path = store.partition(":///")
    if scheme.startswith("sqlite") and path:
        return Path(f"{path}.models")
    return Path("models") if "://" in store else Path(f"{store}.models")
