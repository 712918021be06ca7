"""The tables of a store, the same in SQLite and PostgreSQL; `migrations/` makes them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint

VERSION = "1"  # of the schema: the latest of `migrations/versions`
METADATA = MetaData()
_SEQUENCE = BigInteger().with_variant(Integer, "sqlite")  # only an INTEGER counts up by itself there

META = Table(
    "meta",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# Of a prompt a keyed hash and its embedding are kept; itself only where that was asked for.
DECISIONS = Table(
    "decisions",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # "route" or "compare"
    Column("version", Text, nullable=False),  # of the model
    Column("at", Float, nullable=False),  # seconds since 1970
    Column("client", Text, nullable=False),  # name of the API key, or ""
    Column("session", Text),  # keyed hash
    Column("menu", Text, nullable=False),  # JSON: the agent, or the agents as shown
    Column("propensity", Float, nullable=False),  # of that agent, or of that menu in any order
    Column("lottery", Text, nullable=False),  # JSON: {agent: share}
    Column("terms", Text, nullable=False),  # JSON: agents, budget, cost_weight, size as asked
    Column("reason", Text, nullable=False),
    Column("context", Text),
    Column("prompt", Text),
    Column("prompt_hash", Text),
    Column("vector", LargeBinary),  # float32
    Index("decisions_at", "at"),
)

VOTES = Table(
    "votes",
    METADATA,
    Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),  # the order of arrival
    Column("id", Text, nullable=False, unique=True),
    Column("client", Text, nullable=False),
    Column("key", Text),  # the caller's, as given
    Column("digest", Text, nullable=False),  # of what was said, to tell a repetition from another vote under its key
    Column("decision", Text),  # id of the decision; null for a menu of the caller's own
    Column("version", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("voter", Text),
    Column("menu", Text, nullable=False),  # JSON, as shown where that is known
    Column("blocks", Text),  # JSON, best first; null for a skip
    Column("zero", Text, nullable=False),  # what a shared block means: tie, both_bad, censored, last; or skip
    Column("propensity", Float),  # with which the menu was asked; null where nobody knows
    Column("context", Text),  # null where the decision has it
    Column("prompt", Text),
    Column("prompt_hash", Text),
    Column("vector", LargeBinary),
    UniqueConstraint("client", "key", name="votes_key"),
    Index("votes_at", "at"),
    Index("votes_decision", "decision"),
    Index("votes_voter", "voter"),
    sqlite_autoincrement=True,  # a number is never given twice, also after a deletion
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("session", Text, primary_key=True),  # keyed hash
    Column("draw", Integer, nullable=False),  # how often it was drawn anew
    Column("agent", Text, nullable=False),
    Column("propensity", Float, nullable=False),
    Column("version", Text, nullable=False),
    Column("at", Float, nullable=False),
    Index("sessions_at", "at"),
)

MODELS = Table(
    "models",
    METADATA,
    Column("version", Text, primary_key=True),
    Column("folder", Text, nullable=False),  # within the folder of versions
    Column("at", Float, nullable=False),
    Column("origin", Text, nullable=False),  # "given" or "refit"
    Column("votes_until", BigInteger, nullable=False),  # votes.seq up to which it was fitted
    Column("note", Text, nullable=False),
)

SERVING = Table(
    "serving",
    METADATA,
    Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),  # the last one serves
    Column("version", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("reason", Text, nullable=False),
    sqlite_autoincrement=True,
)
