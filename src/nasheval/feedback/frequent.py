"""Agents with enough votes."""

from __future__ import annotations

import numpy as np

from nasheval.errors import Argument, InputError
from nasheval.feedback.log import Feedback


def keep_frequent(log: Feedback, min_votes: int) -> Feedback:
    """Return the log of the agents that stand in at least so many records among themselves."""
    while True:
        count = np.bincount(log.records.agent, minlength=log.n_agents)
        kept = [name for name, votes in zip(log.agents, count, strict=True) if votes >= min_votes]
        if len(kept) == log.n_agents:
            return log
        if len(kept) < 2:
            least = Argument("min_votes", min_votes)
            raise InputError(least, ": fewer than two agents have as many records; ask for fewer.")
        log = log.keep_agents(kept)
