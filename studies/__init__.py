"""One file a table or figure of the paper, and the builders of its data."""
