"""Fields of the files of other tools: those that hold the outcome, and those that messages name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class OwnFields:
    """What the fields of a tool's files are; a * in their names stands for anything.

    Args:
        outcomes: those that hold the verdict, or were written with it: no context.
        compared: those that say who was compared: no context either.
        called: of columns that are made of some fields, what messages call them: the fields.
    """

    outcomes: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)

    def is_outcome(self, name: str) -> bool:
        """Tell whether a field holds the verdict."""
        return any(fnmatchcase(name, pattern) for pattern in self.outcomes)

    def is_compared(self, name: str) -> bool:
        """Tell whether a field says who was compared."""
        return any(fnmatchcase(name, pattern) for pattern in self.compared)


def _both(fields: str) -> dict[str, str]:
    return {"A": fields, "B": fields}


# By the name of the format.
OWN_FIELDS: dict[str, OwnFields] = {
    "NashEval votes": OwnFields(("vote.blocks", "vote.zero"), ("vote.menu",)),
    "arena-hard judgments": OwnFields(("games*",), ("model", "baseline"), _both("model or baseline")),
    "AlpacaEval annotations": OwnFields(("preference*", "raw_completion*", "grade"), ("generator_[12]",)),
    "MT-bench pairs": OwnFields(
        ("g[12]_winner", "g[12]_judgment", "winner"),
        ("model_[12]",),
        {**_both("model_1 or model_2"), "winner": "g1_winner or g2_winner"},
    ),
    "MT-bench grades": OwnFields(("score*", "judgment"), ("model",)),
    "WildBench pairs": OwnFields(
        ("winner", "parsed_result*", "choice"),
        ("generator", "ref_generator", "assignment*"),
        {"A": "assignment.A", "B": "assignment.B", "choice": "parsed_result.choice or winner"},
    ),
    "WildBench v2 pairs": OwnFields(("winner", "extent", "grade"), ("model_[AB]",), {"grade": "extent / 2"}),
    "JudgeArena battles": OwnFields(("pref", "winner", "grade"), ("model_[ab]",)),
    "FastChat log": OwnFields(
        ("type",), ("models*",), {side: f"models[{i}] or states[{i}].model_name" for i, side in enumerate("AB")}
    ),
    "P2L comparisons": OwnFields(("labels",), ("model_[ab]",)),
    "Open WebUI feedback": OwnFields(
        ("rating", "data.rating", "weight"),
        ("data.model_id", "data.sibling_model_ids"),
        {"A": "data.model_id", "B": "data.sibling_model_ids", "rating": "data.rating"},
    ),
    "TTS-Arena votes": OwnFields(
        ("model_chosen", "model_rejected"), called={"A": "model_chosen", "B": "model_rejected"}
    ),
    "MTEB arena log": OwnFields(("type",), ("[01]_model_name",)),
    "compar:IA votes": OwnFields(
        ("chosen_model_name", "both_equal", "conv_*_a", "conv_*_b"), ("model_[ab]_name", "model_pair_name")
    ),
    "Label Studio pairs": OwnFields(("selected",), ("left", "right")),
    "Label Studio rankings": OwnFields(("rank", "ranker*"), ("agent",)),
    "Argilla records": OwnFields(
        ("answer", "*.responses*", "*.suggestion*"),
        called={"A": "first model", "B": "second model", "answer": "responses"},
    ),
    "LangSmith comparative feedback": OwnFields(("score*", "comment"), ("experiments*",)),
    "WMT rankings": OwnFields(
        ("rank", "system?rank"), ("system", "system?Id"), {"system": "system1Id, ...", "rank": "system1rank, ..."}
    ),
    "Every Eval Ever samples": OwnFields(("score*", "evaluation", "evaluation.*"), ("model_id",)),
    "lm-evaluation-harness samples": OwnFields(("score*", "metrics")),
    "Inspect samples_df": OwnFields(("score*",), ("model",)),
    "HELM per-instance stats": OwnFields(("score*", "stats*")),
    "OpenAI evals log": OwnFields(("score*", "data*")),
}
