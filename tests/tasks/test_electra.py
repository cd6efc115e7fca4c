"""ELECTRA: what the generator fills in is what the discriminator is asked about."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertworks.core.batch import Batch
from bertworks.core.pieces import IGNORE
from bertworks.data.packing import Features, Goal, flatten
from bertworks.model.config import EncoderConfig
from bertworks.model.fused import draw
from bertworks.tasks.catalog import make_task
from bertworks.tasks.electra import Electra, fill_in, generator_config
from bertworks.tasks.task import TaskModel

MASK = 4


@pytest.fixture
def learner(config) -> Electra:
    small = generator_config(config, 0.5)
    generator = TaskModel(small, [make_task("fill_mask")], seed=2, deviation=0.3)
    return Electra(generator, TaskModel(config, [make_task("replaced_token")], seed=3))


@pytest.fixture
def batch() -> Batch:
    random = np.random.default_rng(5)
    texts = []
    for length in (7, 13, 13):
        tokens = random.integers(5, 50, size=length)
        at = np.sort(random.permutation(np.arange(1, length - 1))[:3])
        goals = {
            "fill_mask": Goal(tokens[at], at),
            "replaced_token": Goal(np.zeros(length - 2, np.int64), np.arange(1, length - 1)),
        }
        hidden = tokens.copy()
        hidden[at] = MASK
        texts.append(Features(hidden, np.zeros(length, np.int64), goals))
    return flatten(texts)


@pytest.mark.parametrize(
    ("size", "share", "width", "num_heads", "inner"),
    [
        ("electra-small", 1 / 4, 64, 1, 256),
        ("electra-base", 1 / 3, 256, 4, 1024),
        ("electra-large", 1 / 4, 256, 4, 1024),
    ],
)
def test_generators_are_those_that_were_published(
    size: str, share: float, width: int, num_heads: int, inner: int
) -> None:
    config = EncoderConfig.named(size)
    made = generator_config(config, share)
    assert (made.hidden_size, made.num_heads, made.feed_forward_size) == (width, num_heads, inner)
    assert (made.num_layers, made.piece_size) == (config.num_layers, config.piece_size)


@pytest.mark.parametrize("share", [0.2, 0.25, 0.3, 0.375, 0.7])
@pytest.mark.parametrize("size", ["modern-12x512", "modern-12x384", "mini", "4x200"])
def test_all_sizes_of_a_generator_are_multiplied_fast(size: str, share: float) -> None:
    config = EncoderConfig.named(size)
    made = generator_config(config, share)
    assert made.hidden_size / made.num_heads % 8 == made.feed_forward_size % 8 == 0
    assert made.hidden_size == pytest.approx(share * config.hidden_size, abs=4 * made.num_heads)
    assert made.feed_forward_size == pytest.approx(share * config.feed_forward_size, abs=4)


def test_a_generator_may_be_tiny(config) -> None:
    made = generator_config(config, 0.01)
    assert (made.hidden_size, made.num_heads, made.feed_forward_size) == (2, 1, 2)


@pytest.mark.parametrize("size", ["electra-1x64", "modern-2x66", "recurrent-1x64", "albert-1x128"])
@pytest.mark.parametrize("share", [0.01, 0.25, 0.99])
def test_a_generator_of_any_share_can_be_built(size: str, share: float) -> None:
    config = replace(EncoderConfig.named(size), vocab_size=31, max_positions=9)
    generator = TaskModel(generator_config(config, share), [make_task("fill_mask")])
    Electra(generator, TaskModel(config, [make_task("replaced_token")]))


def test_both_networks_share_their_tables_and_nothing_else(learner) -> None:
    ours, theirs = learner.generator.encoder, learner.discriminator.encoder
    for table in ("pieces", "positions", "segments"):
        assert getattr(ours.embeddings, table) is getattr(theirs.embeddings, table)
    shared = {id(p) for p in ours.parameters()} & {id(p) for p in theirs.parameters()}
    assert len(shared) == 3
    num = [len(list(model.parameters())) for model in (learner, learner.generator)]
    assert num[0] == num[1] + len(list(learner.discriminator.parameters())) - 3


def test_a_piece_that_comes_out_as_it_was_is_original(batch) -> None:
    hidden = batch.targets["fill_mask"]
    pieces = hidden.values.clone()
    pieces[[1, 4]] += 1
    filled = fill_in(batch, hidden, pieces)
    places = hidden.at[[1, 4]]
    asked = filled.targets["replaced_token"]
    assert asked.at[asked.values == 1].tolist() == places.tolist()
    assert MASK not in filled.tokens
    whole = filled.tokens.clone()
    whole[places] -= 1
    assert whole.tolist() == batch.tokens.index_copy(0, hidden.at, hidden.values).tolist()
    assert batch.tokens.tolist().count(MASK) == 9  # what was lent is as it was


def test_what_is_not_asked_is_not_answered(batch) -> None:
    hidden, asked = batch.targets["fill_mask"], batch.targets["replaced_token"]
    values = asked.values.clone()
    values[::2] = IGNORE
    half = replace(
        batch, targets={**batch.targets, "replaced_token": replace(asked, values=values)}
    )
    found = fill_in(half, hidden, hidden.values + 1).targets["replaced_token"].values
    whole = fill_in(batch, hidden, hidden.values + 1).targets["replaced_token"].values
    assert found[1::2].tolist() == whole[1::2].tolist()
    assert set(found[::2].tolist()) == {IGNORE}


def test_the_discriminator_reads_what_the_generator_drew(learner, batch) -> None:
    learner.eval()
    torch.manual_seed(1)
    judged = learner.judged(batch)
    assert list(judged) == ["fill_mask", "replaced_token"]
    torch.manual_seed(1)
    guessed, hidden = learner.generator.judged(batch)["fill_mask"]
    filled = fill_in(batch, hidden, draw(guessed))
    assert torch.equal(judged["replaced_token"][1].values, filled.targets["replaced_token"].values)
    expected = learner.discriminator.logits(filled, "replaced_token")
    assert torch.equal(judged["replaced_token"][0], expected)
    torch.manual_seed(2)
    other = learner.judged(batch)
    assert torch.equal(other["fill_mask"][0], judged["fill_mask"][0])
    assert not torch.equal(other["replaced_token"][0], judged["replaced_token"][0])


def test_nothing_flows_back_through_what_was_drawn(learner, batch) -> None:
    torch.manual_seed(1)
    learner(batch)["replaced_token"].backward()
    shared = {id(p) for p in learner.discriminator.parameters()}
    own = [p for p in learner.generator.parameters() if id(p) not in shared]
    assert own
    assert all(p.grad is None for p in own)
    learner(batch)["fill_mask"].backward()
    assert any(p.grad is not None for p in own)


def test_every_weight_learns_from_both_losses(learner, batch) -> None:
    torch.manual_seed(1)
    torch.stack(list(learner(batch).values())).sum().backward()
    idle = [
        name
        for name, p in learner.named_parameters()
        if (p.grad is None or not p.grad.any()) and "pooler" not in name
    ]
    assert idle == []


def test_the_discriminator_learns_to_find_what_the_generator_got_wrong() -> None:
    shape = replace(EncoderConfig.named("modern-2x64"), vocab_size=50, max_positions=13)
    generator = TaskModel(generator_config(shape, 0.5), [make_task("fill_mask")], seed=2)
    learner = Electra(generator, TaskModel(shape, [make_task("replaced_token")], seed=3))
    random = np.random.default_rng(5)
    optimizer = torch.optim.Adam(learner.parameters(), lr=2e-3)
    fresh = repeated_pieces(np.random.default_rng(6))
    before = f1_of(learner, fresh)
    for step in range(160):
        torch.manual_seed(step)
        batch = repeated_pieces(random)
        optimizer.zero_grad()
        (learner(batch)["replaced_token"] / batch.targets["replaced_token"].count).backward()
        optimizer.step()
    assert before < 0.5
    assert f1_of(learner, fresh) > 0.6


def repeated_pieces(random: np.random.Generator) -> Batch:
    """Make texts that repeat one piece, so that any other was put in."""
    texts = []
    for length in (7, 9, 11, 13, 13, 13) * 4:
        tokens = np.full(length, random.integers(5, 50))
        at = np.sort(random.permutation(length)[:2])
        goals = {
            "fill_mask": Goal(tokens[at], at),
            "replaced_token": Goal(np.zeros(length, np.int64), np.arange(length)),
        }
        tokens = tokens.copy()
        tokens[at] = MASK
        texts.append(Features(tokens, np.zeros(length, np.int64), goals))
    return flatten(texts)


def f1_of(learner: Electra, batch: Batch) -> float:
    """Return how well the discriminator finds what was replaced."""
    torch.manual_seed(7)
    with torch.no_grad():
        logits, target = learner.judged(batch)["replaced_token"]
    suspected, replaced = logits[:, 0] > 0, target.values == 1
    return float(2 * (suspected & replaced).sum() / (suspected.sum() + replaced.sum()))


# A table that the generator alone moves


@pytest.fixture
def apart(config) -> Electra:
    generator = TaskModel(
        generator_config(config, 0.5), [make_task("fill_mask")], seed=2, deviation=0.3
    )
    discriminator = TaskModel(config, [make_task("replaced_token")], seed=3)
    return Electra(generator, discriminator, has_difference=True)


def table_of(model: TaskModel) -> torch.Tensor:
    return model.encoder.embeddings.pieces.weight.detach()


def difference_of(learner: Electra) -> torch.nn.Parameter:
    named = dict(learner.discriminator.named_parameters())
    return named["encoder.embeddings.pieces.parametrizations.weight.original"]


def test_a_table_and_a_difference_are_the_table_that_was_given(apart, config) -> None:
    given = TaskModel(config, [make_task("replaced_token")], seed=3)
    torch.testing.assert_close(table_of(apart.discriminator), table_of(given))
    sum_of_both = table_of(apart.generator) + difference_of(apart).detach()
    assert torch.equal(table_of(apart.discriminator), sum_of_both)


def test_each_network_moves_its_own_part_of_the_table(apart, batch) -> None:
    theirs, ours = apart.generator.encoder.embeddings.pieces.weight, difference_of(apart)
    torch.manual_seed(1)
    losses = apart(batch)
    gradients = {
        name: torch.autograd.grad(loss, (theirs, ours), retain_graph=True, allow_unused=True)
        for name, loss in losses.items()
    }
    assert gradients["fill_mask"][1] is None
    assert gradients["replaced_token"][0] is None
    assert gradients["fill_mask"][0].abs().sum() > 0
    assert gradients["replaced_token"][1].abs().sum() > 0
    before = table_of(apart.discriminator).clone()
    with torch.no_grad():
        theirs += 1.0
    torch.testing.assert_close(table_of(apart.discriminator), before + 1.0)  # it follows


def test_the_discriminator_is_whole_without_the_generator(apart, learner, batch) -> None:
    alone = apart.alone()
    names = set(TaskModel(alone.config, [make_task("replaced_token")]).state_dict())
    assert set(alone.state_dict()) == names
    expected = apart.discriminator.eval().logits(batch, "replaced_token")
    assert torch.equal(alone.eval().logits(batch, "replaced_token"), expected)
    with torch.no_grad():
        alone.encoder.embeddings.pieces.weight.zero_()
    assert table_of(apart.discriminator).abs().sum() > 0  # it is a copy
    assert learner.alone() is learner.discriminator
