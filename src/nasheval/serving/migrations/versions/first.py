"""The tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

_SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table("meta", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
    _decisions()
    _votes()
    _sessions_and_models()


def downgrade() -> None:
    """Remove the tables."""
    for name in ("serving", "models", "sessions", "votes", "decisions", "meta"):
        op.drop_table(name)


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("menu", sa.Text, nullable=False),
        sa.Column("propensity", sa.Float, nullable=False),
        sa.Column("lottery", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("context", sa.Text),
        sa.Column("prompt", sa.Text),
        sa.Column("prompt_hash", sa.Text),
        sa.Column("vector", sa.LargeBinary),
    )
    op.create_index("decisions_at", "decisions", ["at"])


def _votes() -> None:
    op.create_table(
        "votes",
        sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("decision", sa.Text),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("voter", sa.Text),
        sa.Column("menu", sa.Text, nullable=False),
        sa.Column("blocks", sa.Text),
        sa.Column("zero", sa.Text, nullable=False),
        sa.Column("propensity", sa.Float),
        sa.Column("context", sa.Text),
        sa.Column("prompt", sa.Text),
        sa.Column("prompt_hash", sa.Text),
        sa.Column("vector", sa.LargeBinary),
        sa.UniqueConstraint("client", "key", name="votes_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("votes_at", "votes", ["at"])
    op.create_index("votes_decision", "votes", ["decision"])
    op.create_index("votes_voter", "votes", ["voter"])


def _sessions_and_models() -> None:
    op.create_table(
        "sessions",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("draw", sa.Integer, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("propensity", sa.Float, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("sessions_at", "sessions", ["at"])
    op.create_table(
        "models",
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("votes_until", sa.BigInteger, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_table(
        "serving",
        sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
