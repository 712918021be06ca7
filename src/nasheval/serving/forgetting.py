"""Deleting: what is too old, and what somebody asks to have deleted."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, delete, or_, select

from nasheval.serving.clock import now
from nasheval.serving.database import writing
from nasheval.serving.schema import DECISIONS, SESSIONS, VOTES
from nasheval.serving.tokens import keyed

SESSION = "session"  # purpose of the hash of a session
_DAY, _HOUR = 86_400.0, 3_600.0


def expire(engine: Engine, retention_days: float, session_hours: float) -> None:
    """Delete votes and decisions that are too old, and sessions that have ended."""
    with writing(engine) as connection:
        connection.execute(delete(SESSIONS).where(SESSIONS.c.at < now() - session_hours * _HOUR))
        if retention_days:
            for table in (VOTES, DECISIONS):
                connection.execute(delete(table).where(table.c.at < now() - retention_days * _DAY))


def forget(engine: Engine, secret: bytes, what: str, value: str) -> dict[str, int]:
    """Delete all that is stored of a vote's key, a voter, a session, a prompt or a client; return how much.

    The decisions behind deleted votes go with them.
    """
    decisions: ColumnElement[bool]
    votes: ColumnElement[bool]
    with writing(engine) as connection:
        match what:
            case "session":
                hashed = keyed(secret, SESSION, value)
                decisions = DECISIONS.c.session == hashed
                votes = VOTES.c.decision.in_(select(DECISIONS.c.id).where(decisions))
                sessions = _deleted(connection, SESSIONS, SESSIONS.c.session == hashed)
                return _both(connection, votes, decisions) | {"sessions": sessions}
            case "prompt":
                from nasheval.serving.about import PROMPT

                mark = f"%{json.dumps(keyed(secret, PROMPT, value))}%"
                decisions = DECISIONS.c.prompt_hash.like(mark)
                behind = VOTES.c.decision.in_(select(DECISIONS.c.id).where(decisions))
                votes = or_(VOTES.c.prompt_hash.like(mark), behind)
            case _:
                votes = VOTES.c[what] == value
                decisions = DECISIONS.c.id.in_(select(VOTES.c.decision).where(votes, VOTES.c.decision.is_not(None)))
                if what == "client":
                    decisions = or_(decisions, DECISIONS.c.client == value)
        return _both(connection, votes, decisions) | {"sessions": 0}


def _both(connection: Connection, votes: ColumnElement[bool], decisions: ColumnElement[bool]) -> dict[str, int]:
    """Delete votes and decisions, each of which may be told by the other."""
    chosen = [row[0] for row in connection.execute(select(DECISIONS.c.id).where(decisions))]
    n_votes = _deleted(connection, VOTES, votes)
    n_decisions = 0
    for start in range(0, len(chosen), 500):
        n_decisions += _deleted(connection, DECISIONS, DECISIONS.c.id.in_(chosen[start : start + 500]))
    return {"votes": n_votes, "decisions": n_decisions}


def _deleted(connection: Connection, table: Any, where: ColumnElement[bool]) -> int:
    return int(connection.execute(delete(table).where(where)).rowcount)
