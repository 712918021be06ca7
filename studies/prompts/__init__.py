"""Prompts -> the context columns of the paper: length, code, mathematics and language group, by rules."""
