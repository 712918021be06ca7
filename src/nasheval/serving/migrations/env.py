"""Run by Alembic: the steps on a connection that is open already."""

from __future__ import annotations

from alembic import context

from nasheval.serving.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, transactional_ddl=True)
context.run_migrations()
