"""From examples to answers: one each, in order, whatever else is in the batch."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from threading import Barrier, Event, Thread, get_ident
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Batch
from bertworks.core.device import Machine, prepare
from bertworks.core.errors import DataError, TrainingError
from bertworks.core.lanes import side_by_side
from bertworks.data.examples import Found, QuestionExample, SourceExample, TextExample
from bertworks.data.forms import make_example
from bertworks.data.packing import Features
from bertworks.model.encoder import pool_texts
from bertworks.tasks import answering
from bertworks.tasks.answering import (
    Answerer,
    at_rest,
    forwards,
    in_chunks,
    is_finite,
    logits_of,
    windows_of,
)
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.generate import Generate
from bertworks.tasks.task import Answer, Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

LABELS = ("cold", "mild", "warm")


class Counting(Generate):
    """Answers nothing, and counts how many texts it is given at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.sizes: list[int] = []

    def write(self, model: TaskModel, batch: Batch, tokenizer: Tokenizer) -> list[Answer]:
        self.sizes.append(batch.num_texts)
        return [{"text": ""}] * batch.num_texts


@pytest.fixture(scope="module")
def examples(make_samples) -> dict[str, list[Any]]:
    """Make examples of every kind."""
    return {
        name: [
            make_example(row, line, form=kind.form, labelled=kind.learn is not None)
            for line, row in enumerate(make_samples(17).rows(name, 45, longest=150), 1)
        ]
        for name, kind in KINDS.items()
    }


@pytest.fixture(scope="module")
def model(config, examples) -> TaskModel:
    tasks = [
        learn_task(name, examples[name]) if kind.learn else make_task(name, LABELS)
        for name, kind in KINDS.items()
    ]
    model = TaskModel(config, tasks, seed=23, deviation=0.3)
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.mul_(3.0)
    return model.eval()


@pytest.fixture(scope="module")
def ask(model, tokenizer, machine):
    """Return a way to answer examples."""

    def answers(name: str, examples: list[Any]) -> list[Answer]:
        task: Task = model.tasks[name]
        windows = windows_of(task, examples, tokenizer, longest=model.config.max_positions)
        return Answerer(model, task, tokenizer, machine).answer(examples, windows)

    return answers


def difference(first: Any, second: Any) -> float:
    """Return how far the numbers of two answers are apart; far if they say other things."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return max((difference(first[key], second[key]) for key in first), default=0.0)
    if isinstance(first, list | tuple) and len(first) == len(second):
        pairs = zip(first, second, strict=True)
        return max((difference(a, b) for a, b in pairs), default=0.0)
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second)
    return 0.0 if first == second else np.inf


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_is_the_same_alone_and_in_a_batch(name: str, ask, examples) -> None:
    asked = examples[name]
    together = ask(name, asked)
    alone = [ask(name, [example])[0] for example in asked]
    gaps = [difference(a, b) for a, b in zip(together, alone, strict=True)]
    assert max(gaps) <= 1e-5
    # The same check on answers that are one place off sees it.
    assert (
        max(difference(a, b) for a, b in zip(together, [*alone[1:], alone[0]], strict=True)) > 1e-3
    )


@pytest.mark.parametrize("name", KINDS)
def test_answers_come_in_the_order_of_the_examples(name: str, ask, examples) -> None:
    asked = examples[name]
    order = np.random.default_rng(3).permutation(len(asked))
    straight, mixed = ask(name, asked), ask(name, [asked[i] for i in order])
    assert max(difference(mixed[place], straight[i]) for place, i in enumerate(order)) <= 1e-5


def test_the_texts_of_these_tests_need_several_batches_and_windows(
    model, tokenizer, examples
) -> None:
    windows = windows_of(model.tasks["classify"], examples["classify"], tokenizer, longest=67)
    assert max(map(len, windows)) > 3
    assert (
        sum(len(window.tokens) for own in windows for window in own) > prepare("cpu").batch_tokens
    )


def test_labels_that_are_chosen_vary(ask, examples) -> None:
    assert len({answer["label"] for answer in ask("classify", examples["classify"])}) > 1


def test_each_mask_gets_its_own_candidates_in_every_text(ask, examples) -> None:
    assert {len(answer["masks"]) for answer in ask("fill_mask", examples["fill_mask"])} == {2}


def test_nothing_asked_is_nothing_answered(ask) -> None:
    assert ask("classify", []) == []


@pytest.mark.parametrize("is_training", [True, False])
def test_answering_leaves_the_model_as_it_was(model, ask, examples, is_training: bool) -> None:
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    model.train(is_training)
    first = ask("classify", examples["classify"][:5])
    assert model.training is is_training
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
    model.eval()
    assert first == ask("classify", examples["classify"][:5])


def test_an_example_that_a_task_cannot_read_is_named_by_its_line(tokenizer) -> None:
    examples = [
        TextExample("the cat", label="warm", line=16),
        TextExample("a dog", label="hot", line=17),
    ]
    with pytest.raises(DataError, match=r"^dev\.csv line 17: the label 'hot'"):
        windows_of(
            make_task("classify", LABELS), examples, tokenizer, longest=67, where="dev.csv line"
        )


def test_an_example_that_may_be_refused_has_no_windows(tokenizer) -> None:
    examples = [SourceExample(text, line=n) for n, text in enumerate(("cat", "cat " * 9, "dog"), 4)]
    refused: list[tuple[int, str]] = []
    windows = windows_of(
        Generate(),
        examples,
        tokenizer,
        longest=7,
        refuse=lambda example, error: refused.append((example.line, str(error))),
    )
    assert [len(own) for own in windows] == [1, 0, 1]
    ((line, reason),) = refused
    assert (line, reason[:37]) == (5, "the source has 9 pieces, but 5 are re")


def test_broken_weights_give_no_answer(config, tokenizer, machine) -> None:
    task = make_task("classify", LABELS)
    model = TaskModel(config, [task], seed=3, deviation=0.3)
    examples = [TextExample("the cat")]
    windows = windows_of(task, examples, tokenizer, longest=67)
    answerer = Answerer(model, task, tokenizer, machine)
    assert len(answerer.answer(examples, windows)) == 1
    with torch.no_grad():
        model.encoder.embeddings.pieces.weight[:, 3] = float("inf")
    with pytest.raises(TrainingError, match=r"no finite numbers.*train it again"):
        answerer.answer(examples, windows)


def test_logits_of_one_example_may_be_broken_and_those_of_others_not(
    config, tokenizer, machine
) -> None:
    task = make_task("classify", LABELS)
    model = TaskModel(config, [task], seed=3, deviation=0.3)
    with torch.no_grad():
        model.encoder.embeddings.pieces.weight[tokenizer.ids_of(["cat"])[0]] = float("inf")
    examples = [TextExample("the dog"), TextExample("the cat"), TextExample("the dog " * 70)]
    windows = windows_of(task, examples, tokenizer, longest=67)
    logits = logits_of(model, task.name, windows, machine)
    assert [len(rows) for rows in logits] == [len(own) for own in windows] == [1, 1, 3]
    assert [is_finite(rows) for rows in logits] == [True, False, True]


def test_parts_that_no_window_shows_whole_are_counted(tokenizer, capsys) -> None:
    task = make_task("answer")
    passage = "the cat " * 40
    short = QuestionExample("where?", passage, (Found("cat", 4),), line=1)
    long = QuestionExample("where? " * 40, passage, (Found(passage.strip(), 0),), line=2)
    windows_of(task, [short], tokenizer, longest=33)
    assert capsys.readouterr().err == ""
    windows_of(task, [short, long], tokenizer, longest=33, where="dev.jsonl line")
    first, second, third = capsys.readouterr().err.splitlines()
    assert "dev.jsonl: of 1 of 2 examples no window shows the whole question; raise" in first
    assert "no window shows the whole answer; raise --longest" in second
    assert "the answer has more pieces than may be given; raise --max-answer" in third


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 7), st.integers(1, 90))
def test_chunks_are_short_and_the_same_wherever_one_goes_on(
    lengths: list[int], most: int, characters: int
) -> None:
    examples = [TextExample("x" * length, line=line) for line, length in enumerate(lengths)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "CHUNK_CHARACTERS", characters)
        chunks = list(in_chunks(examples, most=most))
        for at in range(len(chunks)):
            rest = chain.from_iterable(chunks[at:])
            assert list(in_chunks(rest, most=most)) == chunks[at:]
    assert list(chain.from_iterable(chunks)) == examples
    for chunk in chunks:
        assert 1 <= len(chunk) <= most
        assert sum(example.num_characters for example in chunk[:-1]) < characters


def test_a_model_at_rest_goes_on_as_it_was(model) -> None:
    model.heads["classify"].train()
    before = [part.training for part in model.modules()]
    with at_rest(model):
        assert not any(part.training for part in model.modules())
    assert [part.training for part in model.modules()] == before
    assert any(before)
    model.eval()


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def read_by(
    model: Any, lengths: list[int], machine: Machine, *, num_threads: int = 1
) -> list[tuple[int, int, np.ndarray]]:
    """Return which thread read each batch, with how many tokens, and their vectors by place.

    Threads wait for each other at first, so that none has read everything before another begins.
    """
    meeting, begun = Barrier(num_threads), set[int]()
    chance = np.random.default_rng(0)
    texts = [chance.integers(5, model.config.vocab_size, size=length) for length in lengths]
    windows = [Features(text, np.zeros_like(text)) for text in texts]

    def read(batch: Batch) -> tuple[int, int, np.ndarray]:
        if get_ident() not in begun:
            begun.add(get_ident())
            meeting.wait(10)
        vectors = pool_texts(model.encoder(batch), batch.layout, "mean")
        return get_ident(), len(batch.tokens), vectors.numpy()

    found = forwards(model, windows, machine, read)
    assert sorted(place for places, _ in found for place in places) == list(range(len(lengths)))
    order = np.concatenate([places for places, _ in found]).argsort()
    rows = np.concatenate([part[2] for _, part in found])[order]
    return [(thread, count, rows) for _, (thread, count, _) in found]


@pytest.mark.parametrize("lengths", [[9] * 40, [3, 5, 9] * 300, [66, 60, 2] * 150])
def test_even_batches_are_read_side_by_side(two_threads, model, machine, lengths) -> None:
    apart = read_by(model, lengths, machine, num_threads=2)
    assert len({thread for thread, *_ in apart}) == 2
    assert len(apart) % 2 == 0 or len(apart) > answering.MANY_ROUNDS
    if len(apart) == 2:
        counts = [count for _, count, _ in apart]
        assert max(counts) - min(counts) <= 2 * max(lengths)
    torch.set_num_threads(1)
    whole = read_by(model, lengths, machine)
    assert len({thread for thread, *_ in whole}) == 1
    np.testing.assert_allclose(apart[0][2], whole[0][2], atol=1e-5)


@pytest.mark.parametrize("lengths", [[9], [9] * 20, [66, 60, 50, 9, 9, 9, 40], [3] * 40 + [64]])
def test_few_or_uneven_texts_are_read_by_all_threads(two_threads, model, machine, lengths) -> None:
    assert [thread for thread, *_ in read_by(model, lengths, machine)] == [get_ident()]


def test_a_long_text_makes_no_batch_of_others_larger_and_is_read_first(
    two_threads, model, machine, monkeypatch
) -> None:
    monkeypatch.setattr(Machine, "batch_tokens", 64)
    texts = [np.full(length, 7) for length in [3] * 400 + [60]]
    windows = [Features(text, np.zeros_like(text)) for text in texts]
    found = forwards(model, windows, machine, lambda batch: len(batch.tokens))
    assert len(found) > answering.MANY_ROUNDS
    assert max(count for _, count in found) <= 64
    assert 400 in found[0][0]


def test_what_a_caller_says_of_precision_holds_for_all_texts(two_threads, model, machine) -> None:
    windows = [Features(np.full(9, 7), np.zeros(9, int))] * 60
    with torch.autocast("cpu", torch.bfloat16):
        found = forwards(model, windows, machine, lambda _: torch.is_autocast_enabled("cpu"))
    assert [says for _, says in found] == [True] * len(found)


def test_nothing_is_read_of_nothing(two_threads, model, machine) -> None:
    assert forwards(model, [], machine, lambda batch: batch) == []


def test_a_model_in_training_is_at_rest_in_every_lane(two_threads, config, machine) -> None:
    lengths = [9] * 60
    model = TaskModel(replace(config, dropout=0.5), [make_task("classify", LABELS)], seed=3)
    expected = read_by(model.eval(), lengths, machine)[0][2]
    model.train()
    found = read_by(model, lengths, machine)
    assert len(found) == 2
    np.testing.assert_allclose(found[0][2], expected, atol=1e-5)
    assert all(part.training for part in model.modules())


def test_many_long_answers_are_not_remembered_at_once(config, tokenizer, machine) -> None:
    texts = [SourceExample("cat", line=number) for number in range(70)]
    sizes: dict[int, list[int]] = {}
    for most in (12, 4096):
        task = Counting(writing={"most": most, "beams": 2})
        model = TaskModel(config, [task], seed=5).eval()
        Answerer(model, task, tokenizer, machine).answer(
            texts, windows_of(task, texts, tokenizer, longest=67)
        )
        sizes[most] = task.sizes
    assert max(sizes[12]) == 70
    assert max(sizes[4096]) * 2 * 4096 <= machine.draft_tokens
    assert sum(sizes[4096]) == 70


def test_a_thread_that_begins_to_write_beside_lanes_has_all_threads(
    two_threads, config, tokenizer, machine
) -> None:
    inside, is_over, seen = Barrier(3), Event(), list[int]()

    class Looking(Counting):
        def write(self, model: TaskModel, batch: Batch, tokenizer: Tokenizer) -> list[Answer]:
            seen.append(torch.get_num_threads())
            return super().write(model, batch, tokenizer)

    def hold(_: int) -> None:
        inside.wait(10)
        is_over.wait(10)

    task, texts = Looking(), [SourceExample("cat", line=1)]
    answerer = Answerer(TaskModel(config, [task], seed=5).eval(), task, tokenizer, machine)
    windows = windows_of(task, texts, tokenizer, longest=67)
    reader = Thread(target=lambda: side_by_side(hold, [0, 1]))
    reader.start()
    inside.wait(10)
    writer = Thread(target=lambda: answerer.answer(texts, windows))
    writer.start()
    writer.join()
    is_over.set()
    reader.join()
    assert seen == [2]
