"""MiniLM as an ONNX graph: from token ids to a vector for each text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array: TypeAlias = NDArray[Any]
Weights: TypeAlias = Mapping[str, Array]

LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12
OPSET, IR_VERSION = 20, 10
IDS, MASK, VECTOR = "input_ids", "attention_mask", "embedding"
FAR = 1e9
"""Subtracted from the scores of padding tokens before the softmax."""


def build(weights: Weights) -> onnx.ModelProto:
    """Return the model in 32-bit floats."""
    graph = _Graph(weights)
    present = graph.add("Cast", MASK, to=TensorProto.FLOAT)
    hidden = graph.embedded()
    bias = graph.padding_bias(present)
    for number in range(LAYERS):
        hidden = graph.layer(hidden, bias, f"encoder.layer.{number}")
    graph.add("Identity", graph.pooled(hidden, present), output=VECTOR)
    return graph.model()


class _Graph:
    """A graph under construction. Nodes are identified by the name of their output."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"{operation}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operation, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, kind: Any = np.int64) -> str:
        array = np.asarray(value, dtype=kind)
        return self._keep(f"{array.dtype}_{array.tolist()}", array)

    def weight(self, name: str) -> str:
        return self._keep(name, self._weights[name])

    def _keep(self, name: str, array: Array) -> str:
        self._constants.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def embedded(self) -> str:
        """Add the embeddings of word, position and (the only) type of each token."""
        words = self.add("Gather", self.weight("embeddings.word_embeddings.weight"), IDS)
        length = self.add("Slice", self.add("Shape", IDS), self.constant([1]), self.constant([2]))
        zero = self.constant([0])
        places = self.add("Slice", self.weight("embeddings.position_embeddings.weight"), zero, length, zero)
        kinds = self._keep("first_type", self._weights["embeddings.token_type_embeddings.weight"][0])
        return self._normed(self.add("Add", self.add("Add", words, places), kinds), "embeddings.LayerNorm")

    def padding_bias(self, present: str) -> str:
        """Return zero for tokens and a large negative value for padding, broadcast over heads and rows."""
        missing = self.add("Sub", present, self.constant(1.0, np.float32))
        far = self.add("Mul", missing, self.constant(FAR, np.float32))
        return self.add("Unsqueeze", far, self.constant([1, 2]))

    def layer(self, hidden: str, bias: str, name: str) -> str:
        seen = self._linear(self._attended(hidden, bias, name), f"{name}.attention.output.dense")
        hidden = self._normed(self.add("Add", seen, hidden), f"{name}.attention.output.LayerNorm")
        wide = self.add("Gelu", self._linear(hidden, f"{name}.intermediate.dense"))
        narrow = self._linear(wide, f"{name}.output.dense")
        return self._normed(self.add("Add", narrow, hidden), f"{name}.output.LayerNorm")

    def _attended(self, hidden: str, bias: str, name: str) -> str:
        query, key, value = (
            self._by_head(self._linear(hidden, f"{name}.attention.self.{role}"), order)
            for role, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        )
        scale = self.constant((WIDTH // HEADS) ** -0.5, np.float32)
        scores = self.add("MatMul", self.add("Mul", query, scale), key)
        shares = self.add("Softmax", self.add("Add", scores, bias), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.add("Reshape", mixed, self.constant([0, 0, WIDTH]))

    def _by_head(self, hidden: str, order: list[int]) -> str:
        split = self.add("Reshape", hidden, self.constant([0, 0, HEADS, WIDTH // HEADS]))
        return self.add("Transpose", split, perm=order)

    def _linear(self, hidden: str, name: str) -> str:
        turned = self._keep(f"{name}.turned", self._weights[f"{name}.weight"].T)
        return self.add("Add", self.add("MatMul", hidden, turned), self.weight(f"{name}.bias"))

    def _normed(self, hidden: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.add("LayerNormalization", hidden, scale, bias, axis=-1, epsilon=EPSILON)

    def pooled(self, hidden: str, present: str) -> str:
        """Return the mean over the tokens without padding, normalized to length 1.

        Because of the normalization, a sum is sufficient.
        """
        kept = self.add("Mul", hidden, self.add("Unsqueeze", present, self.constant([2])))
        total = self.add("ReduceSum", kept, self.constant([1]), keepdims=0)
        return self.add("Div", total, self.add("ReduceL2", total, self.constant([1]), keepdims=1))

    def model(self) -> onnx.ModelProto:
        shape = ["texts", "tokens"]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in (IDS, MASK)]
        output = helper.make_tensor_value_info(VECTOR, TensorProto.FLOAT, ["texts", WIDTH])
        graph = helper.make_graph(self._nodes, "minilm", inputs, [output], list(self._constants.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION  # older versions of onnxruntime read it too
        onnx.checker.check_model(model)
        return model
