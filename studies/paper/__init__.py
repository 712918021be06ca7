"""The tables and figures of the paper, one file per study; files without a `STUDY` are what several share."""
