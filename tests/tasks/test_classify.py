"""Classification: windows that share an example, its loss, and its answer."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TextExample
from bertworks.data.packing import flatten
from bertworks.tasks.classify import Classify, Emphasis, learn_labels
from bertworks.tasks.task import Answer

LABELS = ("cold", "mild", "warm")
words = st.lists(
    st.sampled_from(["cat", "dog", "北京", "mat", "xyz", "!"]), min_size=1, max_size=120
)
texts = words.map(" ".join)


@pytest.fixture
def task() -> Classify:
    return Classify(LABELS)


@pytest.fixture
def decode(task, tokenizer):
    """Return a way to answer from the logits of one or more windows."""

    def decode(logits: np.ndarray) -> Answer:
        return task.decode(TextExample("t"), [], [row[None] for row in logits], tokenizer)

    return decode


@given(texts, st.none() | texts, st.integers(9, 67))
def test_windows_share_one_weight_and_show_every_piece(
    task, tokenizer, text: str, text_b: str | None, longest: int
) -> None:
    windows = task.features(TextExample(text, text_b, "mild"), tokenizer, longest=longest)
    assert math.isclose(sum(window.goals["classify"].weight for window in windows), 1.0)
    assert all(window.goals["classify"].values == (1,) for window in windows)
    assert all(len(window.tokens) <= longest for window in windows)
    for segment, own in enumerate([text] if text_b is None else [text, text_b]):
        shown = {int(id_) for w in windows for id_ in w.tokens[w.segments == segment]}
        assert set(tokenizer.ids_of([own])[0]) <= shown


def test_a_text_that_fits_is_one_window_between_the_special_pieces(task, tokenizer) -> None:
    (window,) = task.features(TextExample("the cat", "a dog"), tokenizer, longest=67)
    (first, second), specials = tokenizer.ids_of(["the cat", "a dog"]), tokenizer.specials
    expected = [specials.first, *first, specials.separator, *second, specials.separator]
    assert window.tokens.tolist() == expected
    assert window.segments.tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_an_example_without_a_label_asks_without_a_target(task, tokenizer) -> None:
    (window,) = task.features(TextExample("the cat"), tokenizer, longest=67)
    assert window.goals["classify"].values == (IGNORE,)
    assert flatten([window]).targets["classify"].count == 0


def test_every_window_tells_the_line_of_its_example(task, tokenizer) -> None:
    example = TextExample("the cat sat on the mat", label="mild", line=17)
    windows = task.features(example, tokenizer, longest=5)
    assert len(windows) > 1
    assert flatten(windows).ids == (17,) * len(windows)


def test_an_unknown_label_is_named_with_those_that_are_known(task, tokenizer) -> None:
    with pytest.raises(DataError, match=r"the label 'hot'.*\(cold, mild, warm\)"):
        task.features(TextExample("the cat", label="hot"), tokenizer, longest=67)


def test_matching_needs_a_second_text(tokenizer) -> None:
    task = Classify(LABELS, kind="match")
    with pytest.raises(DataError, match=r"task match needs a second text.*text_b"):
        task.features(TextExample("the cat"), tokenizer, longest=67)


def test_the_loss_is_the_cross_entropy_with_every_window_at_its_weight(task) -> None:
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    values = torch.tensor([0, 2, 2, IGNORE, 1])
    weights = torch.tensor([1.0, 0.5, 0.5, 1.0, 0.25])
    each = functional.cross_entropy(logits, values.clamp(min=0), reduction="none")
    kept = (values != IGNORE).float()
    torch.testing.assert_close(task.loss(logits, Target(values)), (each * kept).sum())
    weighted = task.loss(logits, Target(values, weights=weights))
    torch.testing.assert_close(weighted, (each * kept * weights).sum())


def test_the_answer_averages_the_logits_of_the_windows(decode) -> None:
    logits = np.array([[2.0, 0.0, -1.0], [-3.0, 1.0, 0.5]], np.float32)
    mean = torch.tensor(logits, dtype=torch.float64).mean(0).softmax(0).tolist()
    found = decode(logits)
    assert list(found["probabilities"]) == list(LABELS)
    assert list(found["probabilities"].values()) == pytest.approx(mean)
    assert found["label"] == "mild"
    assert found["probability"] == max(found["probabilities"].values())
    # One window alone would have said another label.
    assert decode(logits[:1])["label"] == "cold"


@given(st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=3), min_size=1))
def test_probabilities_are_finite_and_sum_to_one(decode, rows: list[list[float]]) -> None:
    found = decode(np.array(rows, np.float32))
    shares = list(found["probabilities"].values())
    assert all(0 <= share <= 1 for share in shares)
    assert sum(shares) == pytest.approx(1, abs=1e-6)
    assert found["label"] in LABELS


def test_metrics_compare_answers_with_the_labels_of_their_examples(task, decode, score) -> None:
    logits = np.eye(3, dtype=np.float32)[[0, 1, 2, 2]]
    answers = [decode(row[None]) for row in logits]
    examples = [TextExample("t", label=label) for label in ("cold", "mild", "warm", "cold")]
    found = score(task, answers, examples)
    assert next(iter(found)) == "accuracy"
    assert found["accuracy"] == 0.75
    with pytest.raises(DataError, match="the label 'hot'"):
        score(task, answers, [*examples[:3], TextExample("t", label="hot")])


def test_the_head_has_one_logit_per_label(task, config) -> None:
    head = task.head(config)
    assert head.output.out_features == 3
    assert head.dropout.p == config.dropout


@pytest.mark.parametrize("rate", [0.0, 0.25])
def test_the_head_is_made_by_the_options_of_the_task(config, rate: float) -> None:
    head = Classify(LABELS, pooling="mean", dropout=rate).head(config)
    assert (head.pooling, head.dropout.p) == ("mean", rate)


def test_separators_are_as_many_as_the_tokenizer_puts_between(kinds) -> None:
    tokenizer = kinds["byte-bpe"]
    specials = tokenizer.specials
    assert specials.num_between == 2
    (window,) = Classify(LABELS).features(TextExample("the cat", "a dog"), tokenizer, longest=67)
    assert window.tokens.tolist().count(specials.separator) == 3
    windows = Classify(LABELS).features(
        TextExample("a cat " * 9, "a dog " * 9), tokenizer, longest=19
    )
    assert max(len(window.tokens) for window in windows) <= 19
    assert min(window.tokens.tolist().count(specials.separator) for window in windows) == 3


def test_numbers_come_in_their_order_and_names_in_theirs() -> None:
    examples = [TextExample("t", label=label) for label in ("b", "10", "2", "a", "0", "2", None)]
    assert learn_labels(examples)["labels"] == ("0", "2", "10", "a", "b")


@given(
    st.lists(st.text(min_size=1) | st.integers().map(str), min_size=2, unique=True), st.randoms()
)
def test_every_label_is_found_once_whatever_the_order(labels: list[str], random) -> None:
    examples = [TextExample("t", label=label) for label in labels]
    found = learn_labels(examples)["labels"]
    assert sorted(found) == sorted(labels)
    random.shuffle(examples)
    assert learn_labels(examples)["labels"] == found


def test_signs_that_only_look_like_numbers_are_names() -> None:
    examples = [TextExample("t", label=label) for label in ("²", "½", "1", "३")]
    assert set(learn_labels(examples)["labels"]) == {"²", "½", "1", "३"}


def test_balanced_labels_count_alike_in_all(tokenizer) -> None:
    examples = [TextExample("t", label=label) for label in "aaaaaabbc"]
    task = Classify(**learn_labels(examples, class_weights="balanced"))
    weights = dict.fromkeys("abc", 0.0)
    for example in examples:
        (window,) = task.features(example, tokenizer, longest=67)
        weights[str(example.label)] += window.goals["classify"].weight
    assert weights == pytest.approx({"a": 3.0, "b": 3.0, "c": 3.0})
    long = TextExample("the cat " * 40, label="c")
    shares = [w.goals["classify"].weight for w in task.features(long, tokenizer, longest=20)]
    assert len(shares) > 1
    assert sum(shares) == pytest.approx(3.0)


def test_focal_loss_follows_its_formula_and_scores_stay_as_they_are() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
    values = torch.tensor([0, 2, IGNORE, 1])
    chances = logits.softmax(1)[[0, 1, 3], [0, 2, 1]]
    expected = ((1 - chances) ** 2 * -chances.log()).sum()
    torch.testing.assert_close(
        Classify(LABELS, emphasis=Emphasis(focal=2.0)).loss(logits, Target(values)), expected
    )
    plain = Classify(LABELS).loss(logits, Target(values))
    torch.testing.assert_close(
        Classify(LABELS, emphasis=Emphasis(focal=2.0)).loss(logits.detach(), Target(values)),
        plain.detach(),
    )


@pytest.mark.parametrize("focal", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("margin", [12.0, 18.0, 200.0])
def test_focal_loss_of_a_label_that_is_surely_right_is_nearly_flat(
    focal: float, margin: float
) -> None:
    logits = torch.tensor([[margin, 0.0, 0.0]], requires_grad=True)
    Classify(LABELS, emphasis=Emphasis(focal=focal)).loss(
        logits, Target(torch.tensor([0]))
    ).backward()
    assert logits.grad.abs().max() < 1e-4


def test_one_label_alone_is_nothing_to_tell_apart() -> None:
    with pytest.raises(DataError, match=r"one label only \('a'\)"):
        learn_labels([TextExample("t", label="a")] * 3)
