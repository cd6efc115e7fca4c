"""Task heads: where they look, and what they share with the encoder."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Batch, Target
from bertworks.data.packing import flatten
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Encoder, initialize, pool_texts
from bertworks.model.fused import ACTIVATIONS
from bertworks.model.heads import (
    CHAIN_PACE,
    ChainHead,
    PieceHead,
    PlaceHead,
    PlacesHead,
    TextHead,
    TokenHead,
    VectorHead,
)

CONFIG = EncoderConfig(
    vocab_size=97,
    hidden_size=21,
    num_layers=1,
    num_heads=3,
    feed_forward_size=37,
    max_positions=53,
)
PLACES = (1, 4, 5, 11)


@pytest.fixture
def encoder() -> Encoder:
    encoder = Encoder(CONFIG)
    initialize(encoder, deviation=0.3, seed=1)
    return encoder.eval()


@pytest.fixture
def head() -> PieceHead:
    head = PieceHead(CONFIG, target="hidden")
    initialize(head, deviation=0.3, seed=2)
    with torch.no_grad():
        head.bias.normal_(generator=torch.Generator().manual_seed(3))
    return head


@pytest.fixture
def batch(make_texts) -> Batch:
    flat = flatten(make_texts([5, 1, 7], vocab_size=97, seed=4))
    target = Target(torch.tensor([3, 5, 7, 9]), at=torch.tensor(PLACES))
    return replace(flat, targets={"hidden": target})


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(13, 21, generator=torch.Generator().manual_seed(5))


def test_pieces_are_guessed_at_the_places_of_the_target_only(head, hidden, batch, encoder) -> None:
    logits = head(hidden, batch, encoder)
    assert logits.shape == (4, 97)
    everywhere = replace(batch, targets={"hidden": Target(torch.zeros(13), at=None)})
    whole = head(hidden, everywhere, encoder)
    assert whole.shape == (13, 97)
    torch.testing.assert_close(logits, whole[list(PLACES)], atol=1e-5, rtol=0)


def test_no_gradient_reaches_the_places_that_are_not_asked_for(
    head, hidden, batch, encoder
) -> None:
    hidden.requires_grad_()
    head(hidden, batch, encoder).square().sum().backward()
    touched = hidden.grad.abs().sum(1).nonzero().flatten().tolist()
    assert touched == list(PLACES)


def test_no_place_at_all_gives_no_rows(head, hidden, batch, encoder) -> None:
    nothing = Target(torch.empty(0, dtype=torch.long), at=torch.empty(0, dtype=torch.long))
    logits = head(hidden, replace(batch, targets={"hidden": nothing}), encoder)
    assert logits.shape == (0, 97)


def test_the_piece_head_is_the_published_formula(head, hidden, batch, encoder) -> None:
    chosen = hidden[list(PLACES)]
    bent = ACTIVATIONS["gelu"](chosen @ head.transform.weight.T + head.transform.bias)
    normed = functional.layer_norm(bent, (21,), head.norm.weight, head.norm.bias, 1e-12)
    expected = normed @ encoder.embeddings.pieces.weight.T + head.bias
    torch.testing.assert_close(head(hidden, batch, encoder), expected, atol=1e-5, rtol=0)


def test_the_piece_head_is_tied_to_the_embeddings(head, hidden, batch, encoder) -> None:
    assert all(97 not in parameter.shape[:-1] for parameter in head.parameters())
    before = head(hidden, batch, encoder)
    with torch.no_grad():
        encoder.embeddings.pieces.weight[8] += 1.0
    after = head(hidden, batch, encoder)
    changed = (after - before).abs().sum(0).nonzero().flatten().tolist()
    assert changed == [8]
    after.sum().backward()
    assert encoder.embeddings.pieces.weight.grad is not None


def test_a_text_head_sees_the_first_token_of_each_text_only(hidden, batch, encoder) -> None:
    head = TextHead(CONFIG, num_labels=5)
    initialize(head, deviation=0.3, seed=6)
    hidden.requires_grad_()
    logits = head(hidden, batch, encoder)
    assert logits.shape == (3, 5)
    logits.square().sum().backward()
    assert hidden.grad.abs().sum(1).nonzero().flatten().tolist() == [0, 5, 6]


def test_a_text_head_drops_out_in_training_only(hidden, batch, encoder) -> None:
    head = TextHead(CONFIG, num_labels=5, dropout=0.5)
    initialize(head, deviation=0.3, seed=6)
    head.train()
    torch.manual_seed(1)
    first, second = head(hidden, batch, encoder), head(hidden, batch, encoder)
    assert not torch.equal(first, second)
    head.eval()
    first, second = head(hidden, batch, encoder), head(hidden, batch, encoder)
    assert torch.equal(first, second)
    pooled = encoder.pool(hidden, batch.layout)
    torch.testing.assert_close(first, head.output(pooled), atol=1e-6, rtol=0)


def test_an_untied_piece_head_has_a_decoder_of_its_own(hidden, batch, encoder) -> None:
    head = PieceHead(CONFIG, target="hidden", tied=False)
    initialize(head, deviation=0.3, seed=2)
    assert head.decoder.shape == (97, 21)
    assert head.decoder.any()
    before = head(hidden, batch, encoder)
    with torch.no_grad():
        encoder.embeddings.pieces.weight.zero_()
        assert torch.equal(head(hidden, batch, encoder), before)
        head.decoder[8] += 1.0
    changed = (head(hidden, batch, encoder) - before).abs().sum(0).nonzero().flatten().tolist()
    assert changed == [8]


def test_a_piece_head_ends_as_wide_as_the_pieces(hidden, batch) -> None:
    narrow = replace(CONFIG, embedding_size=10)
    encoder, head = Encoder(narrow), PieceHead(narrow, target="hidden")
    assert head.transform.weight.shape == (10, 21)
    assert head(hidden, batch, encoder).shape == (4, 97)


def test_a_piece_head_without_biases_keeps_that_of_the_pieces() -> None:
    names = dict(PieceHead(replace(CONFIG, biases=False), target="hidden").named_parameters())
    assert set(names) == {"bias", "transform.weight", "norm.weight"}


@pytest.mark.parametrize(
    ("family", "bend"),
    [
        ("bert", "relu"),
        ("distilbert", "relu"),
        ("albert", "relu"),
        ("bertworks", "relu"),
        ("roberta", "gelu"),
        ("electra", "gelu"),
        ("mpnet", "gelu"),
        ("modernbert", "gelu"),
    ],
)
def test_a_piece_head_bends_as_its_family_does(
    family, bend: str, head, hidden, batch, encoder
) -> None:
    other = PieceHead(replace(CONFIG, family=family, activation="relu"), target="hidden")
    other.load_state_dict(head.state_dict())
    head.activation = ACTIVATIONS[bend]
    assert torch.equal(other(hidden, batch, encoder), head(hidden, batch, encoder))


def test_a_token_head_is_the_published_formula_at_the_places_asked_for(
    hidden, batch, encoder
) -> None:
    head = TokenHead(CONFIG, target="hidden", num_labels=5)
    initialize(head, deviation=0.3, seed=6)
    bent = functional.gelu(head.transform(hidden[list(PLACES)]))
    torch.testing.assert_close(head(hidden, batch, encoder), head.output(bent))
    everywhere = replace(batch, targets={"hidden": Target(torch.zeros(13), at=None)})
    assert head(hidden, everywhere, encoder).shape == (13, 5)


@pytest.mark.parametrize("pooling", [None, "first", "mean", "max"])
def test_a_text_head_reads_the_pooled_vector_it_was_made_for(
    pooling, hidden, batch, encoder
) -> None:
    head = TextHead(CONFIG, num_labels=5, pooling=pooling)
    pooled = encoder.pool(hidden, batch.layout, pooling)
    assert torch.equal(head(hidden, batch, encoder), head.output(pooled))
    differs = not torch.equal(pooled, encoder.pool(hidden, batch.layout))
    assert differs is (pooling in ("mean", "max"))


def test_a_vector_head_has_nothing_to_learn(hidden, batch, encoder) -> None:
    head = VectorHead(pooling="mean")
    assert list(head.parameters()) == []
    assert torch.equal(head(hidden, batch, encoder), pool_texts(hidden, batch.layout, "mean"))


def test_a_vector_head_leaves_out_what_the_target_says(hidden, batch, encoder) -> None:
    head, num_texts = VectorHead(pooling="first", target="embed"), batch.num_texts
    values = torch.tensor([[7.0, 0.0, 1.0]] * num_texts)
    asked = replace(batch, targets={"embed": Target(values)})
    seconds = torch.stack([text[:2][-1] for text in hidden.split(batch.layout.lengths)])
    assert torch.equal(head(hidden, asked, encoder), seconds)
    silent = replace(batch, targets={"embed": Target(torch.full_like(values, torch.nan))})
    assert head(hidden, silent, encoder).shape == seconds.shape


def test_a_vector_head_counts_tokens_by_their_places_in_the_whole_text(
    hidden, batch, encoder
) -> None:
    head, lengths = VectorHead(pooling="weighted", target="embed"), batch.layout.lengths
    before = torch.arange(batch.num_texts) * 5.0
    values = torch.stack([before, torch.zeros_like(before)], dim=1)
    found = head(hidden, replace(batch, targets={"embed": Target(values)}), encoder)
    for row, part, start in zip(found, hidden.split(lengths), before, strict=True):
        places = start + torch.arange(1.0, len(part) + 1)
        torch.testing.assert_close(row, places @ part / places.sum())


def test_several_places_are_read_side_by_side(hidden, batch, encoder) -> None:
    head = PlacesHead(CONFIG, target="hidden", num_places=2, num_labels=5)
    initialize(head, deviation=0.3, seed=6)
    at = torch.tensor([[4, 1], [5, 5], [6, 12]])
    asked = replace(batch, targets={"hidden": Target(torch.zeros(3, dtype=torch.long), at=at)})
    expected = head.output(torch.cat([hidden[at[:, 0]], hidden[at[:, 1]]], dim=1))
    torch.testing.assert_close(head(hidden, asked, encoder), expected)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_single_places_are_read_as_their_family_labels_them(family, hidden, batch) -> None:
    config = replace(CONFIG, family=family)
    encoder, head = Encoder(config), PlaceHead(config, target="hidden", num_labels=5)
    initialize(encoder, deviation=0.3, seed=5)
    initialize(head, deviation=0.3, seed=6)
    vectors = hidden[list(PLACES)]
    read = encoder.pooler(vectors) if family == "modernbert" else vectors
    torch.testing.assert_close(head(hidden, batch, encoder), head.output(read))


def test_a_chain_scores_labels_alone_where_a_text_begins_and_else_after_each_label(
    hidden, batch, encoder
) -> None:
    head = ChainHead(CONFIG, target="hidden", num_labels=3)
    initialize(head, deviation=0.3, seed=6)
    with torch.no_grad():
        head.beginnings.copy_(torch.tensor([0.1, 0.2, 0.3]))
        head.transitions.copy_(torch.arange(9) / 7)
    rows = head(hidden, batch, encoder).unflatten(1, (3, 3))
    starts = batch.layout.starts.tolist()
    texts = [sum(place >= start for start in starts) for place in PLACES]
    assert len(set(texts)) > 1
    before = None
    assert [int(batch.positions[place]) for place in PLACES] == [1, 4, 0, 5]
    for row, place, text in zip(rows, PLACES, texts, strict=True):
        begins = head.beginnings * (place == 1)  # others are from the middle of a text
        after = begins.expand(3, 3) if text != before else head.transitions.view(3, 3)
        torch.testing.assert_close(row, head.output(hidden[place]) + CHAIN_PACE * after)
        before = text
    nothing = replace(batch, targets={"hidden": Target(torch.zeros(0), at=torch.zeros(0).long())})
    assert head(hidden, nothing, encoder).shape == (0, 9)
