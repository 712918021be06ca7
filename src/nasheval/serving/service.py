"""`Service`: what a worker holds while it runs, and how it takes up another version of the model."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from nasheval.errors import Argument, InputError, NashEvalError, one_line
from nasheval.notes import few
from nasheval.serving.clock import CLOCK, now
from nasheval.serving.database import open_store, plainly, secret_of, shown
from nasheval.serving.deciding import Decider
from nasheval.serving.forgetting import expire
from nasheval.serving.keys import Keys
from nasheval.serving.limits import Limits
from nasheval.serving.logs import log
from nasheval.serving.metrics import Metrics
from nasheval.serving.schema import DECISIONS, SESSIONS, VOTES
from nasheval.serving.settings import Settings
from nasheval.serving.versions import Versions, load_version
from nasheval.serving.writer import Writer

_CLEAN_SECONDS = 600.0
_AGAIN_SECONDS = 10.0  # between tries of a version that could not be loaded


class Service:
    """Decides and collects; made in each worker by `start`.

    Args:
        settings: what it was told.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.in_flight = 0
        self.engine = open_store(settings.store, create=settings.workers == 1)
        self.secret = secret_of(self.engine)
        self.versions = Versions(self.engine, settings.models_folder)
        self.keys = Keys(settings.keys) if settings.keys else None
        self.limits = Limits(settings.rate / settings.workers)
        self.metrics = Metrics(Path(settings.run_folder or mkdtemp(prefix="nasheval-")))
        self.writer = Writer(self.engine, lost=lambda count: self.metrics.add("decisions_lost", count))
        self.problems: dict[str, str] = {}
        self.decider = self._first()
        self._refused: tuple[str, float] = ("", 0.0)
        self._cleaned = monotonic()
        self._parent = os.getppid()
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="reader")
        self._poller: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look for changes from now on."""
        gc.collect()
        gc.freeze()  # what is there now stays, and need not be looked through for garbage while requests wait
        self._poller = asyncio.get_running_loop().create_task(self._poll())
        log("started", store=shown(self.settings.store), version=self.decider.version)

    async def end(self) -> None:
        """Write what is left and stop."""
        if self._poller is not None:
            self._poller.cancel()
        await asyncio.to_thread(self.writer.close)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self.metrics.close()
        self.engine.dispose()
        log("stopped")

    def _first(self) -> Decider:
        """Return the version that serves; where none does, the folder that was given becomes the first."""
        wanted = self.versions.current()
        if wanted is None:
            wanted = first_version(self.versions, self.settings)
        tried: list[str] = []
        for name in dict.fromkeys([wanted, *(served for served, _, _ in self.versions.history())]):
            try:
                return self._load(name)
            except NashEvalError as error:
                tried.append(f"version {name} cannot be served ({one_line(error)})")
                log("version_refused", version=name, reason=one_line(error))
        raise InputError(f"No version can be served: {'; '.join(tried)}.")

    def _load(self, name: str) -> Decider:
        router = load_version(self.versions[name], self.settings.text_encoder)
        require_default(self.settings.default, router.agents)
        return Decider(name, router, floor=self.settings.floor).ready()

    # -- looking for changes ------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self.settings.poll_seconds)
            if self.settings.workers > 1 and os.getppid() != self._parent:
                log("orphaned")
                os.kill(os.getpid(), signal.SIGTERM)
            try:
                await asyncio.get_running_loop().run_in_executor(self._readers, self._look)
            except Exception as error:  # whatever it is, the next look may do better
                self._say("poll", plainly(error))

    def _look(self) -> None:
        """Take up what changed: the version that serves, the keys; delete what is too old."""
        if self.keys is not None:
            self._say("keys", self.keys.refresh() or "")
        jump = CLOCK.jumped()
        self._say("clock", f"the machine's clock was set by {jump:+.0f} s; times go on from before" if jump else "")
        try:
            wanted = self.versions.current()
            if monotonic() - self._cleaned > _CLEAN_SECONDS:
                self._cleaned = monotonic()
                expire(self.engine, self.settings.retention_days, self.settings.session_hours)
            self._say("store", self.writer.trouble)
        except SQLAlchemyError as error:
            self._say("store", plainly(error))
            return
        finally:
            self._say("poll", "")
        self._take_up(wanted)

    def _take_up(self, wanted: str | None) -> None:
        if wanted is None or wanted == self.decider.version:
            self._say("model", "")
            return
        name, since = self._refused
        if name == wanted and monotonic() - since < _AGAIN_SECONDS:
            return
        try:
            self.decider = self._load(wanted)  # one assignment: a request has the old one or the new one
        except (NashEvalError, SQLAlchemyError, OSError) as error:
            self._refused = wanted, monotonic()
            self.metrics.add("model_refusals")
            self._say("model", f"version {wanted} cannot be served ({one_line(error)})")
            return
        self.metrics.add("model_swaps")
        log("version_taken_up", version=wanted)
        self._say("model", "")

    def _say(self, what: str, problem: str) -> None:
        """Keep a problem, and log it when it comes and goes."""
        before = self.problems.get(what, "")
        if problem:
            self.problems[what] = problem
        else:
            self.problems.pop(what, None)
        if problem != before:
            log("problem" if problem else "problem_gone", what=what, reason=problem or before)

    def troubles(self) -> list[str]:
        """Return what does not work at the moment."""
        problems = {**self.problems}
        if self.writer.trouble:
            problems["store"] = self.writer.trouble
        if not self.writer.is_alive:
            problems["writer"] = "nothing is written to the store any more; restart this worker"
        return [f"{what}: {said}" for what, said in problems.items()]

    # -- reading -----------------------------------------------------------------------------------------------------

    async def has_decision(self, name: str) -> bool:
        """Tell whether a decision is stored."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._has_decision, name)

    def _has_decision(self, name: str) -> bool:
        with self.engine.connect() as connection:
            return connection.execute(select(DECISIONS.c.id).where(DECISIONS.c.id == name)).first() is not None

    async def vote_on(self, decision: str) -> tuple[str, str] | None:
        """Return (id, digest) of the first vote on a decision; None where there is none."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._vote_on, decision)

    def _vote_on(self, decision: str) -> tuple[str, str] | None:
        first = select(VOTES.c.id, VOTES.c.digest).where(VOTES.c.decision == decision).order_by(VOTES.c.at).limit(1)
        with self.engine.connect() as connection:
            row = connection.execute(first).first()
        return None if row is None else (row.id, row.digest)

    async def session(self, hashed: str) -> dict[str, Any] | None:
        """Return what a session was answered; None where it is new."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._session, hashed)

    def _session(self, hashed: str) -> dict[str, Any] | None:
        with self.engine.connect() as connection:
            row = connection.execute(select(SESSIONS).where(SESSIONS.c.session == hashed)).mappings().first()
        old = now() - 3600 * self.settings.session_hours
        return None if row is None or row["at"] < old else dict(row)


def require_default(default: str, agents: Sequence[str]) -> None:
    """Raise an InputError unless the agent to decline to, if there is one, is in the model."""
    if default and default not in agents:
        raise InputError(
            *(Argument("default", default), f" is no agent of this model; accepted are {few(list(agents), 12)}.")
        )


def first_version(versions: Versions, settings: Settings) -> str:
    """Add the folder that was given, and serve it."""
    if settings.model is None:
        raise InputError("The store names no model yet; give the folder of one: nasheval serve model/.")
    name = versions.add(settings.model, note="given to nasheval serve").name
    versions.serve(name, "the first")
    return name
