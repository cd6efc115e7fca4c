"""What the tests of other people's formats share: small networks, notes of tasks, weights."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from bertworks.core.batch import Batch, Layout
from bertworks.core.pieces import SpecialIds
from bertworks.interop.descriptions import TaskNote, config_to_hugging_face
from bertworks.model.config import STYLES, EncoderConfig, Sharing
from bertworks.model.encoder import Encoder, initialize
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

SHAPE = {
    "vocab_size": 97,
    "hidden_size": 24,
    "num_layers": 4,
    "num_heads": 3,
    "feed_forward_size": 37,
    "max_positions": 53,
}
NARROW: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 10, "sharing": Sharing(num_groups=2, group_size=2)},
    "electra": {"embedding_size": 10},
}


@pytest.fixture(scope="session")
def specials() -> SpecialIds:
    """Give special pieces in an order of their own."""
    return SpecialIds(pad=3, unknown=5, first=0, separator=2, mask=4)


@pytest.fixture(scope="session")
def small() -> Callable[..., EncoderConfig]:
    """Describe a small network of a family."""

    def describe(family: str, **changes: Any) -> EncoderConfig:
        own = NARROW.get(family, {})
        return EncoderConfig(**{**STYLES[family], **SHAPE, **own, **changes})

    return describe


@pytest.fixture(scope="session")
def notes() -> Callable[..., dict[str, TaskNote]]:
    """Say about tasks what a folder says; the options go to every one."""

    def say(*names: str, **options: Any) -> dict[str, TaskNote]:
        labels = {"embed": ("a", "b")}
        made = [make_task(name, labels.get(name, ("a", "b", "c")), **options) for name in names]
        return {task.name: TaskNote(task.labels, task.options) for task in made}

    return say


@pytest.fixture(scope="session")
def their_words(
    small: Callable[..., EncoderConfig], specials: SpecialIds
) -> Callable[..., dict[str, Any]]:
    """Describe a small network of a family as its config.json does."""

    def describe(family: str = "bert", **changes: Any) -> dict[str, Any]:
        return {**config_to_hugging_face(small(family), tasks={}, specials=specials), **changes}

    return describe


@pytest.fixture(scope="session")
def draw_weights() -> Callable[..., dict[str, Tensor]]:
    """Draw the weights of a model with these tasks, none of them zero or one throughout."""

    def draw(config: EncoderConfig, tasks: Mapping[str, TaskNote]) -> dict[str, Tensor]:
        made = [make_task(name, note.labels, **note.options) for name, note in tasks.items()]
        with torch.device("meta"):
            model = TaskModel(config, made)
        random = torch.Generator().manual_seed(5)
        return {
            name: torch.randn(parameter.shape, generator=random)
            for name, parameter in model.named_parameters()
        }

    return draw


@pytest.fixture(scope="session")
def without_pooler() -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    """Leave out the tensors of the pooler."""
    return lambda ours: {n: t for n, t in ours.items() if not n.startswith("encoder.pooler.")}


@pytest.fixture(scope="session")
def read_back(
    without_pooler: Callable[[Mapping[str, Tensor]], dict[str, Tensor]],
) -> Callable[[Mapping[str, Tensor], str], dict[str, Tensor]]:
    """Tell what a file without a pooler holds: ModernBERT's starts as the head that fills masks."""

    def expected(ours: Mapping[str, Tensor], family: str) -> dict[str, Tensor]:
        found = without_pooler(ours)
        if family == "modernbert" and "heads.fill_mask.norm.weight" in found:
            found["encoder.pooler.dense.weight"] = found["heads.fill_mask.transform.weight"]
            found["encoder.pooler.norm.weight"] = found["heads.fill_mask.norm.weight"]
        return found

    return expected


@pytest.fixture(scope="session")
def assert_equal_tensors() -> Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], None]:
    """Compare two tables of tensors: the same names, the same numbers."""

    def compare(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
        assert set(found) == set(expected)
        assert [name for name in expected if not torch.equal(found[name], expected[name])] == []

    return compare


@pytest.fixture(scope="session")
def loud_encoder() -> Callable[..., Encoder]:
    """Make an encoder with no weight left at its plain beginning."""

    def make(config: EncoderConfig, *, deviation: float = 0.3) -> Encoder:
        encoder = Encoder(config).eval()
        initialize(encoder, seed=3, deviation=deviation)
        random = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in encoder.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=random), alpha=0.1)
        return encoder

    return make


@pytest.fixture(scope="session")
def make_batch() -> Callable[[tuple[int, ...]], Batch]:
    """Lay random texts of some lengths end to end."""

    def make(lengths: tuple[int, ...]) -> Batch:
        random, total = torch.Generator().manual_seed(11), sum(lengths)
        places = torch.cat([torch.arange(length) for length in lengths])
        tokens = torch.randint(0, SHAPE["vocab_size"], (total,), generator=random)
        layout = Layout.of(lengths)
        return Batch(tokens, places, (places > 3).long(), layout, {}, tuple(range(len(lengths))))

    return make


@pytest.fixture(scope="session")
def run_onnx() -> Callable[[Any, Batch], dict[str, np.ndarray]]:
    """Run an ONNX model on one rectangle, as a server would, with what is left over filled up."""

    def run(model: Any, batch: Batch) -> dict[str, np.ndarray]:
        lengths = batch.layout.lengths
        shape = (len(lengths), max(lengths))
        given = {
            "input_ids": np.full(shape, 5, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
        }
        parts = zip(batch.tokens.split(lengths), batch.segments.split(lengths), strict=True)
        for row, (tokens, segments) in enumerate(parts):
            given["input_ids"][row, : len(tokens)] = tokens
            given["attention_mask"][row, : len(tokens)] = 1
            given["token_type_ids"][row, : len(tokens)] = segments
        session = onnxruntime.InferenceSession(model.SerializeToString())
        asked = {item.name: given[item.name] for item in session.get_inputs()}
        names = [item.name for item in session.get_outputs()]
        return dict(zip(names, session.run(None, asked), strict=True))

    return run
