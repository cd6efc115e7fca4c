"""What is remembered while texts are written."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bertworks.core.batch import Layout
from bertworks.model import recall as recall_module
from bertworks.model.attention import Sight, attend
from bertworks.model.positions import Turn
from bertworks.model.recall import Memory, Page, Recall

HEADS, HEAD_SIZE = 3, 7
lengths_of_texts = st.lists(st.integers(1, 13), min_size=1, max_size=6).map(tuple)
seeds = st.integers(0, 2**31)
STILL = torch.device("cpu")


def draw_qkv(lengths: tuple[int, ...], seed: int) -> tuple[Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    shape = (sum(lengths), HEADS, HEAD_SIZE)
    return tuple(torch.randn(shape, generator=random) for _ in range(3))


def look_across(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend by the published formula to another text, [L, H, K], [S, H, K] twice."""
    weights = torch.einsum("lhk,shk->hls", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("hls,shk->lhk", weights.softmax(-1), v)


@given(lengths_of_texts, st.integers(1, 4), seeds)
def test_every_answer_looks_at_its_text_and_goes_on_with_those_that_are_left(
    lengths: tuple[int, ...], answers: int, seed: int
) -> None:
    q = draw_qkv((answers * len(lengths),), seed)[0]
    _, k, v = draw_qkv(lengths, seed + 1)
    memory = Memory(torch.stack([k, v], dim=1), Layout.of(lengths))
    texts = zip(q.split(answers), k.split(lengths), v.split(lengths), strict=True)
    expected = [look_across(*text) for text in texts]
    torch.testing.assert_close(memory.attend(q), torch.cat(expected), atol=1e-5, rtol=0)
    left = torch.arange(len(lengths)).flip(0)[: 1 + seed % len(lengths)]
    memory.keep(left)
    queries = torch.cat([q.split(answers)[text] for text in left])
    found = memory.attend(queries)
    kept = torch.cat([expected[text] for text in left])
    torch.testing.assert_close(found, kept, atol=1e-5, rtol=0)


@pytest.mark.parametrize("still_on", [None, STILL])
@pytest.mark.parametrize("is_turned", [False, True])
def test_what_is_recalled_is_what_causal_attention_sees(
    is_turned: bool, still_on: torch.device | None
) -> None:
    count, length = 3, 6
    lengths = (length,) * count
    qkv = torch.stack(draw_qkv(lengths, seed=7), dim=1)
    places = torch.arange(length).repeat(count)
    turn = Turn.of(places, length, head_size=6, base=100.0) if is_turned else None
    qkv = qkv[..., :6]  # an even size, which can be turned
    sight = Sight(Layout.of(lengths), turn=turn, is_causal=True)
    expected = attend(qkv, sight).unflatten(0, (count, length))
    page = Page(room=length, still_on=still_on)
    recall = Recall(page)
    for place in range(length):
        page.open(places[::length])
        page.turn = replace(turn, positions=places[::length] + place) if turn else None
        found = attend(qkv.unflatten(0, (count, length))[:, place], recall)
        page.close()
        torch.testing.assert_close(found, expected[:, place], atol=1e-5, rtol=0)
    assert (page.length, recall.num_texts) == (length, count)


@given(lengths_of_texts, st.integers(1, 4), seeds, st.booleans())
def test_texts_that_were_read_at_once_are_recalled_and_written_on(
    lengths: tuple[int, ...], more: int, seed: int, is_still: bool
) -> None:
    total = tuple(length + more for length in lengths)
    drawn = torch.stack(draw_qkv(total, seed), dim=1)
    plain = attend(drawn, Sight(Layout.of(total), is_causal=True)).split(total)
    texts = drawn.split(total)
    page = Page(room=more, still_on=STILL if is_still else None)
    recall = Recall(page)
    begun = torch.cat([text[:length] for text, length in zip(texts, lengths, strict=True)])
    read = attend(begun, Sight(Layout.of(lengths), is_causal=True, kept=recall))
    expected = torch.cat([one[:length] for one, length in zip(plain, lengths, strict=True)])
    torch.testing.assert_close(read, expected, atol=1e-5, rtol=0)
    order = torch.from_numpy(np.random.default_rng(seed).integers(len(lengths), size=5))
    recall.keep(order)
    page.keep(order)
    for place in range(more):
        rows = [(text, lengths[text] + place) for text in order.tolist()]
        page.open(order)
        found = attend(torch.stack([texts[text][at] for text, at in rows]), recall)
        page.close()
        expected = torch.stack([plain[text][at] for text, at in rows])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_what_is_kept_lies_in_spare_memory_where_it_fits() -> None:
    qkv = torch.stack(draw_qkv((3,), seed=9), dim=1)
    recall, order = Recall(Page(room=2)), torch.tensor([2, 0, 2])
    recall.attend(qkv)
    before = recall.kv
    spare = torch.empty_like(before)
    assert recall.keep(order, spare=spare) is before
    assert recall.kv is spare
    torch.testing.assert_close(spare[..., :1, :], before[:, order, :, :1])
    assert recall.keep(torch.tensor([1]), spare=before) is spare  # too large for one
    assert recall.kv.shape[1] == recall.num_texts == 1
    torch.testing.assert_close(recall.kv[..., :1, :], spare[:, 1:2, :, :1])


def test_a_still_page_grows_with_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_module, "FIRST_COLUMNS", 2)
    monkeypatch.setattr(recall_module, "ALIGNED", 1)
    lengths = (11, 11)
    qkv = torch.stack(draw_qkv(lengths, seed=3), dim=1).unflatten(0, (2, 11))
    plainly, still = (Recall(Page(room=11, still_on=place)) for place in (None, STILL))
    sizes = []
    for tokens in qkv.unbind(1):
        found = []
        for recall in (plainly, still):
            if recall.page.is_full:
                recall.page.widen()
                recall.widen()
            recall.page.open(torch.zeros(2, dtype=torch.long))
            found.append(attend(tokens, recall))
            recall.page.close()
        sizes.append(still.kv.shape[3])
        torch.testing.assert_close(*found, atol=1e-6, rtol=0)
    assert sizes == [2, 2, 4, 4, 8, 8, 8, 8, 16, 16, 16]
    assert plainly.kv.shape[3] == 11
    assert still.page.column is not None
    assert int(still.page.column) == still.page.length == 11


def test_a_still_page_is_as_wide_as_kernels_want_it() -> None:
    page = Page(room=100, still_on=STILL)
    page.begin(Layout.of((3, 13)))
    assert page.num_columns == 48  # 13 and 32, rounded up
    page.widen()
    assert page.num_columns == 96
    page.widen()
    assert page.num_columns == 192  # more than are written, but no wider than what is known of them
    assert page.open(torch.zeros(2, dtype=torch.long)).tolist() == [13, 13]
    assert page.seen is not None
    assert page.seen.squeeze().sum(1).tolist() == [4, 14]
