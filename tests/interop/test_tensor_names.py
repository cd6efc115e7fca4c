"""Tensors under two names: renamed, joined and cut in both directions, and none made up."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError
from bertworks.interop.descriptions import TaskNote
from bertworks.interop.families import DIALECTS
from bertworks.interop.tensor_names import RenamedTensors, to_hugging_face
from bertworks.model.config import EncoderConfig, Sharing

CLASSES = [(family, tasks) for family, dialect in DIALECTS.items() for tasks in dialect.classes]
Notes = Mapping[str, TaskNote]
Drawn = tuple[EncoderConfig, dict[str, Tensor], dict[str, Tensor]]


def theirs_of(ours: dict[str, Tensor], config: EncoderConfig, tasks: Notes) -> dict[str, Tensor]:
    return to_hugging_face(ours, config, tasks=tasks, pad_id=3)


def ours_of(theirs: dict[str, Tensor], config: EncoderConfig, tasks: Notes) -> RenamedTensors:
    return RenamedTensors(theirs, config, tasks=tasks, pad_id=3)


@pytest.fixture
def draw(small, draw_weights) -> Callable[..., Drawn]:
    """Draw a small network of a family, with its weights under both names."""

    def drawn(family: str = "bert", tasks: Notes | None = None, **changes) -> Drawn:
        config = small(family, **changes)
        ours = draw_weights(config, tasks or {})
        return config, ours, theirs_of(ours, config, tasks or {})

    return drawn


@pytest.mark.parametrize(("family", "tasks"), CLASSES)
@pytest.mark.parametrize("tied", [True, False])
def test_weights_survive_the_way_there_and_back(
    family: str,
    tasks: tuple[str, ...],
    tied: bool,
    draw,
    notes,
    read_back,
    assert_equal_tensors,
) -> None:
    told = notes(*tasks)
    if "fill_mask" in told:
        told |= notes("fill_mask", tied=tied)
    config, ours, theirs = draw(family, told)
    assert not [name for name in theirs if name in ours]
    if DIALECTS[family].classes[tasks] not in DIALECTS[family].with_pooler:
        ours = read_back(ours, family)
    assert_equal_tensors(ours_of(theirs, config, told), ours)


def test_layers_beyond_the_tenth_keep_their_number(draw, assert_equal_tensors) -> None:
    config, ours, theirs = draw(num_layers=13)
    for i in range(13):
        assert torch.equal(
            theirs[f"bert.encoder.layer.{i}.attention.output.dense.weight"],
            ours[f"encoder.blocks.{i}.mixer.output.weight"],
        )
    assert_equal_tensors(ours_of(theirs, config, {}), ours)


def test_groups_of_shared_layers_keep_their_places(draw) -> None:
    _, ours, theirs = draw("albert")
    for i in range(4):
        name = f"albert.encoder.albert_layer_groups.{i // 2}.albert_layers.{i % 2}.ffn.weight"
        assert torch.equal(theirs[name], ours[f"encoder.blocks.{i}.feed_forward.expand.weight"])


@pytest.mark.parametrize(("family", "skipped"), [("roberta", 4), ("mpnet", 2), ("bert", 0)])
def test_rows_of_places_that_are_never_used_come_and_go(family: str, skipped: int, draw) -> None:
    _, ours, theirs = draw(family)
    table = theirs[f"{DIALECTS[family].prefix}embeddings.position_embeddings.weight"]
    assert table.shape == (53 + skipped, 24)
    assert torch.equal(table[skipped:], ours["encoder.embeddings.positions.weight"])


def test_query_key_and_value_are_joined_in_this_order(draw) -> None:
    _, ours, theirs = draw()
    parts = [
        theirs[f"bert.encoder.layer.1.attention.self.{part}.weight"]
        for part in ("query", "key", "value")
    ]
    assert torch.equal(torch.cat(parts), ours["encoder.blocks.1.mixer.qkv.weight"])


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "electra", "mpnet"])
def test_old_names_of_norms_are_understood(family: str, draw, notes, assert_equal_tensors) -> None:
    told = notes("classify")
    config, ours, theirs = draw(family, told)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in theirs.items()
    }
    assert f"{family}.embeddings.LayerNorm.gamma" in old
    assert_equal_tensors(ours_of(old, config, told), ours)


@pytest.mark.parametrize("family", DIALECTS)
def test_names_without_the_prefix_of_the_encoder_are_understood(
    family: str, draw, assert_equal_tensors
) -> None:
    config, _, theirs = draw(family)
    prefix = DIALECTS[family].prefix
    bare = {name.removeprefix(prefix): tensor for name, tensor in theirs.items()}
    assert not bare.keys() & theirs.keys()
    assert_equal_tensors(ours_of(bare, config, {}), dict(ours_of(theirs, config, {})))


@pytest.mark.parametrize("family", DIALECTS)
def test_tied_copies_and_buffers_are_no_weights(
    family: str, draw, notes, read_back, assert_equal_tensors
) -> None:
    told, dialect = notes("fill_mask"), DIALECTS[family]
    config, ours, theirs = draw(family, told)
    pieces = "tok_embeddings" if family == "modernbert" else "word_embeddings"
    theirs[f"{dialect.prefix}embeddings.position_ids"] = torch.arange(53)
    theirs[f"{dialect.decoder}.weight"] = theirs[f"{dialect.prefix}embeddings.{pieces}.weight"]
    theirs[f"{dialect.decoder}.bias"] = ours["heads.fill_mask.bias"]
    assert_equal_tensors(ours_of(theirs, config, told), read_back(ours, family))


@pytest.mark.parametrize("family", DIALECTS)
def test_a_decoder_that_differs_though_it_should_be_tied_is_refused(
    family: str, draw, notes
) -> None:
    told = notes("fill_mask")
    config, _, theirs = draw(family, told)
    decoder = f"{DIALECTS[family].decoder}.weight"
    theirs[decoder] = torch.zeros(97, config.piece_size)
    message = rf"{decoder} differs from .*embeddings.weight.*set tie_word_embeddings to false"
    with pytest.raises(ArtifactError, match=message):
        ours_of(theirs, config, told)


@pytest.mark.parametrize("family", DIALECTS)
def test_an_untied_decoder_is_kept_with_its_bias_under_either_name(
    family: str, draw, notes, read_back, assert_equal_tensors
) -> None:
    told, dialect = notes("fill_mask", tied=False), DIALECTS[family]
    config, ours, theirs = draw(family, told)
    (tied,) = dialect.heads["fill_mask"]["heads.fill_mask.bias"]
    for name in {tied, f"{dialect.decoder}.bias"}:
        assert torch.equal(theirs[name], ours["heads.fill_mask.bias"])
    if tied != f"{dialect.decoder}.bias":
        del theirs[f"{dialect.decoder}.bias"]  # as in older files
    assert_equal_tensors(ours_of(theirs, config, told), read_back(ours, family))


def test_a_pooler_without_weights_starts_as_the_layer_that_filled_masks(draw, notes) -> None:
    told = notes("fill_mask")
    config, ours, theirs = draw("modernbert", told)
    assert not [name for name in theirs if "pooler" in name]
    found = ours_of(theirs, config, told)
    for pooler, head in (("dense", "transform"), ("norm", "norm")):
        lent = found[f"heads.fill_mask.{head}.weight"]
        borrowed = found[f"encoder.pooler.{pooler}.weight"]
        assert torch.equal(borrowed, ours[f"heads.fill_mask.{head}.weight"])
        assert borrowed.data_ptr() != lent.data_ptr()
    assert len(list(found)) == len(found) == len(set(found))


def test_a_classifier_keeps_its_own_pooler(draw, notes, assert_equal_tensors) -> None:
    told = notes("classify")
    config, ours, theirs = draw("modernbert", told)
    assert_equal_tensors(ours_of(theirs, config, told), ours)


@pytest.mark.parametrize("family", sorted(set(DIALECTS) - {"modernbert"}))
def test_other_families_borrow_nothing(family: str, draw, notes, without_pooler) -> None:
    told = notes("fill_mask")
    config, ours, theirs = draw(family, told)
    assert set(ours_of(theirs, config, told)) == set(without_pooler(ours))


def test_unknown_tensors_keep_their_names(draw) -> None:
    config, _, theirs = draw()
    theirs["qa_outputs.weight"] = torch.ones(3)
    assert torch.equal(ours_of(theirs, config, {})["qa_outputs.weight"], torch.ones(3))


@pytest.mark.parametrize("family", DIALECTS)
def test_layers_beyond_those_of_the_config_are_refused_by_name(family: str, draw, small) -> None:
    three_groups = {"sharing": Sharing(num_groups=3, group_size=2)} if family == "albert" else {}
    _, _, theirs = draw(family, num_layers=5, **three_groups)
    with pytest.raises(ArtifactError, match=r"without a place for .*\(\d+ such tensors\)"):
        ours_of(theirs, small(family), {})


def test_a_lost_part_of_a_joined_tensor_is_not_made_up(draw) -> None:
    config, _, theirs = draw()
    del theirs["bert.encoder.layer.0.attention.self.key.weight"]
    found = ours_of(theirs, config, {})
    assert "encoder.blocks.0.mixer.qkv.weight" not in found
    assert "bert.encoder.layer.0.attention.self.query.weight" in found


def test_half_precision_becomes_single(draw) -> None:
    config, _, theirs = draw()
    halves = {name: tensor.half() for name, tensor in theirs.items()}
    assert {tensor.dtype for tensor in ours_of(halves, config, {}).values()} == {torch.float32}


def test_tensors_are_read_one_at_a_time_and_only_when_asked_for(draw) -> None:
    asked: list[str] = []

    class Watched(dict[str, Tensor]):
        def __getitem__(self, name: str) -> Tensor:
            asked.append(name)
            return super().__getitem__(name)

    config, _, theirs = draw()
    found = ours_of(Watched(theirs), config, {})
    assert asked == []
    assert len(list(found)) == len(found)
    assert asked == []
    found["encoder.blocks.1.mixer.qkv.bias"]
    stem = "bert.encoder.layer.1.attention.self"
    assert asked == [f"{stem}.query.bias", f"{stem}.key.bias", f"{stem}.value.bias"]


def test_one_tensor_under_two_names_is_refused(small, notes) -> None:
    row = torch.zeros(97, 24)
    both = dict.fromkeys(("bert.embeddings.word_embeddings.weight",), row)
    both |= {"embeddings.word_embeddings.weight": row + 1}
    with pytest.raises(ArtifactError, match="the same tensor by two names"):
        RenamedTensors(both, small("bert"), tasks=notes(), pad_id=0)


@pytest.mark.parametrize("shapes", [(8, 40, 24), (24, 24, 23)])
def test_query_key_and_value_of_unequal_shapes_are_refused(small, notes, shapes) -> None:
    names = [f"bert.encoder.layer.0.attention.self.{n}.weight" for n in ("query", "key", "value")]
    parts = {name: torch.zeros(rows, 24) for name, rows in zip(names, shapes, strict=True)}
    tensors = RenamedTensors(parts, small("bert"), tasks=notes(), pad_id=0)
    with pytest.raises(ArtifactError, match=r"self\.query\.weight \[.* should be of one shape"):
        tensors["encoder.blocks.0.mixer.qkv.weight"]


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "mpnet"])
def test_a_tied_head_with_two_biases_is_refused(family: str, small, notes) -> None:
    dialect = DIALECTS[family]
    (tied,) = dialect.heads["fill_mask"]["heads.fill_mask.bias"]
    biases = {tied: torch.zeros(97), f"{dialect.decoder}.bias": torch.ones(97)}
    with pytest.raises(ArtifactError, match=r"config\.json ties them"):
        RenamedTensors(biases, small(family), tasks=notes("fill_mask"), pad_id=1)
