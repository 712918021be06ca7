"""PayoffModel -> Policy: exact, learned and baseline policies behind one protocol."""
