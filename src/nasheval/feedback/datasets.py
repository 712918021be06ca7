"""Logs that come with the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nasheval.arrays import Floats, Ints
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.votes import read_votes

NAMES = {
    "chat": "27,456 verdicts of GPT-4 on six chat models, at 953 real prompts in 15 languages (QLoRA, OpenAssistant)",
    "highway": "20,480 comparisons of five driving agents by three judges, in 256 traffic configurations (MO-Highway)",
}
CHAT_JUDGE = "gpt-4"
CHAT_AGENTS = ("gpt-3.5", "65b-guanaco", "30b-guanaco", "13b-guanaco", "7b-guanaco", "vicuna-13b")
HIGHWAY_CONTEXT = ("lanes_count", "vehicles_count", "vehicles_density", "initial_lane_id", "ego_spacing")
HIGHWAY_AGENTS = ("right_lane", "fast", "balanced", "cautious", "brisk_cautious")
_JUDGES = 3
# Which column of a bundled log plays which part, as the readers' arguments name it.
COLUMNS: dict[str, dict[str, Any]] = {
    "chat": {"context": ("language",), "text": "prompt", "context_id": "prompt_id", "agents": CHAT_AGENTS},
    "highway": {
        "context": HIGHWAY_CONTEXT,
        "context_id": "configuration",
        "voter": "judge",
        "propensity": "propensity",
    },
}


def path(name: str) -> Path:
    """Return where the vote file of a bundled log lies."""
    if name not in NAMES:
        raise InputError(f"There is no data set {name!r}; accepted are {', '.join(map(repr, NAMES))}.")
    return _file(f"{name}_votes.parquet")


def _file(name: str) -> Path:
    with as_file(files("nasheval") / "data" / name) as file:
        return Path(file)


def load_chat(*, judge: bool = False) -> Feedback:
    """Load the bundled log of GPT-4's verdicts on chat models: every pair at every prompt, both orders.

    Context columns are "language" and the prompt. The verdicts are those of the QLoRA release, under the MIT licence;
    the prompts are from OpenAssistant, under Apache 2.0; `nasheval/data/chat_NOTICE.txt` has both.

    Args:
        judge: whether gpt-4, which judged, is a candidate too; it then wins everywhere.
    """
    options = {**COLUMNS["chat"], "agents": (*([CHAT_JUDGE] if judge else []), *CHAT_AGENTS)}
    return read_votes(path("chat"), **options)


@dataclass(frozen=True)
class Reference:
    """Contexts with payoffs measured by running every agent many times.

    Args:
        contexts: one row per configuration.
        verdict_sums: (n, initialisations, K, K) sum of the three judges' verdicts on each initialisation, ties 0.
    """

    contexts: pa.Table
    verdict_sums: Ints

    @property
    def payoffs(self) -> Floats:
        """(n, initialisations, K, K) the judges' mean verdict on each initialisation."""
        return self.verdict_sums / _JUDGES

    @property
    def payoff(self) -> Floats:
        """(n, K, K) the reference payoff matrices: the mean over initialisations, an even split exactly 0."""
        total = self.verdict_sums.sum(axis=1, dtype=np.int64)
        return np.asarray(total / (_JUDGES * self.verdict_sums.shape[1]))


@dataclass(frozen=True)
class Highway:
    """The MO-Highway log (appendix "Reinforcement-learning agent dataset").

    Args:
        train: 256 configurations, 80 comparisons each, design "draws" with propensity 1/10.
        validation, test: 32 configurations each, measured on 32 and 64 initialisations.
    """

    train: Feedback
    validation: Reference
    test: Reference


def load_highway() -> Highway:
    """Load the bundled MO-Highway log with its reference payoffs."""
    train = read_votes(path("highway"), agents=HIGHWAY_AGENTS, **COLUMNS["highway"])
    table = pq.read_table(_file("highway_reference.parquet"))
    return Highway(train, _reference(table, "validation"), _reference(table, "test"))


def _reference(table: pa.Table, split: str) -> Reference:
    rows = table.filter(pc.equal(table["split"], split)).sort_by(
        [("configuration", "ascending"), ("initialisation", "ascending")]
    )
    counts = np.unique(np.asarray(rows["configuration"]), return_counts=True)[1]
    upper = np.asarray(rows["verdict_sums"].combine_chunks().flatten()).reshape(len(counts), counts[0], -1)
    sums = np.zeros((*upper.shape[:2], len(HIGHWAY_AGENTS), len(HIGHWAY_AGENTS)), np.int8)
    j, k = np.triu_indices(len(HIGHWAY_AGENTS), 1)
    sums[:, :, j, k], sums[:, :, k, j] = upper, -upper
    contexts = rows.select(list(HIGHWAY_CONTEXT)).take(pa.array(np.arange(0, rows.num_rows, counts[0])))
    return Reference(contexts, sums)
