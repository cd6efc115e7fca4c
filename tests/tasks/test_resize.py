"""Tables of pieces and positions change their rows, and nothing else does."""

from collections.abc import Callable

import pytest
import torch

from bertworks.core.batch import Target
from bertworks.data.packing import Features, flatten
from bertworks.model.config import Local
from bertworks.tasks.catalog import make_task
from bertworks.tasks.electra import add_generator, generator_config, parted, share_tables
from bertworks.tasks.resize import Counted, mean_rows, with_rows
from bertworks.tasks.task import TaskModel

FAMILIES = ["bert", "roberta", "albert", "modernbert"]
PIECES = {"encoder.embeddings.pieces.weight", "heads.fill_mask.bias", "heads.fill_mask.decoder"}


def both_heads(*, tied: bool) -> list:
    return [make_task("fill_mask", tied=tied), make_task("classify", ["a", "b"])]


def changed(before: TaskModel, after: TaskModel) -> set[str]:
    """Return the parameters that are not what they were."""
    old = dict(before.named_parameters())
    return {
        name
        for name, parameter in after.named_parameters()
        if parameter.shape != old[name].shape or not torch.equal(parameter, old[name])
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_every_table_of_pieces_gets_the_new_rows_and_nothing_else_changes(
    family: str, tied: bool, draw_model: Callable
) -> None:
    model, _ = draw_model(family, *both_heads(tied=tied))
    with torch.no_grad():
        model.heads["fill_mask"].bias.normal_()
    sources = [[4], [1, 2, 9], [0]]
    made = with_rows(model, "vocab_size", sources)
    tables = PIECES if not tied else PIECES - {"heads.fill_mask.decoder"}
    assert changed(model, made) == tables
    assert made.config.vocab_size == 3
    for name in tables:
        old, new = model.get_parameter(name), made.get_parameter(name)
        assert torch.equal(new[0], old[4])
        assert torch.equal(new[2], old[0])
        torch.testing.assert_close(new[1], (old[1] + old[2] + old[9]) / 3)


def test_as_many_rows_as_before_are_changed_too(draw_model: Callable) -> None:
    model, _ = draw_model("bert", *both_heads(tied=True))
    rows = range(model.config.vocab_size)
    made = with_rows(model, "vocab_size", [[row] for row in reversed(rows)])
    assert "encoder.embeddings.pieces.weight" in changed(model, made)
    again = with_rows(made, "vocab_size", [[row] for row in reversed(rows)])
    assert changed(model, again) == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_of_the_old_length_keeps_its_vectors_in_longer_tables(
    family: str, draw_model: Callable
) -> None:
    model, _ = draw_model(family, *both_heads(tied=True))
    made = with_rows(model, "max_positions", [[place % 67] for place in range(150)])
    places = {"encoder.embeddings.positions.weight"} if family != "modernbert" else set()
    assert changed(model, made) == places
    random = torch.Generator().manual_seed(5)
    tokens = torch.randint(5, 90, (67,), generator=random).numpy()
    batch = flatten([Features(tokens, tokens * 0)])
    batch.targets["fill_mask"] = Target(batch.tokens)
    with torch.no_grad():
        assert torch.equal(made.encoder(batch), model.encoder(batch))
        for name in model.tasks:
            assert torch.equal(made.logits(batch, name), model.logits(batch, name))
        long = torch.cat([batch.tokens, batch.tokens]).numpy()
        assert made.encoder(flatten([Features(long, long * 0)])).isfinite().all()


def test_other_fields_can_change_with_the_rows(draw_model: Callable) -> None:
    model, _ = draw_model("bert")
    made = with_rows(model, "max_positions", [[0]] * 99, local=Local(window=3))
    assert (made.config.local, made.config.max_positions) == (Local(window=3), 99)


def test_the_model_that_was_given_stays_as_it_is(draw_model: Callable) -> None:
    model, _ = draw_model("bert", *both_heads(tied=True))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    made = with_rows(model, "vocab_size", [[row] for row in range(50)])
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert not made.training
    assert with_rows(model.train(), "vocab_size", [[0]]).training


def test_a_mean_of_one_row_is_that_row_bit_for_bit() -> None:
    table = torch.randn(7, 5, generator=torch.Generator().manual_seed(2))
    assert torch.equal(mean_rows(table, [[6], [0], [6]]), table[[6, 0, 6]])
    for source in (list(range(7)), range(7)):
        everything = mean_rows(table, [source] * 2)
        torch.testing.assert_close(everything, table.mean(0).expand(2, 5))


@pytest.mark.parametrize("counted", ["vocab_size", "max_positions"])
def test_a_generator_gets_the_rows_of_the_model_that_it_fills_masks_for(
    counted: Counted, draw_model: Callable
) -> None:
    model, _ = draw_model("bert", make_task("replaced_token"))
    small = generator_config(model.config, 0.5)
    add_generator(model, generator := TaskModel(small, [make_task("fill_mask")], seed=4))
    share_tables(generator, model, ["pieces"])
    made = with_rows(model, counted, [[2], [0, 1]])
    alone, other = parted(made)
    assert other is not None
    assert getattr(alone.config, counted) == getattr(other.config, counted) == 2
    assert other.encoder.embeddings.pieces is alone.encoder.embeddings.pieces
    found, expected = (one.encoder.blocks[0].mixer.output.weight for one in (other, generator))
    assert torch.equal(found, expected)
    assert parted(model)[1] is generator
