"""Speed, memory and coverage, measured; each file has a `main` that `python -m studies NAME` calls."""
