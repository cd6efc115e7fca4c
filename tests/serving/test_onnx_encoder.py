"""ONNX Runtime reads flat batches as the network in torch does."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.data.packing import Features, flatten, join_pieces
from bertworks.interop.onnx import OnnxPlan, OnnxSettings, open_session, write_onnx
from bertworks.serving.onnx_encoder import MOST_PADDING, RECTANGLE, OnnxEncoder, rectangles

TEXTS = ["a", "the cat sat on the mat", "dog", "北京", "the dog ran over the hill " * 3, ""]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, make_model) -> tuple[Any, OnnxEncoder]:
    """Give an encoder and the same one that ONNX Runtime computes."""
    encoder = make_model("classify").eval().encoder
    file = tmp_path_factory.mktemp("onnx") / "model.onnx"
    write_onnx(file, encoder, OnnxPlan(), owner="x")
    return encoder, OnnxEncoder(encoder, open_session(file, OnnxSettings(threads=1), owner="x"))


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
