"""Texts on their way to vectors: behind a prompt, up to a cut, in windows."""

import numpy as np
import pytest

from bertworks.model.embedding import EmbeddingRecipe
from bertworks.tasks.vector_texts import VectorReader

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
        assert read.skipped == 0
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
    assert [read.skipped for read in reader.read([LONG, "a"])] == [num_prompt] * 2
    assert [read.skipped for read in reader.read(["a"], "")] == [0]
