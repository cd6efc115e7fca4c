"""An encoder of every family as an ONNX graph on rectangles of texts, [N, length]."""

from dataclasses import dataclass

import numpy as np
import torch

from bertworks.core.errors import UsageError
from bertworks.interop.onnx_graph import FUSED, UNSEEN, Graph
from bertworks.model.config import Bucketed, EncoderConfig, Rotary, Waves
from bertworks.model.positions import bucket_of, waves_at

IDS, MASK, SEGMENTS = "input_ids", "attention_mask", "token_type_ids"
EXPORTED_MIXERS = ("attention", "mean")


def input_names(config: EncoderConfig) -> list[str]:
    """Return what a network is given; segments only where there are several."""
    return [IDS, MASK] + ([SEGMENTS] if config.num_segments > 1 else [])


def linear_layers(config: EncoderConfig) -> list[str]:
    """Return the names of the linear layers that every token goes through."""
    parts = ["feed_forward.expand", "feed_forward.contract"]
    if config.mixer == "attention":
        parts = ["mixer.qkv", "mixer.output", *parts]
    return [f"blocks.{number}.{part}" for number in range(config.num_blocks) for part in parts]


@dataclass(frozen=True)
class View:
    """What a layer sees: one for those that see all, one for local ones."""

    mask: str  # [N, length] int32, 1 for what is there
    scores: str | None  # added to those of attention, [1, H or 1, length, length]
    turn: tuple[str, str] | None  # cosines and sines of each place, [places, K / 2]


class NetworkWriter:
    """Writes the nodes of one network into a graph."""

    def __init__(self, graph: Graph, config: EncoderConfig) -> None:
        if config.mixer not in EXPORTED_MIXERS:
            raise UsageError(
                f"a network whose tokens meet by {config.mixer} layers cannot be exported to ONNX; "
                "only networks of attention can"
            )
        self.graph = graph
        self.config = config
        self.epsilon = config.norm_epsilon

    def write(self) -> str:
        """Write the whole encoder; return the name of the last layer's vectors."""
        config = self.config
        residual = self._embeddings()
        views = self._views()
        order = config.block_order
        hidden = self._entrance(residual, order[0])
        for layer, number in enumerate(order):
            view = views[config.is_local(layer)]
            if config.mixer == "attention":
                update, bias = self._attention(hidden, f"blocks.{number}.mixer", view)
                norm = "feed_forward_norm" if config.norm_place == "before" else "mixer_norm"
                residual, hidden = self._add(residual, update, f"blocks.{number}.{norm}", bias)
            update, bias = self._feed_forward(hidden, f"blocks.{number}.feed_forward")
            last = self._norm_after(order, layer)
            residual, hidden = self._add(residual, update, last, bias)
        return hidden

    def _add(self, residual: str, update: str, norm: str, bias: str | None) -> tuple[str, str]:
        """Return what the next sum begins with, and the normed vectors."""
        total, normed = self.graph.add_and_norm(
            residual, update, norm, bias=bias, epsilon=self.epsilon
        )
        return (total if self.config.norm_place == "before" else normed), normed

    def _entrance(self, residual: str, number: int) -> str:
        name = self._entrance_norm(number)
        is_there = name is not None and f"{name}.weight" in self.graph.weights
        return (
            self.graph.norm(residual, name, epsilon=self.epsilon) if name and is_there else residual
        )

    def _entrance_norm(self, number: int) -> str | None:
        """Return the norm of what a block reads, where norms come before."""
        if self.config.norm_place == "after":
            return None
        part = "feed_forward_norm" if self.config.mixer == "mean" else "mixer_norm"
        return f"blocks.{number}.{part}"

    def _norm_after(self, order: tuple[int, ...], layer: int) -> str:
        if self.config.norm_place == "after":
            return f"blocks.{order[layer]}.feed_forward_norm"
        if layer + 1 == len(order):
            return "norm"
        return self._entrance_norm(order[layer + 1]) or "norm"

    def _embeddings(self) -> str:
        graph = self.graph
        is_one = "EmbedLayerNormalization" in graph.faster
        if is_one and "embeddings.positions.weight" in graph.weights:
            normed = self._fused_embeddings()
        else:
            normed = graph.norm(self._sum_of_tables(), "embeddings.norm", epsilon=self.epsilon)
        narrow = self.config.embedding_size is not None
        return graph.linear(normed, "embeddings.widen") if narrow else normed

    def _fused_embeddings(self) -> str:
        """Write pieces, places and segments and their norm as one node."""
        graph, has_segments = self.graph, self.config.num_segments > 1
        int32 = graph.onnx.TensorProto.INT32
        gain = graph.weights["embeddings.norm.weight"]
        shift = graph.weights.get("embeddings.norm.bias", np.zeros_like(gain))
        inputs = [
            graph.add("Cast", IDS, to=int32),
            graph.add("Cast", SEGMENTS, to=int32) if has_segments else None,
            graph.weight("embeddings.pieces.weight"),
            graph.tensor("places", self._places()),
            graph.weight("embeddings.segments.weight") if has_segments else None,
            graph.weight("embeddings.norm.weight"),
            graph.tensor("embeddings.norm.shift", shift),
        ]
        operator = "EmbedLayerNormalization"
        return graph.add_several(operator, *inputs, outputs=2, domain=FUSED, epsilon=self.epsilon)[
            0
        ]

    def _sum_of_tables(self) -> str:
        graph = self.graph
        total = graph.add("Gather", graph.weight("embeddings.pieces.weight"), IDS)
        if isinstance(self.config.positions, Waves):
            size, count = self.config.piece_size, self.config.max_positions
            total = graph.add("Mul", total, graph.tensor("scale", np.array(size**0.5, np.float32)))
            waves = waves_at(torch.arange(count), size).numpy()
            total = graph.add("Add", total, self._first(graph.tensor("waves", waves)))
        if "embeddings.positions.weight" in graph.weights:
            table = graph.tensor("places", self._places())
            total = graph.add("Add", total, self._first(table))
        elif self.config.num_segments == 1:
            only = graph.weight("embeddings.segments.weight")
            total = graph.add("Add", total, only)
        if self.config.num_segments > 1:
            segments = graph.add("Gather", graph.weight("embeddings.segments.weight"), SEGMENTS)
            total = graph.add("Add", total, segments)
        return total

    def _places(self) -> np.ndarray:
        """Return the vectors of places; a segment that is the only one is in each of them."""
        places = self.graph.weights["embeddings.positions.weight"]
        if self.config.num_segments != 1:
            return places
        return places + self.graph.weights["embeddings.segments.weight"]

    def _first(self, table: str) -> str:
        """Return the first rows of a table, one for each place."""
        zero = self.graph.numbers(0)
        return self.graph.add("Slice", table, zero, self.graph.size(IDS, 1), zero)

    def _range(self) -> str:
        return self.graph.places(self.graph.size(IDS, 1))

    def _views(self) -> tuple[View, View]:
        """Return what layers see of whole texts, and of neighbours."""
        graph, config = self.graph, self.config
        mask = graph.add("Cast", MASK, to=graph.onnx.TensorProto.INT32)
        base = config.positions.base if isinstance(config.positions, Rotary) else None
        full = View(mask, self._distance_scores(), self._turn(base))
        if config.local is None:
            return full, full
        near = config.positions.local_base if isinstance(config.positions, Rotary) else None
        return full, View(mask, self._band(config.local.window), self._turn(near))

    def _turn(self, base: float | None) -> tuple[str, str] | None:
        """Keep the angles of all places."""
        if base is None:
            return None
        size = self.config.head_size
        speeds = np.float32(base) ** (-np.arange(0, size, 2, dtype=np.float32) / size)
        angles = np.arange(self.config.max_positions, dtype=np.float32)[:, None] * speeds
        names = (("cosines", np.cos(angles)), ("sines", np.sin(angles)))
        cosine, sine = (self.graph.tensor(f"{name}_{base}", table) for name, table in names)
        return cosine, sine

    def _distances(self) -> str:
        """Return how far each place lies behind each other one, [length, length]."""
        graph, places = self.graph, self._range()
        return graph.add("Sub", places, graph.add("Unsqueeze", places, graph.numbers(1)))

    def _distance_scores(self) -> str | None:
        """Return the scores by distance, [1, H, length, length]."""
        graph, kind = self.graph, self.config.positions
        if not isinstance(kind, Bucketed):
            return None
        most = self.config.max_positions
        buckets = bucket_of(torch.arange(1 - most, most), num_buckets=kind.num_buckets).numpy()
        table = graph.tensor("scores_by_distance", graph.weights["distances.weight"][buckets])
        row = graph.add("Add", self._distances(), graph.numbers(most - 1))
        scores = graph.add("Transpose", graph.add("Gather", table, row), perm=[2, 0, 1])
        return graph.add("Unsqueeze", scores, graph.numbers(0))

    def _band(self, window: int) -> str:
        """Return what hides all but near tokens, [1, 1, length, length]."""
        graph = self.graph
        far = graph.add("Greater", graph.add("Abs", self._distances()), graph.numbers(window))
        hidden = graph.add("Where", far, graph.numbers(UNSEEN), graph.numbers(0.0))
        return graph.add("Unsqueeze", hidden, graph.numbers(0, 1))

    def _attention(self, hidden: str, name: str, view: View) -> tuple[str, str | None]:
        """Return what each token gathered, [N, length, D], and a bias that is yet to be added."""
        graph = self.graph
        if "Attention" in graph.faster and view.turn is None and f"{name}.qkv" not in graph.int8:
            gathered = self._attention_in_one(hidden, f"{name}.qkv", view)
        else:
            qkv = graph.linear(hidden, f"{name}.qkv")
            q, k, v = graph.add_several("Split", qkv, outputs=3, axis=-1)
            if view.turn is not None:
                q, k = (self._rotate(x, view.turn) for x in (q, k))
            is_one = "MultiHeadAttention" in graph.faster
            attend = self._attend_in_one if is_one else self._attend_plainly
            gathered = attend(q, k, v, view)
        return graph.product(gathered, f"{name}.output")

    def _attention_in_one(self, hidden: str, name: str, view: View) -> str:
        """Write the products before attention and attention itself as one node."""
        graph = self.graph
        weight = graph.weights[f"{name}.weight"]
        matrix = graph.tensor(f"{name}.matrix", weight.T)
        # The node may go without a bias by its description, and dies of it.
        zeros = np.zeros(len(weight), np.float32)
        bias = graph.weight(f"{name}.bias") or graph.tensor("no_bias", zeros)
        inputs = (hidden, matrix, bias, view.mask, None, view.scores)
        return graph.fused(
            "Attention", *inputs, num_heads=self.config.num_heads, mask_filter_value=UNSEEN
        )

    def _attend_in_one(self, q: str, k: str, v: str, view: View) -> str:
        inputs = (q, k, v, None, view.mask, view.scores)
        heads = self.config.num_heads
        return self.graph.fused(
            "MultiHeadAttention", *inputs, num_heads=heads, mask_filter_value=UNSEEN
        )

    def _attend_plainly(self, q: str, k: str, v: str, view: View) -> str:
        graph, config = self.graph, self.config
        heads = (0, 0, config.num_heads, config.head_size)
        q, k, v = (graph.reshape(x, *heads) for x in (q, k, v))  # [N, length, H, K]
        scores = graph.add("Add", self._products(q, k), self._hidden_padding(view))
        if view.scores is not None:
            scores = graph.add("Add", scores, view.scores)
        values = graph.add("Transpose", v, perm=[0, 2, 1, 3])
        gathered = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
        back = graph.add("Transpose", gathered, perm=[0, 2, 1, 3])
        return graph.reshape(back, 0, 0, config.hidden_size)

    def _products(self, q: str, k: str) -> str:
        """Return how well each token fits each, [N, length, H, K] -> [N, H, length, length]."""
        graph, scale = self.graph, self.config.head_size**-0.5
        rows = graph.add("Transpose", q, perm=[0, 2, 1, 3])
        if "FusedMatMul" in graph.faster:
            columns = graph.add("Transpose", k, perm=[0, 2, 1, 3])
            return graph.fused("FusedMatMul", rows, columns, transB=1, alpha=scale)
        scaled = graph.add("Mul", rows, graph.numbers(scale))
        return graph.add("MatMul", scaled, graph.add("Transpose", k, perm=[0, 2, 3, 1]))

    def _hidden_padding(self, view: View) -> str:
        """Return what is added to the scores of tokens that are not there, [N, 1, 1, length]."""
        graph = self.graph
        there = graph.add("Cast", view.mask, to=graph.onnx.TensorProto.FLOAT)
        missing = graph.add("Sub", graph.numbers(1.0), there)
        hidden = graph.add("Mul", missing, graph.numbers(UNSEEN))
        return graph.add("Unsqueeze", hidden, graph.numbers(1, 2))

    def _rotate(self, vectors: str, turn: tuple[str, str]) -> str:
        """Turn each half of a head's vector against the other, [N, length, D]."""
        graph, config = self.graph, self.config
        if "RotaryEmbedding" in graph.faster:
            first = graph.numbers(0)
            return graph.fused("RotaryEmbedding", vectors, first, *turn, num_heads=config.num_heads)
        half, axes = config.head_size // 2, graph.numbers(0, 2)
        vectors = graph.reshape(vectors, 0, 0, config.num_heads, config.head_size)
        cosine, sine = (graph.add("Unsqueeze", self._first(table), axes) for table in turn)
        halves = graph.numbers(half, half)
        first, second = graph.add_several("Split", vectors, halves, outputs=2, axis=-1)
        product = {
            (x, by): graph.add("Mul", x, by) for x in (first, second) for by in (cosine, sine)
        }
        left = graph.add("Sub", product[first, cosine], product[second, sine])
        right = graph.add("Add", product[second, cosine], product[first, sine])
        turned = graph.add("Concat", left, right, axis=-1)
        return graph.reshape(turned, 0, 0, config.hidden_size)

    def _feed_forward(self, hidden: str, name: str) -> tuple[str, str | None]:
        """Return each vector rethought, [N, length, D], and a bias that is yet to be added."""
        graph, activation = self.graph, self.config.activation
        if self.config.gated:
            expanded = graph.linear(hidden, f"{name}.expand")
            bent, gate = graph.add_several("Split", expanded, outputs=2, axis=-1)
            inner = graph.add("Mul", graph.bend(bent, activation), gate)
        else:
            expanded, bias = graph.product(hidden, f"{name}.expand")
            inner = graph.bend(expanded, activation, bias)
        return graph.product(inner, f"{name}.contract")
