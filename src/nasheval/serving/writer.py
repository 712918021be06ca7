"""`Writer`: one thread per worker that writes to the store, many rows to a commit.

Votes, compared menus and first requests of sessions wait for their commit; decisions of /v1/route do not, and are kept
in memory while the store does not answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, IntegrityError

from nasheval.serving.database import plainly, writing
from nasheval.serving.problems import Problem, already_voted, unavailable
from nasheval.serving.schema import DECISIONS, SESSIONS, VOTES

Row = dict[str, Any]
_BATCH = 2000  # rows to a commit
_MOST_KEPT = 50_000  # decisions kept in memory while the store does not answer
_MOST_WAITING = 20_000  # rows that wait for a commit
_GONE = (-1, -1)
_LINGER = 0.1  # seconds that a decision nobody waits for may wait for others
_PAUSE = 0.25  # seconds after a failure


@dataclass(frozen=True, eq=False)
class _Job:
    """A row to write; `answer` gets what became of it, or why it was not written."""

    table: str
    row: Row
    answer: Callable[[Any], None] | None = None


class Writer:
    """Writes rows in the order they come; `close` writes what is left.

    Args:
        engine: of the store.
        lost: called with how many decisions were given up while the store did not answer.
    """

    def __init__(self, engine: Engine, *, lost: Callable[[int], None] = lambda count: None) -> None:
        self._engine, self._lost = engine, lost
        self._jobs: deque[_Job] = deque()
        self._wake, self._closing = threading.Condition(), False
        self._waiting = 0
        self._file = _file_of(engine)
        self.trouble = ""  # why the last commit failed; "" where it did not
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    # -- from the event loop ------------------------------------------------------------------------------------------

    def keep(self, row: Row) -> None:
        """Write a decision some time soon."""
        with self._wake:
            if len(self._jobs) - self._waiting >= _MOST_KEPT:
                self._lost(1)
                return
            self._jobs.append(_Job(DECISIONS.name, row))
            if len(self._jobs) == 1:
                self._wake.notify()

    async def store(self, table: str, row: Row) -> Any:
        """Write a row and return what became of it once it is durable; raises a Problem where it is not.

        Of a vote: (its id, whether it was there before), of a session: its row, of a decision: None.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(outcome: Any) -> None:
            if not future.done():
                future.set_exception(outcome) if isinstance(outcome, BaseException) else future.set_result(outcome)

        def answer(outcome: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, outcome)

        with self._wake:
            if self._closing:
                raise unavailable("the service is stopping", "stopping")
            if self._waiting >= _MOST_WAITING:
                raise unavailable(f"{self._waiting:,} rows wait for the store already")
            self._waiting += 1
            self._jobs.append(_Job(table, row, answer))
            self._wake.notify()
        return await future

    def close(self, seconds: float = 20.0) -> None:
        """Write what is left and stop."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(seconds)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            try:
                self._write(batch)
                self.trouble = ""
            except Exception as error:
                self._failed(batch, plainly(error))

    def _next(self) -> list[_Job] | None:
        with self._wake:
            while not self._jobs and not self._closing:
                self._wake.wait()
            if not self._jobs:
                return None
            if not self._waiting and not self._closing:
                self._wake.wait(_LINGER)
            batch = [self._jobs.popleft() for _ in range(min(_BATCH, len(self._jobs)))]
            self._waiting -= sum(job.answer is not None for job in batch)
            return batch

    def _write(self, batch: Sequence[_Job]) -> None:
        try:
            with writing(self._engine) as connection:
                outcomes = _write_all(connection, batch)
                self._require_file()
            self._require_file()  # nothing is acknowledged that went into a file nobody finds any more
        except (DataError, IntegrityError) as error:
            if len(batch) > 1:  # one row that the store refuses is no reason to refuse the others
                for job in batch:
                    self._write([job])
            else:
                _answer(batch[0], Problem(422, "refused", f"the store refuses this ({type(error).__name__})"))
                self._lost(batch[0].answer is None)
            return
        for job, outcome in zip(batch, outcomes, strict=True):
            _answer(job, outcome)

    def _require_file(self) -> None:
        """Raise unless the file that was written to is still the one at its place: a removed file can be written."""
        here = _file_of(self._engine)
        if here != self._file or here == _GONE:
            self._engine.dispose()
            self._file = here
            raise FileNotFoundError("unable to open the store: its file was removed or replaced")

    def _failed(self, batch: Sequence[_Job], why: str) -> None:
        """Answer whoever waits, and keep the decisions that nobody waits for until the store answers again."""
        self.trouble = why
        late = [job for job in batch if job.answer is None]
        for job in batch:
            if job.answer is not None:
                _answer(job, unavailable(why))
        with self._wake:
            if self._closing:
                self._lost(len(late))
                return
            self._jobs.extendleft(reversed(late))
            self._wake.wait(_PAUSE)


def _file_of(engine: Engine) -> tuple[int, int] | None:
    """Return which file an SQLite store is, `_GONE` where there is none; None for a server."""
    if engine.dialect.name != "sqlite" or engine.url.database is None:
        return None
    try:
        status = os.stat(engine.url.database)
    except OSError:
        return _GONE
    return status.st_dev, status.st_ino


def _answer(job: _Job, outcome: Any) -> None:
    if job.answer is not None:
        job.answer(outcome)


_COLUMNS = tuple(column.name for column in DECISIONS.columns)
_TOGETHER = 256  # decisions in one statement: threads that answer requests are interrupted once for all of them


@cache
def _insert(paramstyle: str, count: int) -> str:
    """Return the statement that inserts some decisions, in the words of the driver."""
    mark = "?" if paramstyle == "qmark" else "%s"
    marks = ", ".join(["(" + ", ".join([mark] * len(_COLUMNS)) + ")"] * count)
    return f"INSERT INTO {DECISIONS.name} ({', '.join(_COLUMNS)}) VALUES {marks} ON CONFLICT (id) DO NOTHING"


def _write_decisions(connection: Connection, rows: Sequence[Row]) -> None:
    """Write decisions, of which there are most, without what SQLAlchemy does per row, and by few statements."""
    start = 0
    while left := len(rows) - start:
        count = min(_TOGETHER, 1 << (left.bit_length() - 1))
        values = [row[name] for row in rows[start : start + count] for name in _COLUMNS]
        connection.exec_driver_sql(_insert(connection.dialect.paramstyle, count), tuple(values))
        start += count


# -- statements -------------------------------------------------------------------------------------------------------


def _write_all(connection: Connection, batch: Sequence[_Job]) -> list[Any]:
    """Write rows and return what became of each."""
    new = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert
    by_table: dict[str, list[Row]] = {table.name: [] for table in (DECISIONS, VOTES, SESSIONS)}
    for job in batch:
        by_table[job.table].append(job.row)
    _write_decisions(connection, by_table[DECISIONS.name])
    if rows := sorted(by_table[VOTES.name], key=lambda row: (row["client"], row["key"] or "")):
        # In the order of their keys, so that two workers with the same keys do not wait for each other in a circle.
        connection.execute(new(VOTES).on_conflict_do_nothing(), rows)
    for row in sorted(by_table[SESSIONS.name], key=lambda row: str(row["session"])):
        drawn = new(SESSIONS).values(row)
        again = {name: drawn.excluded[name] for name in row if name != "session"}
        later = SESSIONS.c.draw == drawn.excluded.draw - 1
        connection.execute(drawn.on_conflict_do_update(index_elements=["session"], set_=again, where=later))
    kept = _kept_votes(connection, by_table[VOTES.name])
    return [_outcome(connection, job, kept) for job in batch]


def _kept_votes(connection: Connection, rows: Sequence[Row]) -> dict[tuple[str, ...], tuple[str, str]]:
    """Return {(client, key) and (id,): (id, digest)} as the store has them now."""
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for start in range(0, len(rows), 500):
        some = rows[start : start + 500]
        keys = [row["key"] for row in some if row["key"] is not None]
        mine = VOTES.c.key.in_(keys) | VOTES.c.id.in_([row["id"] for row in some])
        for client, key, name, digest in connection.execute(
            select(VOTES.c.client, VOTES.c.key, VOTES.c.id, VOTES.c.digest).where(mine)
        ):
            found[client, key] = found[(name,)] = name, digest
    return found


def _outcome(connection: Connection, job: _Job, kept: dict[tuple[str, ...], tuple[str, str]]) -> Any:
    row = job.row
    if job.table == SESSIONS.name:
        return connection.execute(select(SESSIONS).where(SESSIONS.c.session == row["session"])).mappings().one()
    if job.table == DECISIONS.name:
        return None
    kept_as = kept.get((row["client"], row["key"])) if row["key"] is not None else None
    name, digest = kept[(row["id"],)] if kept_as is None else kept_as
    if digest != row["digest"] and name == row["id"]:  # of a decision that takes one vote
        return already_voted()
    if digest != row["digest"]:
        said = "another vote was stored under this key; give each vote a key of its own"
        return Problem(409, "key_used", said, "key")
    return name, name != row["id"]
