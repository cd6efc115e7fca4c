"""What an ONNX graph hands out behind the last layer, under the names that others ask for."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from bertworks.interop.onnx_graph import Graph
from bertworks.interop.onnx_network import MASK
from bertworks.model.config import EncoderConfig
from bertworks.model.embedding import Bend, DenseLayer, EmbeddingRecipe, VectorPooling
from bertworks.model.encoder import Pooling
from bertworks.model.heads import POOLED_PLACES, PlaceHead, TextHead

HEAD = "head"  # the name of its weights
HIDDEN, VECTOR, LOGITS = "last_hidden_state", "sentence_embedding", "logits"
STARTS, ENDS = "start_logits", "end_logits"
BENDS: dict[Bend, str] = {"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid"}


@dataclass(frozen=True)
class Head:
    """A linear layer that answers: for each text, for each token, or for both ends of a span."""

    of: Literal["text", "token", "span"]
    layer: nn.Linear
    pooling: Pooling = "first"


def head_of(module: nn.Module, config: EncoderConfig, *, of_spans: bool) -> Head | None:
    """Return a task head as others know it; None: they have no name for what it gives."""
    if isinstance(module, TextHead):
        return Head("text", module.output, module.pooling or config.own_pooling)
    if isinstance(module, PlaceHead):
        return Head("span" if of_spans else "token", module.output)
    return None


class OutputWriter:
    """Writes what stands behind the last layer of a network."""

    def __init__(self, graph: Graph, config: EncoderConfig, hidden: str) -> None:
        self.graph = graph
        self.config = config
        self.hidden = hidden

    def vector(self, recipe: EmbeddingRecipe) -> dict[str, str]:
        """Write how the vector of a text is made."""
        pooled = self._pool(recipe.pooling)
        for number, layer in enumerate(recipe.layers):
            pooled = self._dense(pooled, layer, f"dense.{number}")
        if recipe.normalize:
            length = self.graph.add("ReduceL2", pooled, axes=[-1], keepdims=1)
            least = self.graph.numbers(1e-12)
            pooled = self.graph.add("Div", pooled, self.graph.add("Max", length, least))
        return {VECTOR: pooled}

    def logits(self, head: Head) -> dict[str, str]:
        """Write a task head."""
        graph, family = self.graph, self.config.family
        if head.of == "text":
            return {LOGITS: graph.linear(self._pooler(self._pool(head.pooling)), HEAD)}
        vectors = self._pooler(self.hidden) if family in POOLED_PLACES else self.hidden
        rows = graph.linear(vectors, HEAD)
        if head.of == "token":
            return {LOGITS: rows}
        parts = graph.add_several("Split", rows, outputs=2, axis=-1)
        starts, ends = (graph.add("Squeeze", part, graph.numbers(-1)) for part in parts)
        return {STARTS: starts, ENDS: ends}

    def _pooler(self, vectors: str) -> str:
        """Write what a family makes of a vector before a task head reads it."""
        dense = self.graph.linear(vectors, "pooler.dense")
        bent = self._bend(dense, self.config.pooler_bend)
        if "pooler.norm.weight" not in self.graph.weights:
            return bent
        return self.graph.norm(bent, "pooler.norm", epsilon=self.config.norm_epsilon)

    def _pool(self, pooling: VectorPooling) -> str:
        """Make one vector of each text's tokens, [N, length, D] -> [N, D]."""
        graph = self.graph
        if pooling == "first":
            return graph.add("Gather", self.hidden, graph.number(0), axis=1)
        there = graph.add("Cast", MASK, to=graph.onnx.TensorProto.FLOAT)
        if pooling == "max":
            missing = graph.add("Sub", graph.numbers(1.0), self._column(there))
            away = graph.add("Mul", missing, graph.numbers(-1e9))
            return graph.add("ReduceMax", graph.add("Add", self.hidden, away), axes=[1], keepdims=0)
        column = self._column(self._shares(there, pooling))
        kept = graph.add("Mul", self.hidden, column)
        total = graph.add("ReduceSum", kept, graph.numbers(1), keepdims=0)
        count = graph.add("ReduceSum", column, graph.numbers(1), keepdims=0)
        return graph.add("Div", total, graph.add("Sqrt", count) if pooling == "sqrt" else count)

    def _shares(self, there: str, pooling: VectorPooling) -> str:
        """Return how much each token counts, [N, length]."""
        graph = self.graph
        if pooling not in ("weighted", "last"):
            return there
        places = graph.add("CumSum", there, graph.number(1))  # from 1
        if pooling == "weighted":
            return graph.add("Mul", places, there)
        count = graph.add("ReduceSum", there, graph.numbers(1), keepdims=1)
        is_last = graph.add(
            "Cast", graph.add("Equal", places, count), to=graph.onnx.TensorProto.FLOAT
        )
        return graph.add("Mul", is_last, there)

    def _column(self, values: str) -> str:
        return self.graph.add("Unsqueeze", values, self.graph.numbers(-1))

    def _dense(self, vectors: str, layer: DenseLayer, name: str) -> str:
        graph = self.graph
        matrix = graph.tensor(f"{name}.matrix", layer.weight.numpy().T)
        product = graph.add("MatMul", vectors, matrix)
        if layer.bias is not None:
            product = graph.add("Add", product, graph.tensor(f"{name}.bias", layer.bias.numpy()))
        return self._bend(product, layer.bend)

    def _bend(self, vectors: str, bend: Bend) -> str:
        if bend == "identity":
            return vectors
        return (
            self.graph.bend(vectors, "gelu")
            if bend == "gelu"
            else self.graph.add(BENDS[bend], vectors)
        )
