"""Labels that were never learned: told by entailment, by a cloze pattern, by vectors."""

import numpy as np
import pytest
import torch

from bertworks.core.errors import DataError, UsageError
from bertworks.data.examples import TextExample
from bertworks.data.packing import flatten
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.classify import Classify
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.task import TaskModel
from bertworks.tasks.zero_shot import (
    ByCloze,
    ByEntailment,
    ByVectors,
    Choice,
    entailed_label,
    make_zero_shot,
)

LABELS = {"cat": "cat", "dog": "a dog", "city": "北京"}
TEXTS = [TextExample("the dog ran over the hill"), TextExample("Paris is the capital")]
LONG = TextExample("the cat sat on the mat " * 30)
JUDGE = Classify(("contradiction", "neutral", "entailment"), kind="match")


@pytest.fixture
def choice() -> Choice:
    return Choice.of(LABELS)


@pytest.fixture
def answer(config, tokenizer, machine):
    """Return a way to answer by a network drawn for a task."""

    def answer(judge, task, examples):
        model = TaskModel(config, [judge], seed=3, deviation=0.2).eval()
        windows = windows_of(task, examples, tokenizer, longest=config.max_positions)
        return model, Answerer(model, task, tokenizer, machine).answer(examples, windows)

    return answer


def test_labels_are_names_or_names_with_descriptions() -> None:
    given = Choice.of(["cat", "price=low", "price=high"])
    assert given.labels == given.descriptions == ("cat", "price=low", "price=high")
    assert Choice.of(LABELS).descriptions == ("cat", "a dog", "北京")


def test_chinese_labels_stand_in_a_chinese_sentence() -> None:
    chinese, both = Choice.of(["体育", "财经"]), Choice.of(["体育", "money"])
    assert (chinese.is_chinese, both.is_chinese) == (True, False)
    judge = Classify(("entailment", "other"), name="match")
    with pytest.raises(UsageError, match="such as '这段话的主题是"):
        make_zero_shot([judge], chinese, by="entailment", template="no slot")
    with pytest.raises(UsageError, match="such as 'This text is about "):
        make_zero_shot([judge], both, by="entailment", template="no slot")


NO_CHOICES = [["one"], ["a", "a"], ["a", " "], "ab", [], {"a": "x", "b": "x"}]


@pytest.mark.parametrize("labels", [*NO_CHOICES, [1, 2], {"a": None, "b": "x"}])
def test_labels_that_leave_no_choice_are_refused(labels) -> None:
    with pytest.raises(UsageError):
        Choice.of(labels)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", "a"], "the label 'a' is given twice; give it once"),
        (["a", " "], "the label ' ' is empty; give it a word, or leave it out"),
        (["a", "x\udcff"], r"the label .* is not Unicode, for it holds half of a surrogate pair"),
        ([1, 2], "the label 1 is no string but of type int; write it as text"),
        (["a", None], "the label None is no string but of type NoneType"),
        ({"a": "x", "b": ""}, "the description of the label 'b' is empty"),
        ({"a": None, "b": "x"}, "the description of the label 'a' is no string but of type None"),
    ],
)
def test_each_fault_of_a_label_has_its_own_sentence(labels, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        Choice.of(labels)


def test_chances_are_the_softmax_and_the_prior_is_taken_off(choice) -> None:
    scores = np.log([0.5, 0.2, 0.3])
    first = choice.answer(scores)
    assert first["label"] == "cat"
    assert list(first["probabilities"].values()) == pytest.approx([0.5, 0.2, 0.3])
    prior = choice.answer(np.log([0.8, 0.1, 0.1]))
    fair = choice.without_prior(prior).answer(scores)
    assert fair["label"] == "city"
    assert list(fair["probabilities"].values()) == pytest.approx(np.array([0.625, 2, 3]) / 5.625)


@pytest.mark.parametrize("judge", [JUDGE, JUDGE.with_temperature(0.125)], ids=["as it is", "sharp"])
def test_entailment_compares_how_surely_each_claim_follows(
    judge, choice, answer, tokenizer
) -> None:
    """With three labels a temperature changes more than how sure an answer is."""
    task = ByEntailment(choice, judge, template="It tells of {label}!")
    _, answers = answer(judge, task, [*TEXTS, LONG])
    for example, given in zip([*TEXTS, LONG], answers, strict=True):
        pairs = [TextExample(example.text, f"It tells of {text}!") for text in LABELS.values()]
        _, judged = answer(judge, judge, pairs)
        chances = np.array([row["probabilities"]["entailment"] for row in judged])
        expected = chances / chances.sum()
        assert list(given["probabilities"].values()) == pytest.approx(expected, rel=1e-4)


def test_cloze_is_the_mean_log_probability_behind_as_many_masks(choice, answer, tokenizer) -> None:
    judge, example = FillMask(), TEXTS[0]
    task = ByCloze(choice, judge, template="{text} so [MASK] is here")
    model, (given,) = answer(judge, task, [example])
    text, end = tokenizer.ids_of([f"{example.text} so", "is here"])
    expected = []
    for pieces in tokenizer.ids_of(list(LABELS.values())):
        specials = tokenizer.specials
        tokens = [specials.first, *text, *[specials.mask] * len(pieces), *end, specials.separator]
        windows = task.features(example, tokenizer, longest=67)
        window = next(w for w in windows if w.note == len(pieces))
        assert window.tokens.tolist() == tokens
        with torch.no_grad():
            logits = model.logits(flatten([window]), "fill_mask").log_softmax(-1)
        found = [float(row[piece]) for row, piece in zip(logits, pieces, strict=True)]
        expected.append(sum(found) / len(found))
    assert len({len(ids) for ids in tokenizer.ids_of(list(LABELS.values()))}) > 1
    chances = np.exp(expected) / np.exp(expected).sum()
    assert list(given["probabilities"].values()) == pytest.approx(chances, rel=1e-4)


def test_a_long_text_is_read_in_windows_that_all_hold_the_pattern(choice, tokenizer) -> None:
    task = ByCloze(choice, FillMask(), template="[MASK] : {text} .")
    example = TextExample(LONG.text + "[MASK]", line=4)
    windows = task.features(example, tokenizer, longest=40)
    for length in {len(ids) for ids in tokenizer.ids_of(list(LABELS.values()))}:
        own = [window for window in windows if window.note == length]
        assert len(own) > 3
        for window in own:
            assert len(window.tokens) <= 40
            at = window.goals["fill_mask"].at
            assert list(at) == list(range(1, length + 1))  # that in the text is not asked for
    shown = {int(id_) for window in windows for id_ in window.tokens}
    assert set(tokenizer.ids_of([LONG.text])[0]) <= shown


def test_vectors_choose_the_closest_label(choice) -> None:
    task = ByVectors(choice, template="about {label}")
    assert task.texts == ["about cat", "about a dog", "about 北京"]
    assert task.answer(np.array([0.1, 0.7, 0.3]))["label"] == "dog"


def test_a_model_is_asked_in_the_best_way_it_knows(choice) -> None:
    plain = Classify(("0", "1"), kind="match")
    assert isinstance(make_zero_shot([], choice), ByVectors)
    assert isinstance(make_zero_shot([plain], choice), ByVectors)
    assert isinstance(make_zero_shot([FillMask()], choice), ByCloze)
    assert isinstance(make_zero_shot([FillMask(), JUDGE], choice), ByEntailment)
    assert isinstance(make_zero_shot([plain], choice, by="entailment"), ByEntailment)
    with pytest.raises(UsageError, match=r"no task head of this model fills masks.*vectors"):
        make_zero_shot([JUDGE], choice, by="cloze")
    with pytest.raises(UsageError, match="judges pairs of texts, so labels cannot be told by ent"):
        make_zero_shot([FillMask()], choice, by="entailment")


def test_the_label_of_entailment_is_known_by_its_name() -> None:
    assert entailed_label(JUDGE) == "entailment"
    assert entailed_label(Classify(("not_entailment", "Entailment"))) == "Entailment"
    assert entailed_label(Classify(("0", "1"))) == "1"
    with pytest.raises(UsageError, match="none of the labels a, b says"):
        entailed_label(Classify(("a", "b")))


@pytest.mark.parametrize(
    ("by", "template"),
    [
        ("vectors", "none"),
        ("cloze", "{text}"),
        ("cloze", "[MASK]"),
        ("cloze", "{text} [MASK][MASK]"),
    ],
)
def test_a_template_without_its_places_is_refused(by, template: str, choice) -> None:
    with pytest.raises(UsageError, match=r"the template .* must hold .* once"):
        make_zero_shot([FillMask()], choice, by=by, template=template)


@pytest.mark.parametrize(
    ("labels", "template", "said"),
    [
        (["cat", "Cat"], None, "the same pieces of the vocabulary"),
        (["cat", "dog " * 90], None, "leaves no room for a text"),
        (["cat", "dog"], "{text} " + "the " * 90 + "[MASK]", "leaves no room for a text"),
    ],
)
def test_labels_that_no_cloze_can_ask_for_are_refused(labels, template, said, tokenizer) -> None:
    task = ByCloze(Choice.of(labels), FillMask(), template=template)
    with pytest.raises(UsageError, match=said):
        task.features(TEXTS[0], tokenizer, longest=64)


def test_labels_are_told_apart_by_their_pieces(tokenizer) -> None:
    Choice.of(["cat", "dog"]).require_different(tokenizer)
    with pytest.raises(UsageError, match=r"the labels 'cat' and 'Cat' are the same pieces"):
        Choice.of(["cat", "dog", "Cat"]).require_different(tokenizer)


def test_a_way_that_there_is_not_is_named(choice) -> None:
    with pytest.raises(UsageError, match="entailment, cloze, vectors, not by 'magic'"):
        make_zero_shot([JUDGE], choice, by="magic")


def test_pairs_and_unknown_gold_are_refused(choice, tokenizer) -> None:
    pair = TextExample("a", "b")
    for task in (ByCloze(choice, FillMask()), ByEntailment(choice, JUDGE)):
        with pytest.raises(DataError, match="reads one text, not a pair"):
            task.features(pair, tokenizer, longest=67)
    with pytest.raises(DataError, match=r"'bird' is not among those to choose from \(cat, dog,"):
        choice.id_of("bird")


def test_right_labels_are_counted(choice, score) -> None:
    task = ByVectors(choice)
    examples = [TextExample("a", label="cat"), TextExample("b", label="dog")]
    answers = [task.answer(np.array([0.9, 0.1, 0.0])), task.answer(np.array([0.9, 0.1, 0.0]))]
    found = score(task, answers, examples)
    assert found["accuracy"] == 0.5


def test_labels_and_templates_that_are_no_unicode_are_refused() -> None:
    with pytest.raises(UsageError, match="is not Unicode"):
        Choice.of(["boat", "x\udcff"])
    with pytest.raises(UsageError, match=r"must hold \{label\} once"):
        ByVectors(Choice.of(["boat", "car"]), template="\udcff {label}")
