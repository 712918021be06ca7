"""The preference game alone: regularisers, exact equilibria, the gap function, budgets. It knows nothing of data."""
