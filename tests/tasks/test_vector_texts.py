"""Texts on their way to vectors: behind a prompt, up to a cut, in windows."""

import numpy as np
import pytest
import torch

from bertworks.core.batch import Layout
from bertworks.data.packing import Features
from bertworks.model.embedding import EmbeddingRecipe, VectorPooling, pool_vectors
from bertworks.tasks.vector_texts import ReadText, VectorReader

PROMPTS = {"query": "the hill: ", "document": "Paris: "}
LONG = "the dog ran over the hill " * 20


@pytest.mark.parametrize("prompt", [None, "document", "the cat: ", ""])
def test_a_text_is_read_behind_its_prompt_and_up_to_the_cut(prompt: str | None, tokenizer) -> None:
    recipe = EmbeddingRecipe(prompts=PROMPTS, default_prompt="query")
    words = {None: PROMPTS["query"], "document": PROMPTS["document"]}.get(prompt, prompt)
    long, short = VectorReader(tokenizer, recipe, 30, 67).read([LONG, "a cat"], prompt)
    for read, text in ((long, LONG), (short, "a cat")):
        (window,) = read.windows
        assert window.tokens[1:-1].tolist() == tokenizer.ids_of([f"{words}{text}"])[0][:28]
        assert read.skipped == (0,)
    assert (long.is_cut, short.is_cut, long.num_tokens) == (True, False, 30)


def test_without_a_cut_windows_show_all_of_a_text(tokenizer) -> None:
    (read,) = VectorReader(tokenizer, EmbeddingRecipe(), None, 20).read([LONG])
    ids = tokenizer.ids_of([LONG])[0]
    assert not read.is_cut
    assert {len(window.tokens) for window in read.windows[:-1]} == {20}
    assert read.windows[0].tokens[1:-1].tolist() == ids[:18]
    assert read.windows[-1].tokens[-6:-1].tolist() == ids[-5:]


def test_a_cut_text_may_be_read_in_smaller_windows(tokenizer) -> None:
    (read,) = VectorReader(tokenizer, EmbeddingRecipe(), 31, 20).read([LONG])
    shown = np.concatenate([window.tokens[1:-1] for window in read.windows])
    assert read.is_cut
    assert len(read.windows) == 2
    assert shown[-5:].tolist() == tokenizer.ids_of([LONG])[0][24:29]


def test_the_pieces_of_a_prompt_that_is_not_pooled_are_counted(tokenizer) -> None:
    recipe = EmbeddingRecipe(prompts=PROMPTS, default_prompt="query", pools_prompt=False)
    reader = VectorReader(tokenizer, recipe, 30, 67)
    num_prompt = 1 + len(tokenizer.ids_of([PROMPTS["query"]])[0])
    assert [read.skipped for read in reader.read([LONG, "a"])] == [(num_prompt,)] * 2
    assert [read.skipped for read in reader.read(["a"], "")] == [(0,)]


def test_a_prompt_that_is_not_pooled_is_pooled_in_no_window(tokenizer) -> None:
    words = "the hill: " * 6
    recipe = EmbeddingRecipe(prompts={"query": words}, default_prompt="query", pools_prompt=False)
    (read,) = VectorReader(tokenizer, recipe, None, 16).read([LONG])
    ids = tokenizer.ids_of([words + LONG])[0]
    num_prompt = len(tokenizer.ids_of([words])[0])
    assert num_prompt == 18  # more than the 14 of the first window, which shares 3 with the next
    # Windows begin 11 pieces apart.
    assert read.skipped[:4] == (19, 8, 0, 0)
    assert read.windows[1].tokens[8:-1].tolist() == ids[18:25]
    assert read.before[:3] == [0, 16, 32]


@pytest.mark.parametrize("skipped", [(0, 0, 0), (3, 0, 0), (9, 2, 0)])
@pytest.mark.parametrize("pooling", ["mean", "sqrt", "weighted", "last"])
def test_windows_add_up_to_what_pooling_all_of_them_at_once_gives(
    pooling: VectorPooling, skipped: tuple[int, ...]
) -> None:
    lengths, random = (7, 6, 4), torch.Generator().manual_seed(5)
    hidden = torch.randn(sum(lengths), 5, generator=random)
    pieces = [np.zeros(length, np.int32) for length in lengths]
    read = ReadText(tuple(Features(own, own) for own in pieces), skipped)
    rows = pool_vectors(hidden, Layout.of(lengths), pooling, skipped=skipped, before=read.before)
    is_pooled = torch.cat(
        [
            torch.arange(length) >= min(count, length - 1)
            for length, count in zip(lengths, skipped, strict=True)
        ]
    )
    kept, places = hidden[is_pooled], torch.arange(1.0, sum(lengths) + 1)[is_pooled]
    expected = {
        "mean": kept.mean(0),
        "sqrt": kept.sum(0) / len(kept) ** 0.5,
        "weighted": places @ kept / places.sum(),
        "last": kept[-1],
    }[pooling]
    torch.testing.assert_close(torch.tensor(read.shares(pooling)) @ rows, expected)
