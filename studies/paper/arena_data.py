"""Votes whose contexts fall into groups: the LMArena release of 140k, and two sets that stand in where it is not.

The release is not ours to ship: put its Parquet files into the folder arena-140k of the data folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import nasheval as ne
from nasheval import InputError
from studies.arrays import Bools, Ints
from studies.harness.files import VARIABLE, data_file, data_folder
from studies.paper.arena_release import write_release
from studies.prompts.language import language_group

RELEASE, LLMFAO, OA, OA_SIX, MADE_UP = "arena-140k", "llmfao", "oa_pairs", "oa_pairs without gpt-4", "made-up release"
COVERED = 0.9  # share of pairs that must have met in a group
MODELS = (
    "o3-2025-04-16",
    "o4-mini-2025-04-16",
    "gpt-4.1-2025-04-14",
    "claude-opus-4-20250514",
    "claude-sonnet-4-20250514",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "qwen3-235b-a22b-instruct-2507",
    "qwen3-30b-a3b",
    "kimi-k2-0711-preview",
    "minimax-m1",
    "mistral-medium-2505",
    "deepseek-r1-0528",
    "deepseek-v3-0324",
    "llama-4-maverick-17b-128e-instruct",
)  # Table selected-llm-models
_FLAGS = {"code": "is_code", "instruction following": "if", "mathematics": "math"}
_MADE_UP_VOTES = 1_500
_FEWEST_PROMPTS = 20  # of a language that is a group of its own
_LABELS = {1: "a", 2: "b", 3: "tie", -1: "drop"}


@dataclass(frozen=True, eq=False)
class Poll:
    """Votes with the attributes of their contexts.

    Args:
        name: of the data set.
        log: its contexts have the attributes as columns of words, and no others.
        least: votes that a group must have for its lottery to be shown beside NashEval's.
        note: which agents, and why.
    """

    name: str
    log: ne.Feedback
    least: int = 100
    note: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns that split the votes."""
        return tuple(self.log.contexts.column_names)

    @property
    def stratifications(self) -> list[tuple[str, ...]]:
        """One attribute, two attributes, and all of them."""
        one_or_two = [columns for size in (1, 2) for columns in combinations(self.attributes, size)]
        return list(dict.fromkeys([*one_or_two, self.attributes]))


# -- which are there --------------------------------------------------------------------------------------------------


def release_files() -> list[Path]:
    """Return the Parquet files of the 140k release in the data folder; none where it is not there."""
    folder = data_folder()
    return sorted((folder / RELEASE).glob("**/*.parquet")) or sorted(folder.glob(f"{RELEASE}.parquet"))


def present() -> list[str]:
    """Return the names of the data sets whose files are there; raise where there are none."""
    here = {
        RELEASE: bool(release_files()),
        LLMFAO: (data_folder() / LLMFAO).exists(),
        OA: (data_folder() / OA).exists(),
        OA_SIX: (data_folder() / OA).exists(),
    }
    if not any(here.values()):
        raise InputError(f"There are no votes in {data_folder()}. {how_to_get()}")
    return [name for name, there in here.items() if there]


def how_to_get() -> str:
    """Return what to do about a release that is not there."""
    return (
        f"Put the Parquet files of lmarena-ai/arena-human-preference-140k into the folder {RELEASE} (or one file "
        f"{RELEASE}.parquet) of the data folder, which {VARIABLE} names."
    )


def read_poll(name: str) -> Poll:
    """Return a data set by its name."""
    return _READERS[name]()


# -- the release ------------------------------------------------------------------------------------------------------


def read_release() -> Poll:
    """Return the votes among the 15 models of Table selected-llm-models, by language group and three flags."""
    return Poll(RELEASE, of_release(release_files()), note="the paper's 15 models")


def of_release(files: Sequence[Path], models: Sequence[str] = MODELS) -> ne.Feedback:
    """Read the votes among some models (Tables arena-language-distribution, arena-attribute-distribution).

    Args:
        files: of the 140k schema.
    """
    context = ["language", *_FLAGS.values()]
    logs = [ne.read_votes(str(file), context=context, text=None) for file in files]
    log = (logs[0] if len(logs) == 1 else ne.Feedback.concat(logs)).keep_agents(models).trimmed()
    words = {"language": language_group(log.contexts["language"])}
    words |= {name: _yes_or_no(log.contexts[column], name) for name, column in _FLAGS.items()}
    return replace(log, contexts=pa.table(words))


def _yes_or_no(flags: pa.ChunkedArray, name: str) -> pa.Array:
    """Return "code" or "no code" and the like; what is not marked is not."""
    return pc.if_else(pc.fill_null(flags.combine_chunks().cast(pa.bool_()), False), name, f"no {name}")


def made_up() -> Poll:
    """Return a made-up release of that schema, which tests the study and says nothing of any model."""
    models = [f"model-{number}" for number in range(1, 7)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "release.parquet"
        write_release(path, _MADE_UP_VOTES, models)
        return Poll(MADE_UP, of_release([path], models), note="made up: it says nothing of any model")


# -- what is here -----------------------------------------------------------------------------------------------------


def read_llmfao() -> Poll:
    """Return crowd votes by category of prompt, among models of whom nearly all pairs met in every category."""
    log = ne.read_votes(
        data_file("llmfao/crowd-comparisons.csv"),
        join=(data_file("llmfao/prompts.jsonl"), "prompt", "id"),
        context=["type"],
        text=None,
        context_id="id",  # several workers judged the same two answers: not independent, so kept together
        voter="worker",
    )
    log = replace(log, contexts=log.contexts.rename_columns(["category"]))
    chosen = well_met(log, "category")
    note = (
        f"{len(chosen)} of {log.n_agents} models: those met least often were left out one at a time, until in every "
        f"category {COVERED:.0%} of pairs had met"
    )
    return Poll(LLMFAO, log.keep_agents(chosen).trimmed(), least=50, note=note)


def well_met(log: ne.Feedback, column: str) -> list[str]:
    """Return agents of whom `COVERED` of all pairs met in every group of contexts.

    The agent that met the fewest others, summed over groups, is left out until that holds; of equals the one with
    fewer votes.
    """
    value, verdicts = np.asarray(log.contexts[column].combine_chunks().dictionary_encode().indices), log.verdicts
    met = np.zeros((int(value.max()) + 1, log.n_agents, log.n_agents), np.int64)
    np.add.at(met, (value[log.context_of[verdicts.record]], verdicts.j, verdicts.k), 1)
    met += met.transpose(0, 2, 1)
    kept: Ints = np.arange(log.n_agents)
    while len(kept) > 2 and (_coverage(met[:, kept][:, :, kept] > 0) < COVERED).any():
        among = met[:, kept][:, :, kept]
        order = np.lexsort((met.sum((0, 2))[kept], (among > 0).sum((0, 2))))
        kept = np.delete(kept, order[0])
    return [log.agents[agent] for agent in kept]


def _coverage(met: Bools) -> Ints:
    pairs = met.shape[1] * (met.shape[1] - 1)
    return np.asarray(met.sum((1, 2)) / pairs)


def read_oa() -> Poll:
    """Return GPT-4's verdicts on all pairs of seven chat models, by language of the prompt."""
    log = ne.read_votes(
        data_file("oa_pairs/judgments.parquet"),
        model_a="model_1",
        model_b="model_2",
        winner="score",
        labels=_LABELS,
        context_id="prompt_id",
        context=["lang"],
        text=None,
        join=(data_file("oa_pairs/prompts.parquet"), "prompt_id"),
        average_repeats=True,
    )
    language = log.contexts["lang"].combine_chunks().cast(pa.string())
    counts = {one["values"].as_py(): one["counts"].as_py() for one in pc.value_counts(language)}
    large = pa.array([name for name, count in counts.items() if count >= _FEWEST_PROMPTS])
    grouped = pc.if_else(pc.is_in(language, large), language, "other")
    return Poll(OA, replace(log, contexts=pa.table({"language": grouped})), note="all models; both orders averaged")


def read_oa_six() -> Poll:
    """Return the same without gpt-4, which wins everywhere."""
    whole = read_oa()
    others = [agent for agent in whole.log.agents if agent != "gpt-4"]
    return replace(whole, name=OA_SIX, log=whole.log.keep_agents(others).trimmed(), note="six models")


_READERS: dict[str, Callable[[], Poll]] = {
    RELEASE: read_release,
    LLMFAO: read_llmfao,
    OA: read_oa,
    OA_SIX: read_oa_six,
    MADE_UP: made_up,
}
