"""ONNX Runtime reads flat batches as the network in torch does."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.data.packing import Features, flatten, join_pieces
from bertworks.interop.onnx import OnnxPlan, SessionSettings, open_session, write_onnx
from bertworks.interop.onnx_network import MASK
from bertworks.serving import onnx_encoder
from bertworks.serving.onnx_encoder import MOST_PADDING, RECTANGLE, OnnxEncoder, rectangles

TEXTS = ["a", "the cat sat on the mat", "dog", "北京", "the dog ran over the hill " * 3, ""]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, make_model) -> tuple[Any, OnnxEncoder]:
    """Give an encoder and the same one that ONNX Runtime computes."""
    encoder = make_model("classify").eval().encoder
    file = tmp_path_factory.mktemp("onnx") / "model.onnx"
    write_onnx(file, encoder, OnnxPlan(), owner="x")
    return encoder, OnnxEncoder(encoder, open_session(file, SessionSettings(threads=1), owner="x"))


@pytest.fixture(scope="module")
def batch(tokenizer) -> Any:
    """Lay texts and a pair end to end."""
    pieces = tokenizer.ids_of(TEXTS)
    windows = [Features(*join_pieces(ids, None, tokenizer.specials)) for ids in pieces]
    pair = Features(*join_pieces(pieces[1], pieces[2], tokenizer.specials))
    return flatten([*windows, pair])


@torch.inference_mode()
def test_every_token_gets_the_vector_that_torch_gives(both, batch) -> None:
    encoder, other = both
    torch.testing.assert_close(other(batch), encoder(batch), atol=1e-5, rtol=0)
    hidden = encoder(batch)
    for pooling in (None, "mean"):
        found = other.pool(hidden, batch.layout, pooling)
        torch.testing.assert_close(found, encoder.pool(hidden, batch.layout, pooling))


class Careless:
    """A session that takes padding for tokens."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.get_inputs = session.get_inputs

    def run(self, names: list[str], given: dict[str, np.ndarray]) -> Any:
        """Compute with every place of the rectangle."""
        return self.session.run(names, {**given, MASK: np.ones_like(given[MASK])})


@torch.inference_mode()
def distance_from_alone(encoder: OnnxEncoder, windows: list[Features]) -> float:
    """Return how far neighbours move any token, whatever the order and number of the texts."""
    alone, farthest = [encoder(flatten([window])) for window in windows], 0.0
    chance = random.Random(3)
    for size in (2, 3, 7, len(windows)):
        order = chance.sample(range(len(windows)), len(windows))
        for first in range(0, len(order), size):
            places = order[first : first + size]
            together = encoder(flatten([windows[place] for place in places]))
            expected = torch.cat([alone[place] for place in places])
            farthest = max(farthest, float((together - expected).abs().max()))
    return farthest


@pytest.fixture(scope="module")
def windows(tokenizer) -> list[Features]:
    """Cut texts of one to thirty words."""
    chance = random.Random(4)
    texts = [" ".join(chance.choices(["cat", "dog", "hill", "sat"], k=k)) for k in range(1, 31)]
    pieces = tokenizer.ids_of([*texts, "北京", ""])
    return [Features(*join_pieces(ids, None, tokenizer.specials)) for ids in pieces]


@pytest.mark.parametrize("padding", [MOST_PADDING, 1.0])
def test_no_neighbour_and_no_padding_moves_a_token(
    both, windows: list[Features], padding: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_encoder, "MOST_PADDING", padding)
    assert distance_from_alone(both[1], windows) <= 1e-5


def test_padding_that_is_taken_for_tokens_would_be_noticed(both, windows: list[Features]) -> None:
    encoder, other = both
    assert distance_from_alone(OnnxEncoder(encoder, Careless(other.session)), windows) > 1e-2


@torch.inference_mode()
def test_in_int8_neighbours_move_a_vector(both, windows: list[Features], tmp_path: Path) -> None:
    encoder, exact = both
    blocks = frozenset(
        name
        for name, module in encoder.named_modules()
        if name.startswith("blocks.") and isinstance(module, torch.nn.Linear)
    )
    write_onnx(tmp_path / "int8.onnx", encoder, OnnxPlan(int8=blocks), owner="x")
    session = open_session(tmp_path / "int8.onnx", SessionSettings(threads=1), owner="x")
    rough = OnnxEncoder(encoder, session)
    assert distance_from_alone(rough, windows) > 1e-3
    batch = flatten(windows)
    torch.testing.assert_close(rough(batch), rough(batch), atol=0, rtol=0)
    cosines = torch.cosine_similarity(rough(batch), exact(batch))
    assert cosines.mean() > 0.98


def test_the_blocks_in_torch_are_let_go(both) -> None:
    kept = {name.split(".")[0] for name, _ in both[1].named_parameters()}
    assert kept == {"embeddings", "pooler"}


def test_reading_from_left_to_right_is_refused(both, batch) -> None:
    with pytest.raises(UsageError, match="does not read from left to right"):
        both[1](replace(batch, is_causal=True))


@given(st.lists(st.integers(1, 600), max_size=60))
def test_rectangles_hold_every_text_once_in_order_with_little_padding(lengths: list[int]) -> None:
    found = list(rectangles(tuple(lengths)))
    assert [text for part in found for text in part] == list(range(len(lengths)))
    for part in found:
        own = [lengths[text] for text in part]
        area = len(own) * max(own)
        assert len(own) == 1 or area <= RECTANGLE
        assert len(own) == 1 or area - sum(own) <= MOST_PADDING * area


def test_texts_of_one_length_share_a_rectangle() -> None:
    assert list(rectangles((7,) * 5 + (50,))) == [range(5), range(5, 6)]
    assert [len(part) for part in rectangles((512,) * 5)] == [2, 2, 1]


def test_no_text_needs_no_rectangle() -> None:
    assert list(rectangles(())) == []
