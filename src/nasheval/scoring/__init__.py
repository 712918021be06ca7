"""Policies (with truth or logs) -> scores."""
