"""Fill-mask: every mask is asked for once, and its candidates come best first."""

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
from bertworks.data.windows import cut_spans
from bertworks.tasks.fill_mask import FillMask
from bertworks.tokenizer.learn import learn_byte_bpe

masked_words = st.lists(
    st.sampled_from(["cat", "dog", "北京", "[MASK]", "xyz"]), min_size=0, max_size=150
).flatmap(lambda words: st.permutations([*words, "[MASK]"]))


@pytest.fixture
def task() -> FillMask:
    return FillMask()


@given(masked_words, st.integers(5, 67))
def test_every_mask_is_asked_for_exactly_once(
    task, tokenizer, words: list[str], longest: int
) -> None:
    text = " ".join(words)
    ids = np.array(tokenizer.ids_of([text])[0])
    windows = task.features(TextExample(text), tokenizer, longest=longest)
    spans = cut_spans(len(ids), room=longest - 2)
    asked = [
        int(place) - 1 + start
        for window, (start, _) in zip(windows, spans, strict=True)
        for place in window.goals["fill_mask"].at
    ]
    assert asked == np.flatnonzero(ids == tokenizer.specials.mask).tolist()


@given(masked_words, st.integers(5, 67))
def test_what_is_asked_for_is_a_mask_in_its_window(
    task, tokenizer, words: list[str], longest: int
) -> None:
    for window in task.features(TextExample(" ".join(words)), tokenizer, longest=longest):
        goal = window.goals["fill_mask"]
        assert len(window.tokens) <= longest
        assert (window.tokens[goal.at] == tokenizer.specials.mask).all()
        assert (np.asarray(goal.values) == IGNORE).all()


@pytest.mark.parametrize("text", ["the cat", "", "[mask] MASK [CLS]"])
def test_a_text_without_a_mask_is_refused_with_the_remedy(task, tokenizer, text: str) -> None:
    with pytest.raises(DataError, match=r"no \[MASK\]; put one"):
        task.features(TextExample(text), tokenizer, longest=67)


def test_a_pair_is_refused_rather_than_half_read(task, tokenizer) -> None:
    with pytest.raises(DataError, match="one text, not a pair"):
        task.features(TextExample("the [MASK]", "a dog"), tokenizer, longest=67)


def test_a_batch_carries_the_places_of_all_masks(task, tokenizer) -> None:
    texts = ["[MASK] cat", "the dog [MASK] [MASK]"]
    windows = [w for t in texts for w in task.features(TextExample(t), tokenizer, longest=67)]
    batch = flatten(windows)
    at = batch.targets["fill_mask"].at
    assert (batch.tokens[at] == tokenizer.specials.mask).all()
    assert len(at) == 3


def test_in_training_large_log_sums_cost_their_square_and_in_scores_nothing() -> None:
    task = FillMask(z_loss=0.01)
    random = torch.Generator().manual_seed(2)
    logits = torch.randn(5, 13, generator=random, requires_grad=True)
    target = Target(torch.tensor([3, IGNORE, 12, 0, IGNORE]))
    plain = FillMask().loss(logits, target)
    asked = logits[target.values != IGNORE]
    penalty = 0.01 * (asked.logsumexp(-1) ** 2).sum()
    assert task.loss(logits, target).detach() == pytest.approx(float((plain + penalty).detach()))
    with torch.inference_mode():
        assert float(task.loss(logits.detach(), target)) == pytest.approx(float(plain.detach()))
    gradients = [
        torch.autograd.grad(loss, logits)[0]
        for loss in (
            task.loss(logits, target),
            FillMask().loss(logits, target)
            + 0.01 * (logits[target.values != IGNORE].logsumexp(-1) ** 2).sum(),
        )
    ]
    assert torch.allclose(*gradients, atol=1e-7)
    assert not gradients[0][1].any()


def test_the_z_loss_is_not_saved_with_the_model() -> None:
    assert FillMask(z_loss=0.01).options == FillMask().options


def test_candidates_come_best_first(task, tokenizer) -> None:
    logits = np.random.default_rng(1).normal(size=(2, tokenizer.vocab_size)).astype(np.float32)
    found = task.decode(TextExample("t"), [], [logits], tokenizer)["masks"]
    assert [len(mask) for mask in found] == [5, 5]
    for row, mask in zip(logits, found, strict=True):
        expected = torch.tensor(row).softmax(0).topk(5)
        assert [c["probability"] for c in mask] == pytest.approx(expected.values.tolist())
        assert [c["token"] for c in mask] == [tokenizer.piece(i) for i in expected.indices.tolist()]


def test_the_mask_of_bert_is_understood_by_other_families(task) -> None:
    tokenizer = learn_byte_bpe(lambda: ["the cat sat on the mat"] * 3, size=270, cased=True)
    asked = []
    for mask in ("[MASK]", "<mask>"):
        (window,) = task.features(TextExample(f"the {mask} sat"), tokenizer, longest=67)
        (at,) = window.goals["fill_mask"].at
        assert window.tokens[at] == tokenizer.specials.mask
        asked.append(window.tokens.tolist())
    assert asked[0] == asked[1]


def test_a_text_without_a_mask_is_told_the_mask_of_the_family(task, kinds) -> None:
    with pytest.raises(DataError, match="the text has no <mask>; put one"):
        task.features(TextExample("the cat"), kinds["byte-bpe"], longest=67)


def test_candidates_are_shown_without_the_marks_of_spaces(task) -> None:
    tokenizer = learn_byte_bpe(lambda: ["the cat sat on the mat"] * 3, size=285, cased=True)
    best = tokenizer.ids_of(["the cat"])[0][-1]
    assert tokenizer.piece(best) == "Ġcat"
    logits = np.zeros((1, tokenizer.vocab_size), np.float32)
    logits[0, best] = 3
    assert task.decode(TextExample("t"), [], [logits], tokenizer)["masks"][0][0]["token"] == "cat"


def test_rows_that_no_piece_names_are_no_candidates(tokenizer) -> None:
    size = tokenizer.vocab_size
    logits = np.random.default_rng(4).normal(size=(1, size + 7)).astype(np.float32)
    logits[0, size:] += 9
    task = FillMask(num_candidates=size + 7)
    (mask,) = task.decode(TextExample("t"), [], [logits], tokenizer)["masks"]
    (alone,) = task.decode(TextExample("t"), [], [logits[:, :size]], tokenizer)["masks"]
    assert [row["token"] for row in mask] == [row["token"] for row in alone]
    assert sum(row["probability"] for row in mask) < 0.1  # the rest lies on the spare rows


def test_the_probabilities_of_all_candidates_sum_to_one(tokenizer) -> None:
    task = FillMask(num_candidates=tokenizer.vocab_size)
    logits = np.random.default_rng(2).normal(size=(1, tokenizer.vocab_size)) * 1e3
    (mask,) = task.decode(TextExample("t"), [], [logits.astype(np.float32)], tokenizer)["masks"]
    shares = [candidate["probability"] for candidate in mask]
    assert sum(shares) == pytest.approx(1, abs=1e-6)
    assert shares == sorted(shares, reverse=True)
    assert len({candidate["token"] for candidate in mask}) == tokenizer.vocab_size


def test_the_loss_is_the_summed_cross_entropy(task) -> None:
    logits = torch.randn(4, 97, generator=torch.Generator().manual_seed(3))
    values = torch.tensor([5, IGNORE, 96, 0])
    expected = sum(functional.cross_entropy(logits[i], values[i]) for i in (0, 2, 3))
    torch.testing.assert_close(task.loss(logits, Target(values)), expected)


def test_accuracy_counts_the_best_candidate_of_the_first_mask(task, score) -> None:
    def answer(*tokens: str) -> dict[str, object]:
        return {"masks": [[{"token": token, "probability": 0.5} for token in tokens]]}

    answers = [answer("cat", "dog"), answer("dog", "cat"), answer("mat", "dog")]
    examples = [TextExample("[MASK]", label=label) for label in ("cat", "cat", "mat")]
    assert score(task, answers, examples) == {"accuracy": pytest.approx(2 / 3)}


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_is_tied_unless_the_options_say_otherwise(config, tied: bool) -> None:
    task = FillMask(tied=tied)
    assert task.options == {"tied": tied}
    assert (task.head(config).decoder is None) is tied


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
@pytest.mark.parametrize("own", [True, False])
def test_a_mask_is_written_in_berts_way_or_in_the_tokenizers_own(
    task, kinds, kind: str, own: bool
) -> None:
    tokenizer = kinds[kind]
    mask = tokenizer.mask_piece if own else "[MASK]"
    (window,) = task.features(TextExample(f"the {mask} sat"), tokenizer, longest=67)
    (place,) = window.goals["fill_mask"].at
    assert window.tokens[place] == tokenizer.specials.mask
