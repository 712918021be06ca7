"""A learned policy with its encoder as one ONNX graph, for programs that do not run Python.

Inputs are the context columns, (n,) each: numbers, truth values and dates (days since 1970) as doubles, NaN where
missing; categories as strings, empty where missing. Outputs are "lottery", (n, K) doubles, and "agent", (n,) the most
probable one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from nasheval.arrays import Array, Floats
from nasheval.contexts.columns import FARTHEST, AnyColumn, BooleanColumn, CategoricalColumn, NumericColumn, VectorColumn
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.values import levels_of, truths
from nasheval.errors import ConvergenceError, InputError, MissingExtraError
from nasheval.files import whole_file
from nasheval.game.costs import HardBudget
from nasheval.policy.base import Policy
from nasheval.policy.learned import LearnedEquilibria
from nasheval.policy.learned_training import Network, depth

CLOSE = 1e-5  # the most that a lottery may differ from the model's
_OPSET = [("", 17), ("ai.onnx.ml", 3)]
_MISSING = ""


def export_onnx(policy: Policy, path: str | PathLike[str], *, contexts: pa.Table) -> float:
    """Write a learned policy as ONNX; return by how much its lotteries differ at some contexts, at most 1e-5.

    Args:
        policy: a learned one over tabular contexts without a hard budget; anything else is an InputError.
        contexts: where to check it with onnxruntime, such as those of the log.
    """
    learned = _exportable(policy)
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(error.name or "onnx", extra="onnx", purpose="Exporting to ONNX") from None
    graph, columns = _Graph(onnx), learned.exact.encoder.columns
    features = graph.put("Concat", *(block for column in columns for block in _column(graph, column)), axis=1)
    lottery = _lottery(graph, learned.network, features)
    model = graph.model(lottery, learned.agents)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    lotteries = session.run(["lottery"], feeds(learned.exact.encoder, contexts))[0]
    largest = float(np.abs(lotteries - learned.predict_proba(contexts)).max(initial=0.0))
    if not largest <= CLOSE:
        raise ConvergenceError(
            f"The lotteries of the ONNX graph differ from the model's by {largest:.2g}; not written."
        )
    with whole_file(path) as file:
        file.write(model.SerializeToString())
    return largest


def feeds(encoder: ContextEncoder, contexts: pa.Table) -> dict[str, Array]:
    """Return contexts, n of them, as what the graph takes: {column: (n,)}."""
    return {column.name: _fed(column, contexts[column.name]) for column in encoder.columns}


def _fed(column: AnyColumn, values: Any) -> Array:
    if isinstance(column, CategoricalColumn):
        coded = levels_of(column.name, values)
        texts = np.array([*coded.dictionary.to_pylist(), _MISSING], dtype=object)
        return np.asarray(texts[np.asarray(coded.indices.fill_null(-1))])
    assert not isinstance(column, VectorColumn)  # `_exportable` refuses them
    return truths(column.name, values) if isinstance(column, BooleanColumn) else column.parse(column.name, values)


def _exportable(policy: Policy) -> LearnedEquilibria:
    if not isinstance(policy, LearnedEquilibria):
        raise InputError(
            "This model solves its games exactly, which is no fixed graph; fit one with a learned policy "
            "(--policy learned, or policy='learned') to export it."
        )
    encoder = policy.exact.encoder
    if encoder.texts:
        raise InputError(
            f"This model reads the text column {encoder.text!r}, and its text encoder is no part of ONNX; fit one "
            "without text (--text none) to export it."
        )
    if vectors := [column.name for column in encoder.columns if isinstance(column, VectorColumn)]:
        raise InputError(f"This model reads the vectors {vectors[0]!r}, which are no part of ONNX; fit one without.")
    if not encoder.columns:
        raise InputError("This model has no context columns, so there is nothing to ask the graph about.")
    taken = {"lottery", "agent"} & {column.name for column in encoder.columns}
    if taken:
        raise InputError(f"A context column is called {taken.pop()!r}, as is an output of the graph; rename it.")
    terms = policy.exact.terms
    varying = isinstance(terms.costs, Mapping) and any(isinstance(cost, str) for cost in terms.costs.values())
    costs = np.zeros((1, len(policy.agents))) if varying else terms.costs_at(policy.agents, pa.table({}))
    if isinstance(terms.omega(costs, 1, len(policy.agents)), HardBudget):
        raise InputError(
            "This model has a hard budget, which is kept outside its network; fit one without to export it."
        )
    return policy


# -- the graph --------------------------------------------------------------------------------------------------------


class _Graph:
    """An ONNX graph under construction by the module `onnx`; values go by their names."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []

    def put(self, op: str, *inputs: str, name: str = "", domain: str = "", **attributes: Any) -> str:
        """Add an operation; return the name of what it gives."""
        name = name or f"{op.lower()}_{len(self.nodes)}"
        outputs = [name, f"{name}_places"] if op == "TopK" else [name]
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), outputs, domain=domain, **attributes))
        return name

    def constant(self, values: ArrayLike) -> str:
        """Add a constant array of numbers or, as objects, of strings."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def input(self, name: str, kind: str) -> str:
        """Add an input, (n,) of "DOUBLE" or "STRING"."""
        tensor = getattr(self.onnx.TensorProto, kind)
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, tensor, ["n"]))
        return name

    def cast(self, value: str, kind: str) -> str:
        """Add a change of type."""
        return self.put("Cast", value, to=getattr(self.onnx.TensorProto, kind))

    def column(self, value: str) -> str:
        """Turn (n,) into (n, 1) floats."""
        return self.cast(self.put("Unsqueeze", value, self.constant(np.array([1]))), "FLOAT")

    def model(self, lottery: str, agents: Sequence[str]) -> Any:
        """Return the finished model."""
        best = self.put("ArgMax", lottery, axis=1, keepdims=0)
        agent = self.put("Gather", self.constant(np.array(agents, dtype=object)), best)
        self.put("Identity", lottery, name="lottery")
        self.put("Identity", agent, name="agent")
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        outputs = [
            helper.make_tensor_value_info("lottery", kinds.DOUBLE, ["n", len(agents)]),
            helper.make_tensor_value_info("agent", kinds.STRING, ["n"]),
        ]
        graph = helper.make_graph(self.nodes, "policy", self.inputs, outputs, self.constants)
        opset = [helper.make_opsetid(domain, version) for domain, version in _OPSET]
        model = helper.make_model(
            graph, opset_imports=opset, ir_version=9, producer_name="nasheval", producer_version=version("nasheval")
        )
        helper.set_model_props(model, {"agents": "\n".join(agents)})
        return model


def _column(graph: _Graph, column: AnyColumn) -> list[str]:
    """Add a column in the form for networks; return (n, 1) floats or more."""
    if isinstance(column, CategoricalColumn):
        return _category(graph, column)
    raw = graph.input(column.name, "DOUBLE")
    absent, filler = graph.put("IsNaN", raw), 0.0
    if isinstance(column, BooleanColumn):
        value, filler = raw, column.share
    else:
        assert isinstance(column, NumericColumn)  # `_exportable` refuses vectors
        lead = graph.put("Sub", raw, graph.constant(np.float64(column.mean)))
        value = graph.put("Div", lead, graph.constant(np.float64(column.scale)))
        value = graph.put("Clip", value, graph.constant(np.float64(-FARTHEST)), graph.constant(np.float64(FARTHEST)))
    filled = graph.column(graph.put("Where", absent, graph.constant(np.float64(filler)), value))
    return [filled, graph.column(graph.cast(absent, "DOUBLE"))] if column.missing else [filled]


def _category(graph: _Graph, column: CategoricalColumn) -> list[str]:
    """Add one-hot levels: a table with a row for each known level, for other ones and for missing ones."""
    kept, width = len(column.levels), len(column.names("network"))
    raw = graph.input(column.name, "STRING")
    if not width:
        return []
    hot = np.zeros((kept + 2, width), np.float32)
    hot[np.arange(kept), np.arange(kept)] = 1
    if column.pooled:
        hot[kept, kept] = 1
    if column.missing:
        hot[kept + 1, kept + column.pooled] = 1
    codes = {_MISSING: kept + 1} | {level: code for code, level in enumerate(column.levels)}
    keys: dict[str, Any] = {"keys_strings": list(codes), "values_int64s": list(codes.values()), "default_int64": kept}
    code = graph.put("LabelEncoder", raw, domain="ai.onnx.ml", **keys)
    return [graph.put("Gather", graph.constant(hot), code)]


def _lottery(graph: _Graph, network: Network, x: str) -> str:
    """Add the network; return (n, K) doubles."""
    p = network.parameters

    def layer(inputs: str, weight: str, bias: str) -> str:
        return graph.put("Gemm", inputs, graph.constant(p[weight]), graph.constant(p[bias]))

    if "wave" in p:
        x = graph.put("Sin", layer(x, "wave", "phase"))
    for number in range(depth(p)):
        x = graph.put("Relu", layer(x, f"hidden_{number}", f"bias_{number}"))
    scores = graph.cast(layer(x, "head", "lean"), "DOUBLE")
    return graph.put("Softmax", scores, axis=1) if network.output == "softmax" else _sparsemax(graph, scores, p["lean"])


def _sparsemax(graph: _Graph, scores: str, lean: Floats) -> str:
    """Add the projection on the simplex, step by step as in `nasheval.game.regularizers.project`."""
    K = len(lean)
    ordered = graph.put("TopK", scores, graph.constant(np.array([K])), axis=1)
    total = graph.put("CumSum", ordered, graph.constant(np.int64(1)))
    surplus = graph.put("Sub", total, graph.constant(np.float64(1)))
    count = graph.constant(np.arange(1, K + 1, dtype=np.float64))
    inside = graph.put("Greater", graph.put("Mul", ordered, count), surplus)
    kept = graph.put("ReduceSum", graph.cast(inside, "INT64"), graph.constant(np.array([1])), keepdims=1)
    last = graph.put("Sub", kept, graph.constant(np.int64(1)))
    shift = graph.put("Div", graph.put("GatherElements", surplus, last, axis=1), graph.cast(kept, "DOUBLE"))
    return graph.put("Relu", graph.put("Sub", scores, shift))
