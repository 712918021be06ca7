"""How the schema of a store came about, step by step (Alembic)."""
