"""The decoder: what is remembered changes nothing, nor do neighbours, nor what comes later."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from bertworks.core.errors import UsageError
from bertworks.data.packing import Features, flatten
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.model.decoder import Decoder, Shares
from bertworks.model.encoder import Encoder, initialize
from bertworks.model.search import Search, Written, write_best

FIRST, END, VOCAB_SIZE = 2, 3, 31
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 18,
    "num_layers": 2,
    "num_heads": 3,
    "feed_forward_size": 23,
    "max_positions": 29,
}
LENGTHS = (5, 11, 1, 5, 8)
ALL_SHARES: tuple[Shares, ...] = get_args(Shares)
every_network = pytest.mark.parametrize(
    ("style", "shares"),
    [("bert", "nothing"), ("bert", "all"), ("modern", "embeddings"), ("modern", "nothing")],
)


class Network:
    """An encoder with its decoder, and the two ways to write with them."""

    def __init__(self, style: str = "bert", shares: Shares = "nothing", **more: Any) -> None:
        config = EncoderConfig(**{**STYLES[style], **SHAPE})
        self.encoder = Encoder(config)
        self.decoder = Decoder(config, target="reply", shares=shares, **more)
        for seed, part in enumerate((self.encoder, self.decoder)):
            initialize(part, seed=seed, deviation=0.35)
            part.eval()

    @torch.no_grad()
    def logits(self, texts: Sequence[Features]) -> Tensor:
        """Return what follows each token of the replies, all at once."""
        batch = flatten(texts)
        return self.decoder(self.encoder(batch), batch, self.encoder)

    @torch.no_grad()
    def answers(self, texts: Sequence[Features], search: Search) -> list[list[Written]]:
        """Return the best answers, a token at a time."""
        batch = flatten(texts)
        read = self.encoder(batch)
        draft = self.decoder.begin(read, batch.layout, self.encoder, room=search.most)
        return write_best(draft, torch.full((len(texts), 1), FIRST), search)


class Forgetful:
    """Answers that are read again from their first token for every new one."""

    def __init__(self, network: Network, texts: Sequence[Features]) -> None:
        self.network = network
        self.texts = [replace(text, reply=np.array([], dtype=np.int64)) for text in texts]

    def step(self, tokens: Tensor) -> Tensor:
        self.texts = [
            replace(text, reply=np.append(text.reply, token))
            for text, token in zip(self.texts, tokens.tolist(), strict=True)
        ]
        logits = self.network.logits(self.texts)
        return logits.view(len(self.texts), -1, VOCAB_SIZE)[:, -1]

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        self.texts = [self.texts[answer] for answer in answers.tolist()]


def draw_texts(lengths: Sequence[int] = LENGTHS, *, seed: int = 0) -> list[Features]:
    random = np.random.default_rng(seed)
    return [
        Features(
            random.integers(5, VOCAB_SIZE, size=length),
            np.zeros(length, dtype=np.int64),
            reply=np.array([FIRST, *random.integers(5, VOCAB_SIZE, size=random.integers(0, 9))]),
        )
        for length in lengths
    ]


def with_replies(texts: Sequence[Features], length: int, *, seed: int) -> list[Features]:
    random = np.random.default_rng(seed)
    return [replace(text, reply=random.integers(5, VOCAB_SIZE, size=length)) for text in texts]


@every_network
def test_a_draft_gives_the_logits_of_the_whole_reply(style: str, shares: Shares) -> None:
    network = Network(style, shares)
    texts = with_replies(draw_texts(), 7, seed=1)
    expected = network.logits(texts).view(len(texts), 7, VOCAB_SIZE)
    batch = flatten(texts)
    draft = network.decoder.begin(network.encoder(batch), batch.layout, network.encoder, room=7)
    replies = torch.from_numpy(np.stack([text.reply for text in texts]))
    for place, tokens in enumerate(replies.T):
        found = draft.step(tokens)
        torch.testing.assert_close(found, expected[:, place], atol=1e-5, rtol=1e-5)


@every_network
@pytest.mark.parametrize("beams", [1, 3])
def test_what_is_remembered_changes_no_answer(style: str, shares: Shares, beams: int) -> None:
    network, texts = Network(style, shares), draw_texts()
    search = Search(end=END, most=9, beams=beams, no_repeat=3)
    found = network.answers(texts, search)
    expected = write_best(Forgetful(network, texts), torch.full((len(texts), 1), FIRST), search)
    for ours, plain in zip(found, expected, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in plain]
        scores = [one.score for one in plain]
        assert [one.score for one in ours] == pytest.approx(scores, abs=1e-4)
    assert len({tuple(best[0].tokens) for best in found}) > 1


@every_network
def test_neighbours_and_their_number_change_nothing(style: str, shares: Shares) -> None:
    network, texts = Network(style, shares), draw_texts()
    together = network.logits(texts).split([len(text.reply) for text in texts])
    search = Search(end=END, most=8, beams=3)
    answers = network.answers(texts, search)
    for number, text in enumerate(texts):
        torch.testing.assert_close(network.logits([text]), together[number], atol=1e-5, rtol=0)
        (alone,) = network.answers([text], search)
        assert [one.tokens for one in alone] == [one.tokens for one in answers[number]]


@every_network
def test_a_later_token_changes_nothing_before_it(style: str, shares: Shares) -> None:
    network = Network(style, shares)
    (text,) = with_replies(draw_texts((6,)), 8, seed=2)
    before = network.logits([text])
    for place in range(8):
        reply = text.reply.copy()
        reply[place] = 5 if reply[place] != 5 else 6
        after = network.logits([replace(text, reply=reply)])
        torch.testing.assert_close(after[:place], before[:place], atol=1e-6, rtol=0)
        assert (after[place] - before[place]).abs().max() > 1e-2


@every_network
def test_every_token_of_the_source_matters(style: str, shares: Shares) -> None:
    network = Network(style, shares)
    (text,) = with_replies(draw_texts((6,)), 3, seed=3)
    before = network.logits([text])
    for place in range(6):
        tokens = text.tokens.copy()
        tokens[place] = 5 if tokens[place] != 5 else 6
        after = network.logits([replace(text, tokens=tokens)])
        assert (after - before).abs().amax(1).min() > 1e-3


@pytest.mark.parametrize("shares", ALL_SHARES)
def test_a_decoder_has_no_weights_for_what_it_shares(shares: Shares) -> None:
    network = Network(shares=shares)
    parts = {name.split(".")[0] for name, _ in network.decoder.named_parameters()}
    own = {"nothing": {"embeddings", "blocks"}, "embeddings": {"blocks"}, "all": set()}
    assert parts == {"readings", "output", *own[shares]}


@pytest.mark.parametrize("shares", ALL_SHARES)
def test_what_is_shared_learns_from_both_sides(shares: Shares) -> None:
    network = Network(shares=shares)
    batch = flatten(draw_texts())
    read = network.encoder(batch).detach()  # what the encoder learns comes by the decoder alone
    network.decoder(read, batch, network.encoder).logsumexp(-1).sum().backward()
    learned = {
        name.split(".")[0]
        for name, parameter in network.encoder.named_parameters()
        if parameter.grad is not None and parameter.grad.abs().max() > 0
    }
    lent = {"nothing": set(), "embeddings": {"embeddings"}, "all": {"embeddings", "blocks"}}
    assert learned == lent[shares]
    assert all(parameter.grad is not None for parameter in network.decoder.parameters())


def test_a_decoder_may_be_deeper_or_shallower_than_the_encoder() -> None:
    texts = draw_texts()
    for num_layers in (1, 3):
        network = Network(num_layers=num_layers)
        assert len(network.decoder.layers) == num_layers
        assert len(network.answers(texts, Search(end=END, most=4))) == len(texts)


def test_a_draft_goes_on_with_the_answers_that_are_kept() -> None:
    network, texts = Network(), draw_texts((4, 7))
    batch = flatten(texts)
    draft = network.decoder.begin(network.encoder(batch), batch.layout, network.encoder, room=3)
    draft.step(torch.tensor([7, 8]))
    draft.keep(torch.tensor([0, 0, 1, 1]))
    draft.step(torch.tensor([9, 10, 11, 12]))
    draft.keep(torch.tensor([3, 2]), torch.tensor([1]))
    found = draft.step(torch.tensor([13, 14]))
    for row, reply in enumerate(([8, 12, 13], [8, 11, 14])):
        expected = network.logits([replace(texts[1], reply=np.array(reply))])[-1]
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("style", ["recurrent", "convolution", "mean", "modernbert"])
def test_a_network_that_does_not_see_whole_texts_has_no_decoder(style: str) -> None:
    with pytest.raises(UsageError, match="needs attention to all that was written"):
        Network(style)


@pytest.mark.parametrize(
    ("style", "told"), [("mpnet", "learned or rotary"), ("albert", "blocks of its own")]
)
def test_a_family_without_the_parts_has_no_decoder(style: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Network(style)


def test_shared_blocks_cannot_be_more_or_fewer() -> None:
    with pytest.raises(UsageError, match="shares the encoder's 2 blocks"):
        Network(shares="all", num_layers=3)
    assert Network(shares="all", num_layers=2).decoder.blocks is None


def test_an_answer_longer_than_the_network_knows_places_is_refused() -> None:
    texts, most = draw_texts((3,)), SHAPE["max_positions"]
    assert Network().answers(texts, Search(end=VOCAB_SIZE, most=most))
    with pytest.raises(UsageError, match="30 pieces are asked for, but the network knows 29"):
        Network().answers(texts, Search(end=END, most=most + 1))
    rotary = Network("modern").answers(texts, Search(end=VOCAB_SIZE - 1, most=most + 1))
    assert rotary[0][0].tokens


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
def test_a_gpu_writes_what_a_cpu_writes() -> None:
    network, texts = Network(), draw_texts()
    search = Search(end=END, most=8, beams=3)
    expected = network.answers(texts, search)
    network.encoder.cuda()
    network.decoder.cuda()
    batch = flatten(texts).to(torch.device("cuda"))
    with torch.no_grad():
        read = network.encoder(batch)
        draft = network.decoder.begin(read, batch.layout, network.encoder, room=search.most)
        found = write_best(draft, torch.full((len(texts), 1), FIRST, device="cuda"), search)
    assert [one[0].tokens for one in found] == [one[0].tokens for one in expected]
