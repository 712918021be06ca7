"""Every table and figure of the paper, and every benchmark, by public names of `nasheval` only: `python -m studies`."""
