"""Vectors of two texts: their windows, what is learned from them, and how cosines are judged."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError, UsageError
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, flatten, flatten_parts
from bertworks.data.windows import View
from bertworks.model.embedding import EmbeddingRecipe, VectorPooling
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.predictor import Predictor
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import learn_task
from bertworks.tasks.embed import Embed, VectorLesson, best_threshold, learn_vectors
from bertworks.tasks.task import TaskModel, Tunable

PAIRS = [
    TextExample("the cat sat", "a cat sits", score=4.5, line=1),
    TextExample("the dog ran over the hill " * 20, "北京", score=0.5, line=2),
    TextExample("Paris", "the capital of France", score=3.0, line=3),
]
LABELLED = [
    TextExample("a", "b", "same"),
    TextExample("c", "d", "other"),
    TextExample("e", "f", "same"),
]


def sides_of(windows: list[Features]) -> list[float]:
    """Return which text of its pair each window is of."""
    return [float(np.asarray(window.goals["embed"].values)[0, 0]) for window in windows]


@pytest.mark.parametrize("pooling", get_args(VectorPooling))
def test_the_cosine_is_that_of_the_vectors_that_embed_gives(
    pooling, config, tokenizer, machine
) -> None:
    task = Embed(pooling=pooling)
    model = TaskModel(config, [task], seed=3, deviation=0.2)
    predictor = Predictor(OpenModel(model, tokenizer, None, task.recipe), machine)
    windows = windows_of(task, PAIRS, tokenizer, longest=config.max_positions)
    assert [len(own) for own in windows] == [2, 4, 2]
    given = Answerer(model, task, tokenizer, machine).answer(PAIRS, windows)
    first, second = (
        predictor.embed([pair.text for pair in PAIRS]),
        predictor.embed([str(pair.text_b) for pair in PAIRS]),
    )
    cosines = (first * second).sum(axis=1)
    np.testing.assert_allclose([answer["score"] for answer in given], cosines, atol=1e-5)


def test_each_text_stands_alone_and_its_windows_share_it(tokenizer) -> None:
    task = Embed()
    windows = task.features(PAIRS[1], tokenizer, longest=20)
    assert sides_of(windows) == [0] * (len(windows) - 1) + [1]
    shares = [window.goals["embed"].weight for window in windows]
    assert sum(shares[:-1]) == pytest.approx(1.0)
    assert shares[-1] == 1.0
    assert all(set(window.segments) == {0} for window in windows)
    lengths = [len(window.tokens) for window in windows[:-1]]
    assert shares[:-1] == pytest.approx([length / sum(lengths) for length in lengths])


def test_a_text_is_read_as_the_recipe_says_and_what_is_lost_is_noted(tokenizer) -> None:
    prompts = {"query": "the hill: "}
    told = {"prompts": prompts, "default_prompt": "query", "pools_prompt": False}
    task = Embed().reading(EmbeddingRecipe(max_length=30, **told))
    windows = task.features(PAIRS[1], tokenizer, longest=20)
    ids = tokenizer.ids_of([prompts["query"] + PAIRS[1].text])[0][:28]
    pieces = [window.tokens[1:-1].tolist() for window in windows]
    assert pieces[0] == ids[:18]
    assert pieces[1][-5:] == ids[-5:]
    num_prompt = 1 + len(tokenizer.ids_of([prompts["query"]])[0])
    places = [np.asarray(window.goals["embed"].values)[0, 3:].tolist() for window in windows]
    # The prompt stands in the first window of a text.
    assert places == [[0, num_prompt], [20, 0], [0, num_prompt]]
    pooled = [len(window.tokens) - place[1] for window, place in zip(windows, places, strict=True)]
    shares = [window.goals["embed"].weight for window in windows]
    assert shares == pytest.approx([pooled[0] / sum(pooled[:2]), pooled[1] / sum(pooled[:2]), 1])
    said = "no more than the first 30 pieces make a text's vector"
    assert windows[0].note == View(losses=(said,))
    assert task.features(PAIRS[0], tokenizer, longest=20)[0].note == View()


@pytest.mark.parametrize("loss", ["ranking", "contrastive"])
def test_the_loss_does_not_depend_on_the_order_of_texts(loss, config, tokenizer) -> None:
    task = Embed(lesson=VectorLesson(loss))
    model = TaskModel(config, [task], seed=3, deviation=0.2).eval()
    windows = windows_of(task, PAIRS, tokenizer, longest=20)
    laid_out = [
        flatten([window for own in windows for window in own]),
        flatten([window for own in windows[::-1] for window in own[::-1]]),
        *flatten_parts(windows, count=1),
    ]
    losses = [model(batch)["embed"] for batch in laid_out]
    assert losses[0].item() > 0
    for other in losses[1:]:
        torch.testing.assert_close(other, losses[0])


def test_pairs_without_windows_count_once_each(tokenizer) -> None:
    windows = windows_of(Embed(), [PAIRS[0], PAIRS[2]], tokenizer, longest=67)
    (batch,) = flatten_parts(windows, count=1)
    assert batch.targets["embed"].count == 2.0


def test_a_part_that_asks_for_nothing_teaches_nothing(config, tokenizer) -> None:
    for loss in ("ranking", "contrastive", "simcse"):
        task = Embed(lesson=VectorLesson(loss))
        model = TaskModel(config, [task], seed=3)
        (_, silent) = flatten_parts(
            windows_of(task, PAIRS[:1], tokenizer, longest=67), count=2, wanted=[0, 1]
        )
        nothing = model(silent)["embed"]
        assert nothing.item() == 0.0
        nothing.backward()


def test_a_text_alone_is_read_twice_under_different_dropout(config, tokenizer) -> None:
    task = Embed(lesson=VectorLesson("simcse"))
    windows = task.features(TextExample("the cat sat"), tokenizer, longest=67)
    assert sides_of(windows) == [0, 1]
    np.testing.assert_array_equal(windows[0].tokens, windows[1].tokens)
    model = TaskModel(replace(config, dropout=0.3), [task], seed=3, deviation=0.2)
    torch.manual_seed(0)
    twice = model.logits(flatten(windows), "embed")
    assert not torch.equal(twice[0], twice[1])
    again = model.eval().logits(flatten(windows), "embed")
    torch.testing.assert_close(again[0], again[1])


def test_a_pair_needs_its_second_text(tokenizer) -> None:
    with pytest.raises(DataError, match=r"task embed needs a second text.*text_b"):
        Embed().features(TextExample("the cat"), tokenizer, longest=67)


def test_an_unknown_label_is_named(tokenizer) -> None:
    with pytest.raises(DataError, match=r"'2' is not among those of the model \(0, 1\)"):
        Embed().features(TextExample("a", "b", "2"), tokenizer, longest=67)


# What the data say


def test_the_columns_choose_the_loss() -> None:
    cases = {
        "ranking": [PAIRS, LABELLED],
        "contrastive": [[TextExample("a", "b"), TextExample("c", "d")]],
        "simcse": [[TextExample("a"), TextExample("b")]],
    }
    for loss, files in cases.items():
        for examples in files:
            assert learn_vectors(examples)["lesson"].loss == loss


def test_the_last_label_means_the_same_unless_another_is_named() -> None:
    assert learn_vectors(LABELLED)["labels"] == ("other", "same")
    assert learn_vectors(LABELLED, same="other")["labels"] == ("same", "other")
    with pytest.raises(UsageError, match="--same is '1', but the labels are other, same"):
        learn_vectors(LABELLED, same="1")


@pytest.mark.parametrize(
    ("different", "same"),
    [
        ("0", "1"),
        ("负例", "正例"),
        ("不相似", "相似"),
        ("not_equivalent", "equivalent"),
        ("Unrelated", "Duplicate"),
        ("no", "yes"),
        ("x", "y2"),
    ],
)
def test_usual_names_tell_which_label_means_the_same(different: str, same: str) -> None:
    pairs = [TextExample("a", "b", same), TextExample("c", "d", different)]
    for examples in (pairs, pairs[::-1]):
        assert learn_vectors(examples)["labels"] == (different, same)
        assert learn_vectors(examples, same=different)["labels"] == (same, different)
        assert learn_vectors(examples, order=(same, different))["labels"] == (same, different)
    assert Embed((different, same)).meaning.startswith(f"{same!r} means that texts belong together")


REFUSED = {
    "simcse on pairs": (LABELLED, "simcse", UsageError, "learns from single texts"),
    "ranking of nothing": ([TextExample("a", "b")], "ranking", UsageError, "needs a label or"),
    "contrast of scores": (PAIRS, "contrastive", UsageError, "not scores; choose ranking"),
    "one score": (PAIRS[:1] * 3, None, DataError, "has one score only"),
    "one label": (LABELLED[:1] * 3, None, DataError, "has one label .same."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_data_that_cannot_teach_are_refused(name: str) -> None:
    examples, loss, error, said = REFUSED[name]
    with pytest.raises(error, match=said):
        learn_vectors(examples, vector_loss=loss)


# Scores


@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_judges_more_pairs_rightly(pairs: list[tuple[int, bool]]) -> None:
    cosines = np.array([cosine / 4 for cosine, _ in pairs])
    is_same = np.array([same for _, same in pairs]).astype(int)

    def right(threshold: float) -> int:
        return int(((cosines > threshold) == is_same).sum())

    best = max(right(threshold) for threshold in [*cosines, -2.0])
    assert right(best_threshold(cosines, is_same)) == best


def test_a_threshold_is_set_by_labelled_pairs_and_judges_new_ones(tokenizer, score) -> None:
    task = Embed(("other", "same"))
    assert isinstance(task, Tunable)
    answers = [{"score": 0.9}, {"score": 0.2}, {"score": 0.4}]
    before = score(task, answers, LABELLED)
    assert before == {"auc": 1.0, "spearman": pytest.approx(0.866, abs=1e-3)}
    tuned = task.tuned(LABELLED, answers)
    assert tuned.threshold == pytest.approx(0.3)
    assert tuned.options["threshold"] == tuned.threshold
    judged = [
        {"score": a["score"], "label": str(e.label)} for a, e in zip(answers, LABELLED, strict=True)
    ]
    after = score(tuned, judged, LABELLED)
    assert (after["auc"], after["accuracy"], after["f1"]) == (1.0, 1.0, 1.0)


def test_a_cosine_above_the_threshold_is_the_same(tokenizer) -> None:
    task = Embed(("other", "same"), threshold=0.5)
    windows = task.features(LABELLED[0], tokenizer, longest=67)
    close, far = np.array([[1.0, 0.1]]), np.array([[-1.0, 0.1]])
    assert task.decode(LABELLED[0], windows, [close, close], tokenizer) == {
        "label": "same",
        "score": pytest.approx(1.0),
    }
    assert task.decode(LABELLED[0], windows, [close, far], tokenizer)["label"] == "other"


def test_scores_are_compared_by_rank_and_by_line(score) -> None:
    task = Embed()
    answers = [{"score": 0.9}, {"score": 0.1}, {"score": 0.2}]
    found = score(task, answers, PAIRS)
    assert list(found) == ["spearman", "pearson"]
    assert found["spearman"] == pytest.approx(1.0)
    assert task.tuned(PAIRS, answers) is task


@pytest.mark.parametrize(("threshold", "expected"), [(None, {}), (0.6, {"accuracy": 0.5})])
def test_pairs_of_one_label_only_have_neither_an_area_nor_a_correlation(
    threshold: float | None, expected: dict[str, float], score
) -> None:
    task = Embed(("other", "same"), threshold=threshold)
    found = score(task, [{"score": 0.5}, {"score": 0.7}], LABELLED[::2])
    assert found == expected


def test_a_model_that_goes_on_learning_pools_as_before() -> None:
    before = learn_task("embed", PAIRS, pooling="first")
    assert learn_task("embed", PAIRS, before=before).options["pooling"] == "first"
    assert learn_task("embed", PAIRS, before=before, pooling="max").options["pooling"] == "max"
    assert learn_task("embed", PAIRS).options["pooling"] == "mean"


@pytest.mark.parametrize(("count", "is_noted"), [(15, True), (14, False)])
def test_cosines_that_speak_against_the_labels_are_noted(count: int, is_noted: bool) -> None:
    notes = []
    for far in ("same", "other"):
        scorer = Embed(("other", "same")).scorer()
        for n in range(count):
            for label in ("same", "other"):
                cosine = n / 100 + (label != far)
                scorer.add(TextExample("a", "b", label), {"score": cosine})
        notes.append(scorer.note)
    assert notes[0].startswith("auc is 0.00, far below 0.5, so labels may be") == is_noted
    assert notes[1] == ""
