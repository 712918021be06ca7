"""Small logs, learners that fit them in no time, and models on disk to be spoilt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import ModelFileError
from nasheval.estimator import NashEval, load
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.feedback.world import SyntheticWorld
from nasheval.nuisance.stack import Stack
from nasheval.nuisance.trees import TreeOutcome
from nasheval.nuisance.voters import Voters
from nasheval.payoff.surfaces import Boosting
from nasheval.policy.learned import LearnedPolicy

WORLD = SyntheticWorld(seed=70)
VOTERS = Voters(voters=2, hidden=(8,), epochs=2, weight_decay=0.3, members=2)
TREES = TreeOutcome(params={"num_iterations": 5, "num_leaves": 4, "min_data_in_leaf": 5})
BOTH = Stack((VOTERS, TREES))
BOOSTING = Boosting(trees=8, leaves=4, rate=0.2, least=10)
LEARNED = LearnedPolicy(hidden=(8,), waves=4, epochs=1, augment=0)


def paper_log(selection="inclusion", modality="pairwise", n=120):
    return WORLD.feedback(modality, voters=3, n=n, selection=selection)


def mixed_log(n=120, *, text=False, seed=0, design="draws"):
    """Categories, truth values, missing numbers; duels, rankings and winners; weights, times and 25 voters."""
    rng = np.random.default_rng(seed)
    size, language = rng.normal(size=n), rng.choice(["en", "de", "fr"], n)
    columns = {
        "size": pa.array([None if rng.random() < 0.1 else float(x) for x in size]),
        "language": pa.array([None if rng.random() < 0.1 else str(x) for x in language]).dictionary_encode(),
        "code": pa.array(rng.random(n) < 0.4),
    }
    if text:
        prompts = ["write a poem", "prove this", "fix my code", "bonjour", "", "über alles"]
        columns["prompt"] = pa.array([None if rng.random() < 0.1 else str(rng.choice(prompts)) for _ in range(n)])
    context_of, said, weight, voter = [], [], [], []
    for i in range(n):
        for _ in range(rng.integers(1, 4)):
            menu = list(rng.choice(list("abcd"), rng.integers(2, 4), replace=False))
            answer = partition.winner(menu[0], menu) if rng.random() < 0.3 else partition.ranking(menu)
            context_of.append(i)
            said.append(answer)
            weight.append(float(rng.choice([0.5, 1.0])))
            voter.append(f"v{rng.integers(25)}@example.org")
    return Feedback.from_partitions(
        pa.table(columns), said, agents=list("abcd"), context_of=context_of, weight=weight, voter=voter,
        text="prompt" if text else None, design=design,
    )  # fmt: skip


def fitted(log, **options):
    given = {"outcome": TREES, "boosting": BOOSTING, "folds": 2, "n_jobs": 1, "verbose": False, "device": "cpu"}
    return NashEval(**{**given, **options}).fit(log)


def answers(model, contexts):
    """Hash everything a model can be asked."""
    digest = hashlib.sha256()
    for values in (model.predict_proba(contexts), model.payoff(contexts), model.predict_proba(contexts, cost_weight=0)):
        digest.update(np.ascontiguousarray(values).tobytes())
    interval, here = model.payoff_interval(), contexts[:1] if isinstance(contexts, np.ndarray) else contexts.slice(0, 1)
    told = [model.leaderboard().to_csv(), str(model.cycles()), model.winners(contexts)]
    told += [interval.estimate.tolist(), interval.error.tolist(), json.dumps(model.explain(here).to_dict())]
    digest.update(repr(told).encode())
    return digest.hexdigest()


# -- spoiling ---------------------------------------------------------------------------------------------------------


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def write_manifest(folder, told):
    (folder / "manifest.json").write_text(json.dumps(told))


def forge(folder, name, held):
    """Replace a file and tell its new hash in the manifest, as somebody who means it would."""
    (folder / name).write_bytes(held)
    told = manifest(folder)
    told["files"][name] = {"bytes": len(held), "sha256": sha256(held).hexdigest()}
    write_manifest(folder, told)


FILES = (
    "encoder.json", "evidence.parquet", "outcome-0.safetensors", "outcome-1-fold-0.txt", "outcome-1-fold-1.txt",
    "outcome.safetensors", "policy.safetensors", "surface.txt", "routing.safetensors",
)  # fmt: skip
NETWORK, TEXTS, STACK, POLICY, SURFACE = FILES[2], FILES[3], FILES[5], FILES[6], FILES[7]


def refused(folder, *words):
    with pytest.raises(ModelFileError) as caught:
        load(folder)
    told = str(caught.value)
    assert "To do: " in told
    assert str(folder) in told.splitlines()[0]
    for word in words:
        assert word in told, told
    return told


def set_told(path: str, value: object) -> Callable[[Path], None]:
    """Return what sets one value, at a path of keys, in the manifest; ... removes it."""

    def spoil(folder: Path) -> None:
        told = manifest(folder)
        *outer, last = path.split("/")
        place = told
        for key in outer:
            place = place[int(key) if isinstance(place, list) else key]
        last = int(last) if isinstance(place, list) else last
        if value is ...:
            del place[last]
        else:
            place[last] = value
        write_manifest(folder, told)

    return spoil
