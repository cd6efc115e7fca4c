"""An answer is the same alone and in any company, for every kind of task and both backends."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from bertworks.data.forms import FORMS, make_example
from bertworks.interop.onnx import OnnxPlan, SessionSettings, open_session, write_onnx
from bertworks.serving import onnx_encoder
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.onnx_encoder import OnnxEncoder
from bertworks.serving.predictor import Predictor
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.task import TaskModel

LEARNED = [name for name, kind in KINDS.items() if kind.learn]
LONG = "the cat sat on the mat and the dog ran over the hill. " * 9
TEXTS = ["The cat", "北京是中国的首都", "a dog ran over the hill", "\u0e01", LONG]
NUM_INPUTS = len(TEXTS)
PAIRED = ("next_sentence", "sentence_order")


def numbers(answer: Any) -> Any:
    """Return an answer with its numbers rounded for comparison by value."""
    if isinstance(answer, dict):
        return {key: numbers(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [numbers(value) for value in answer]
    return pytest.approx(answer, abs=1e-5) if isinstance(answer, float) else answer


@pytest.fixture(scope="module")
def ask(config, tokenizer, machine, make_samples) -> Callable[[str], tuple[Predictor, list[Any]]]:
    """Draw a model of a kind, and inputs for it from one word to several windows long."""

    @cache
    def make(kind: str) -> tuple[Predictor, list[Any]]:
        if kind not in LEARNED:
            pair = {"text_b": "a dog [MASK]"} if kind in PAIRED else {}
            inputs = [{"text": f"{text} [MASK]", **pair} for text in TEXTS]
            options: dict[str, Any] = {}
        else:
            inputs = make_samples(5).rows(kind, NUM_INPUTS, longest=90)
            known = make_samples(6).rows(kind, 40)
            form = find_form(known[0], kind)
            examples = [
                make_example(row, n, form=form, labelled=True) for n, row in enumerate(known)
            ]
            options = KINDS[kind].learn(examples)
        task = KINDS[kind].make(tuple(options.pop("labels", ())), name=kind, **options)
        model = TaskModel(config, [task], seed=8, deviation=0.2)
        return Predictor(OpenModel(model, tokenizer, None), machine), inputs

    return make


def find_form(row: dict[str, Any], kind: str) -> str:
    """Return the form of a kind whose gold a row has."""
    return next(form for form in KINDS[kind].forms(scored=True) if {*FORMS[form].gold} & {*row})


@pytest.mark.parametrize("kind", KINDS)
@effort(max_examples=6)
@given(order=st.permutations(range(NUM_INPUTS)), cuts=st.sets(st.integers(1, NUM_INPUTS - 1)))
def test_an_answer_depends_on_no_neighbour(
    kind: str, ask: Callable[..., Any], order: list[int], cuts: set[int]
) -> None:
    model, inputs = ask(kind)
    alone = [model.predict([one])[0] for one in inputs]
    for first, last in pairwise([0, *sorted(cuts), NUM_INPUTS]):
        group = order[first:last]
        together = model.predict([inputs[place] for place in group])
        assert together == [numbers(alone[place]) for place in group]
    assert any(alone[0] != numbers(other) for other in alone[1:])  # a swap would be seen


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_by_onnx_depends_on_no_neighbour(
    kind: str, ask: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = ask(kind)
    encoder = model.model.encoder
    write_onnx(tmp_path / "model.onnx", encoder, OnnxPlan(), owner="")
    session = open_session(tmp_path / "model.onnx", SessionSettings(threads=1))
    monkeypatch.setattr(model.model, "encoder", OnnxEncoder(encoder, session))
    monkeypatch.setattr(onnx_encoder, "MOST_PADDING", 1.0)  # all share a rectangle
    alone = [model.predict([one])[0] for one in inputs]
    assert any(alone[0] != numbers(other) for other in alone[1:])
    for size in (2, 3, NUM_INPUTS):
        for first in range(0, NUM_INPUTS, size):
            group = slice(first, first + size)
            assert model.predict(inputs[group]) == [numbers(answer) for answer in alone[group]]
