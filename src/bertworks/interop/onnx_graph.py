"""The nodes of an ONNX graph, in the fused words of ONNX Runtime or in plain ones."""

from collections.abc import Mapping, Set
from typing import Any, Literal

import numpy as np

from bertworks.core.optional import import_optional
from bertworks.interop.quantize import quantize_columns
from bertworks.model.config import Activation

Operators = Literal["fused", "plain"]
FUSED = "com.microsoft"
OPSET, FUSED_OPSET, IR = 17, 1, 8  # old enough for the runtimes of several years
# The operators of ONNX Runtime that are used. Measured on a CPU: FusedMatMul for the product of
# queries and keys saves 6 % of the time in int8. Others can be named here too, but Attention,
# MultiHeadAttention and BiasGelu are no faster within noise, and SkipLayerNormalization and
# EmbedLayerNormalization are slower than the plain operators they stand for.
FASTER = frozenset({"DynamicQuantizeMatMul", "FastGelu", "FusedMatMul", "Gelu", "RotaryEmbedding"})
UNSEEN = -1e9  # the score of what a token may not look at


class Graph:
    """Nodes and weights, written down one after another; a value is known by its name."""

    def __init__(
        self,
        weights: Mapping[str, np.ndarray],
        *,
        operators: Operators = "fused",
        faster: Set[str] = FASTER,
        int8: Set[str] = frozenset(),
    ) -> None:
        self.onnx = import_optional("onnx", extra="onnx", purpose="export to ONNX")
        self.weights = weights
        self.has_fused = operators == "fused"
        self.faster = faster if self.has_fused else frozenset()
        self.int8 = int8  # the linear layers whose products are of whole numbers
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}

    def add(self, operator: str, *inputs: str | None, domain: str = "", **attributes: Any) -> str:
        """Write a node with one output and return its name."""
        return self.add_several(operator, *inputs, outputs=1, domain=domain, **attributes)[0]

    def add_several(
        self, operator: str, *inputs: str | None, outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Write a node with several outputs and return their names."""
        number = len(self.nodes)
        names = [f"{operator}_{number}_{output}" for output in range(outputs)]
        last = max((place for place, name in enumerate(inputs, 1) if name), default=0)
        given = [name or "" for name in inputs[:last]]
        node = self.onnx.helper.make_node(
            operator, given, names, name=f"{operator}_{number}", domain=domain, **attributes
        )
        self.nodes.append(node)
        return names

    def fused(self, operator: str, *inputs: str | None, **attributes: Any) -> str:
        """Write a node that only ONNX Runtime knows."""
        return self.add(operator, *inputs, domain=FUSED, **attributes)

    def tensor(self, name: str, values: np.ndarray) -> str:
        """Keep numbers under a name, once."""
        if name not in self.tensors:
            whole = np.asarray(values, order="C")
            self.tensors[name] = self.onnx.numpy_helper.from_array(whole, name)
        return name

    def numbers(self, *values: float) -> str:
        """Keep whole numbers, or a fraction by itself."""
        if all(isinstance(value, int) for value in values):
            return self.tensor("_".join(map(str, ("whole", *values))), np.array(values, np.int64))
        return self.tensor(f"fraction_{values[0]}", np.array(values[0], np.float32))

    def number(self, value: int) -> str:
        """Keep one whole number without an axis."""
        return self.tensor(f"only_{value}", np.array(value, np.int64))

    def weight(self, name: str) -> str | None:
        """Keep a weight of the network as it is, where the network has it."""
        return self.tensor(name, self.weights[name]) if name in self.weights else None

    def linear(self, vectors: str, name: str) -> str:
        """Multiply by a linear layer's matrix, and add its bias."""
        product, bias = self.product(vectors, name)
        return self.add("Add", product, bias) if bias else product

    def product(self, vectors: str, name: str) -> tuple[str, str | None]:
        """Multiply by a linear layer's matrix; return also the bias, if it is yet to be added."""
        bias = self.weight(f"{name}.bias")
        if name in self.int8:
            return self._int8_product(vectors, name, bias)
        matrix = self.tensor(f"{name}.matrix", self.weights[f"{name}.weight"].T)
        return self.add("MatMul", vectors, matrix), bias

    def _int8_product(self, vectors: str, name: str, bias: str | None) -> tuple[str, str | None]:
        columns, scales = quantize_columns(self.weights[f"{name}.weight"].T)
        matrix, scale = self.tensor(f"{name}.int8", columns), self.tensor(f"{name}.scale", scales)
        if "DynamicQuantizeMatMul" in self.faster:
            return self.fused("DynamicQuantizeMatMul", vectors, matrix, scale, None, bias), None
        whole, step, zero = self.add_several("DynamicQuantizeLinear", vectors, outputs=3)
        product = self.add("MatMulInteger", whole, matrix, zero)
        steps = self.add("Mul", step, scale)
        scaled = self.add("Mul", self.add("Cast", product, to=self.onnx.TensorProto.FLOAT), steps)
        return scaled, bias

    def norm(self, vectors: str, name: str, *, epsilon: float) -> str:
        """Norm each vector."""
        gain, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.add("LayerNormalization", vectors, gain, bias, epsilon=epsilon, axis=-1)

    def add_and_norm(
        self, residual: str, update: str, name: str, *, bias: str | None, epsilon: float
    ) -> tuple[str, str]:
        """Norm the sum of a residual and an update with its bias; return the sum and the normed."""
        if "SkipLayerNormalization" in self.faster:
            gain, shift = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
            inputs = (update, residual, gain, shift, bias)
            normed, *_, total = self.add_several(
                "SkipLayerNormalization", *inputs, outputs=4, domain=FUSED, epsilon=epsilon
            )
            return total, normed
        total = self.add("Add", residual, self.add("Add", update, bias) if bias else update)
        return total, self.norm(total, name, epsilon=epsilon)

    def bend(self, vectors: str, activation: Activation, bias: str | None = None) -> str:
        """Apply a network's bend to vectors and their bias."""
        if activation == "gelu_tanh" and "FastGelu" in self.faster:
            return self.fused("FastGelu", vectors, bias)
        if activation == "gelu" and bias and "BiasGelu" in self.faster:
            return self.fused("BiasGelu", vectors, bias)
        whole = self.add("Add", vectors, bias) if bias else vectors
        if activation == "gelu" and "Gelu" in self.faster:
            return self.fused("Gelu", whole)
        if activation == "relu":
            return self.add("Relu", whole)
        if activation == "silu":
            return self.add("Mul", whole, self.add("Sigmoid", whole))
        return self._gelu(whole, by_tanh=activation == "gelu_tanh")

    def _gelu(self, x: str, *, by_tanh: bool) -> str:
        if by_tanh:
            cube = self.add("Mul", self.add("Mul", x, x), x)
            inner = self.add("Add", x, self.add("Mul", cube, self.numbers(0.044715)))
            share = self.add("Tanh", self.add("Mul", inner, self.numbers((2 / np.pi) ** 0.5)))
        else:
            share = self.add("Erf", self.add("Div", x, self.numbers(2.0**0.5)))
        doubled = self.add("Mul", x, self.add("Add", share, self.numbers(1.0)))
        return self.add("Mul", doubled, self.numbers(0.5))

    def size(self, value: str, axis: int) -> str:
        """Return how long a value is along an axis, a list of one whole number."""
        return self.add("Shape", value, start=axis, end=axis + 1)

    def places(self, count: str) -> str:
        """Return the whole numbers from 0 to below a count."""
        return self.add("Range", self.number(0), self.add("Squeeze", count), self.number(1))

    def reshape(self, value: str, *shape: int) -> str:
        """Give a value another shape; 0 keeps an axis and -1 takes what is left."""
        return self.add("Reshape", value, self.numbers(*shape))
