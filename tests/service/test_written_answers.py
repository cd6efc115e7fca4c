"""Texts that are written: what they may cost, who is computed together, what fails alone."""

from typing import Any

import pytest
import torch

from bertworks.data.examples import SourceExample
from bertworks.service import written_answers
from bertworks.service.answers import Answers
from bertworks.service.asked import MOST_WRITTEN, Asked
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.lengths import Lengths
from bertworks.service.written_answers import COMPANY, MOST_PIECES, WrittenAnswers, as_asked
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.predictor import Predictor
from bertworks.tasks.generate import Generate

TEXTS = ["the cat sat", "a dog ran over the hill", "北京", "Paris", "the cat sat on the mat"]
DRAWN = Asked(temperature=1.4, draw_seed=3, longest_reply=9)
SHORT = Asked(beams=3, longest_reply=8)


@pytest.fixture(scope="module")
def open_writer(draw_model, machine):
    """Open a network of a family that writes in one of the ways."""

    def make(decoder: Any = "copied", family: str = "bert", **changes: Any) -> Predictor:
        drawn, tokenizer = draw_model(family, Generate(decoder=decoder), **changes)
        return Predictor(OpenModel(drawn, tokenizer, None), machine)

    return make


def answers_of(predictor: Predictor, together: int = 1 << 16) -> WrittenAnswers:
    return WrittenAnswers(predictor, Lengths(predictor.tokenizer, 500, together))


def task_of(predictor: Predictor) -> Generate:
    (task,) = predictor.model.tasks.values()
    assert isinstance(task, Generate)
    return task


def items_of(predictor: Predictor, texts: list[str], asked: Asked) -> list[Item]:
    examples = [SourceExample(text, line=number) for number, text in enumerate(texts, 1)]
    return answers_of(predictor).ask(task_of(predictor), examples, asked)


def write(predictor: Predictor, items: list[Item]) -> list[Any]:
    return answers_of(predictor).compute([item.content for item in items])


def replies(found: list[Any]) -> list[str]:
    return [answer["text"] for answer in found]


@pytest.mark.parametrize("asked", [Asked(longest_reply=9), SHORT, DRAWN])
@pytest.mark.parametrize("decoder", ["copied", "prefix"])
def test_neighbors_never_change_what_is_written(open_writer, decoder: str, asked: Asked) -> None:
    predictor = open_writer(decoder)
    items = items_of(predictor, TEXTS, asked)
    together = write(predictor, items)
    alone = [write(predictor, [item])[0] for item in items]
    assert replies(together) == replies(alone)
    scores = [[answer["score"] for answer in found] for found in (together, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert len(set(replies(together))) > 1


def test_only_what_is_asked_for_in_the_same_way_is_computed_together(open_writer) -> None:
    predictor = open_writer()
    ways = [
        Asked(),
        Asked(beams=2),
        Asked(longest_reply=9),
        Asked(no_repeat=2),
        Asked(length_penalty=0.5),
        Asked(begin="the"),
        Asked(temperature=0.5),
        Asked(temperature=0.5, draw_seed=1),
        Asked(top_k=3),
        Asked(top_p=0.5),
    ]
    keys = [items_of(predictor, ["the cat"], way)[0].key for way in ways]
    assert len(set(keys)) == len(ways)
    own = task_of(predictor).most
    same = [items_of(predictor, ["a dog"], way)[0].key for way in (ways[0], Asked(beams=1))]
    assert set(same) == {keys[0], items_of(predictor, ["a"], Asked(longest_reply=own))[0].key}


def test_what_may_be_written_is_part_of_the_cost_but_not_of_what_is_read(open_writer) -> None:
    predictor = open_writer(max_positions=167)
    costs = {
        way: items_of(predictor, ["the cat sat"], way)[0]
        for way in (
            Asked(longest_reply=10),
            Asked(longest_reply=10, beams=4),
            Asked(longest_reply=10, temperature=0.7),
            Asked(longest_reply=10, begin="the dog"),
        )
    }
    assert [item.num_written for item in costs.values()] == [10, 40, 10, 12]
    assert {item.num_read for item in costs.values()} == {5}
    assert [item.company for item in costs.values()] == [COMPANY, COMPANY // 4, COMPANY, COMPANY]
    assert items_of(predictor, ["the"], Asked(longest_reply=200))[0].num_written == 167
    with pytest.raises(Failure, match="more than 90 tokens, which is the most") as failed:
        answers_of(predictor, 90).ask(
            task_of(predictor), [SourceExample("the cat")] * 2, Asked(longest_reply=60)
        )
    assert failed.value.code == "too_large"


def test_no_model_writes_more_than_the_service_lets_it() -> None:
    task = Generate(writing={"most": 4000, "beams": 5})
    assert as_asked(task, Asked(beams=1)).most == MOST_WRITTEN
    assert as_asked(task, Asked()).most == MOST_PIECES // 5
    assert as_asked(task, Asked(longest_reply=7)).most == 7
    assert as_asked(task, Asked()).width == 5
    assert as_asked(task, Asked(draw_seed=2)).width == 1
    assert task.most == 4000
    with pytest.raises(Failure, match=r"8 beams of 129 pieces .* longest_reply of at most 128"):
        as_asked(task, Asked(beams=8, longest_reply=129))


@pytest.mark.parametrize(
    ("decoder", "family"), [("copied", "bert"), ("prefix", "bert"), ("copied", "roberta")]
)
def test_a_source_that_is_too_long_is_cut_and_that_is_told(
    open_writer, decoder: str, family: str
) -> None:
    predictor = open_writer(decoder, family)
    texts = ["the cat", "läuft über 北京 " * 60, "京" * 300, "14!" * 200]
    items = items_of(predictor, texts, Asked(longest_reply=9, begin="the dog"))
    assert [item.is_cut for item in items] == [False, True, True, True]
    for text, item in zip(texts, items, strict=True):
        assert text.startswith(item.content.example.source)
        assert item.num_read <= predictor.window
    alone = [write(predictor, [item])[0] for item in items]
    assert replies(write(predictor, items)) == replies(alone)


@pytest.mark.parametrize(
    ("decoder", "asked", "message"),
    [
        ("copied", {"begin": "the cat " * 40}, "begin has 80 pieces, but 64 are the most"),
        (
            "copied",
            {"shortest_reply": 66, "begin": "the cat"},
            "at least 66 pieces are asked for, but the network has places for 65",
        ),
        ("copied", {"begin": "漢"}, "answers cannot begin with '漢', for the tokenizer does not"),
        ("prefix", {"longest_reply": 66}, "a reply of 66 pieces leaves no place for the source"),
    ],
)
def test_what_leaves_no_place_is_refused(
    open_writer, decoder: str, asked: dict[str, Any], message: str
) -> None:
    answers = Answers(open_writer(decoder), queue_tokens=1 << 16)
    with pytest.raises(Failure, match=message) as failed:
        answers.prepare("generate", ["the cat"], asked)
    assert failed.value.code == "bad_value"


@pytest.mark.parametrize("asked", [SHORT, DRAWN])
def test_a_source_that_breaks_the_numbers_fails_alone(open_writer, asked: Asked) -> None:
    predictor = open_writer()
    words = ["cat", "dog", "14", "hill", "mat"]
    items = items_of(predictor, [f"the {word} sat" for word in words], asked)
    before = write(predictor, items)
    (poison,), *_ = predictor.tokenizer.ids_of(["14"])
    with torch.no_grad():
        predictor.model.encoder.embeddings.pieces.weight[poison] = float("nan")
    *_, broken, _, _ = after = write(predictor, items)
    assert isinstance(broken, Failure)
    assert broken.code == "not_finite"
    assert replies(after[:2] + after[3:]) == replies(before[:2] + before[3:])


def test_few_replies_are_written_at_once(open_writer, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, widths = open_writer(), []
    items = items_of(predictor, TEXTS, SHORT)
    expected, own = write(predictor, items), Generate.write

    def counted(self: Generate, model: Any, batch: Any, tokenizer: Any) -> Any:
        widths.append(batch.num_texts)
        return own(self, model, batch, tokenizer)

    monkeypatch.setattr(written_answers, "MOST_ROWS", 7)
    monkeypatch.setattr(Generate, "write", counted)
    assert replies(write(predictor, items)) == replies(expected)
    assert sum(widths) == len(TEXTS)
    assert max(widths) == 2
