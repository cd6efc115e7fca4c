"""What pre-training trains: the networks that its objectives need, opened and saved as folders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.core.artifact import Origin, saving
from bertworks.core.device import prepare
from bertworks.core.errors import ArtifactError
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.model.weights import WEIGHTS, read_tensors
from bertworks.serving.learners import (
    AnyLearner,
    Wanted,
    draw_learner,
    main_model,
    open_learner,
    write_learner,
)
from bertworks.serving.model_folder import open_model, save_model, tasks_of, write_model
from bertworks.serving.predictor import Predictor
from bertworks.tasks.catalog import make_task
from bertworks.tasks.electra import Electra
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.next_piece import WithNextPiece
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece
from bertworks.tokenizer.tokenizer import Tokenizer

CPU = prepare("cpu", precision="fp32")


@pytest.fixture
def electra(tokenizer: Tokenizer) -> EncoderConfig:
    """Describe a small ELECTRA."""
    shape = {"hidden_size": 24, "num_layers": 2, "num_heads": 2, "feed_forward_size": 31}
    sizes = {"vocab_size": tokenizer.vocab_size, "max_positions": 29}
    return EncoderConfig(**STYLES["electra"], **shape, **sizes)


@pytest.fixture
def saved(tmp_path: Path, tokenizer: Tokenizer) -> Callable[..., Path]:
    """Save what was trained."""

    def save(learner: AnyLearner, name: str = "model") -> Path:
        with saving(tmp_path / name, kind="model", origin=Origin()) as folder:
            write_learner(folder, learner, tokenizer, extra={"held_out": {"loss": 1.0}})
        return tmp_path / name

    return save


def wanted(*objectives: str, **changed: Any) -> Wanted:
    return Wanted(objectives=objectives, **changed)


@pytest.mark.parametrize(
    ("objectives", "kind", "tasks"),
    [
        (("fill_mask", "next_sentence"), TaskModel, ["fill_mask", "next_sentence"]),
        (("fill_mask", "next_piece"), WithNextPiece, ["fill_mask"]),
        (("fill_mask", "replaced_token"), Electra, ["replaced_token"]),
        (
            ("fill_mask", "sentence_order", "replaced_token"),
            Electra,
            ["sentence_order", "replaced_token"],
        ),
    ],
)
def test_objectives_decide_what_is_trained_and_what_remains(
    config: EncoderConfig, objectives: tuple[str, ...], kind: type, tasks: list[str]
) -> None:
    learner = draw_learner(config, wanted(*objectives))
    assert type(learner) is kind
    assert set(learner.tasks) == set(objectives)
    assert list(main_model(learner).tasks) == tasks


def test_the_seed_draws_both_networks_and_neither_like_the_other(electra: EncoderConfig) -> None:
    def drawn(seed: int) -> Electra:
        made = draw_learner(electra, wanted("fill_mask", "replaced_token", seed=seed))
        assert isinstance(made, Electra)
        return made

    def first(model: TaskModel) -> torch.Tensor:
        return model.encoder.blocks[0].mixer.output.weight.detach()

    one, again, other = drawn(3), drawn(3), drawn(4)
    for part in ("generator", "discriminator"):
        assert torch.equal(first(getattr(one, part)), first(getattr(again, part)))
        assert not torch.equal(first(getattr(one, part)), first(getattr(other, part)))
    small, large = first(one.generator), first(one.discriminator)
    assert not torch.equal(small, large[: len(small), : len(small)])


def test_the_generator_is_as_wide_as_is_said(electra: EncoderConfig) -> None:
    for share, width in ((0.25, 6), (0.5, 12)):
        learner = draw_learner(electra, wanted("replaced_token", generator_size=share))
        assert isinstance(learner, Electra)
        assert learner.generator.config.hidden_size == width


def test_z_loss_reaches_every_task_that_names_pieces(config: EncoderConfig) -> None:
    plain = draw_learner(config, wanted("fill_mask", z_loss=0.1))
    both = draw_learner(config, wanted("fill_mask", "replaced_token", z_loss=0.1))
    for learner in (plain, both):
        task = learner.tasks["fill_mask"]
        assert isinstance(task, FillMask)
        assert task.z_loss == 0.1


@pytest.mark.parametrize("other", ["next_sentence", "next_piece", "replaced_token"])
def test_what_is_saved_is_opened_again_to_the_last_bit(
    other: str,
    electra: EncoderConfig,
    tokenizer: Tokenizer,
    saved: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = wanted("fill_mask", other, seed=5)
    learner = draw_learner(electra, asked)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    opened = open_learner(saved(learner), tokenizer, wanted("fill_mask", other, seed=6))
    assert type(opened) is type(learner)
    ours, theirs = dict(learner.named_parameters()), dict(opened.named_parameters())
    fresh = {name for name in ours if "pooler" in name and other != "next_sentence"}
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if not torch.equal(ours[name], theirs[name])} <= fresh
    assert "tensors matched" in capsys.readouterr().err


def test_a_table_that_the_generator_moves_is_saved_whole_and_opened_as_it_was(
    electra: EncoderConfig, tokenizer: Tokenizer, saved: Callable[..., Path]
) -> None:
    asked = wanted("fill_mask", "replaced_token", seed=5, has_difference=True)
    learner = draw_learner(electra, asked)
    difference = "discriminator.encoder.embeddings.pieces.parametrizations.weight.original"
    drawn = dict(learner.named_parameters())
    assert not drawn[difference].any()  # both begin with the same vectors
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    folder = saved(learner)
    opened = dict(open_learner(folder, tokenizer, asked).named_parameters())
    assert opened.keys() == drawn.keys()
    torch.testing.assert_close(opened[difference], drawn[difference])
    whole = open_model(folder).model.encoder.embeddings.pieces.weight
    assert isinstance(learner, Electra)
    assert torch.equal(whole, learner.discriminator.encoder.embeddings.pieces.weight)
    together = wanted("fill_mask", "replaced_token", seed=5)
    assert difference not in dict(open_learner(folder, tokenizer, together).named_parameters())


def test_a_folder_of_one_network_gets_a_fresh_generator(
    electra: EncoderConfig,
    tokenizer: Tokenizer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone = TaskModel(electra, [make_task("replaced_token")], seed=1)
    save_model(tmp_path / "alone", alone, tokenizer, origin=Origin())
    learner = open_learner(tmp_path / "alone", tokenizer, wanted("fill_mask", "replaced_token"))
    assert isinstance(learner, Electra)
    assert "has no folder generator, so the generator starts fresh" in capsys.readouterr().err
    tables = (alone, learner.generator, learner.discriminator)
    first, *others = (model.encoder.embeddings.pieces.weight for model in tables)
    assert all(torch.equal(first, other) for other in others)


def test_a_decoder_that_is_not_tied_stays_so(
    config: EncoderConfig, tokenizer: Tokenizer, saved: Callable[..., Path]
) -> None:
    untied = TaskModel(config, [make_task("fill_mask", tied=False)], seed=1)
    with torch.no_grad():
        untied.get_parameter("heads.fill_mask.decoder").normal_()
    opened = open_learner(saved(untied), tokenizer, wanted("fill_mask"))
    decoder = opened.get_parameter("heads.fill_mask.decoder")
    assert torch.equal(decoder, untied.get_parameter("heads.fill_mask.decoder"))


def test_the_generators_folder_answers_by_itself(
    electra: EncoderConfig, saved: Callable[..., Path]
) -> None:
    learner = draw_learner(electra, wanted("fill_mask", "replaced_token"))
    assert isinstance(learner, Electra)
    generator = open_model(saved(learner) / "generator").model
    assert list(generator.tasks) == ["fill_mask"]
    for name, parameter in learner.generator.named_parameters():
        if "pooler" not in name:
            assert torch.equal(generator.get_parameter(name), parameter)


@pytest.mark.parametrize("family", ["bert", "electra", "modernbert"])
@pytest.mark.parametrize("has_difference", [False, True])
def test_the_generator_fills_masks_for_the_model_it_learned_beside(
    family: str, has_difference: bool, tokenizer: Tokenizer, saved: Callable[..., Path]
) -> None:
    learner, texts = _moved(family, tokenizer, has_difference), ["zebras [MASK] tea", "a [MASK]."]
    folder = saved(learner)
    assert list(tasks_of(folder)) == ["replaced_token", "fill_mask"]
    both, alone = (Predictor(open_model(path), CPU) for path in (folder, folder / "generator"))
    assert list(both.model.tasks) == ["replaced_token", "fill_mask"]
    for text in texts:
        ours, theirs = both.fill_mask(text), alone.fill_mask(text)
        assert [one.token for one in ours] == [one.token for one in theirs]
        near = pytest.approx([one.probability for one in theirs], rel=1e-4)
        assert [one.probability for one in ours] == near
    tables = (one.model.encoder.embeddings.pieces for one in (both, alone))
    assert torch.equal(*(table.weight for table in tables)) is not has_difference


def test_a_model_that_only_fills_masks_reads_nothing_with_the_large_network(
    tokenizer: Tokenizer, saved: Callable[..., Path]
) -> None:
    opened = Predictor(open_model(saved(_moved("electra", tokenizer))), CPU)
    expected = opened.fill_mask("a [MASK]")
    with torch.no_grad():
        for name, parameter in opened.model.encoder.named_parameters():
            if not name.startswith("embeddings."):
                parameter.fill_(torch.nan)
    assert opened.fill_mask("a [MASK]") == expected


def test_a_model_is_fine_tuned_without_its_generator(
    tokenizer: Tokenizer, saved: Callable[..., Path]
) -> None:
    folder = saved(_moved("modernbert", tokenizer))
    opened = open_model(folder, tasks=[make_task("classify", ["a", "b"])])
    assert [name for name, _ in opened.model.named_parameters() if "generator" in name] == []


@pytest.mark.parametrize("family", ["bert", "electra", "modernbert"])
@pytest.mark.parametrize("has_difference", [False, True])
def test_a_lean_generator_has_only_what_the_model_has_not(
    family: str, has_difference: bool, tokenizer: Tokenizer, saved: Callable[..., Path]
) -> None:
    folder = saved(_moved(family, tokenizer, has_difference))
    opened = open_model(folder)
    lean = folder.parent / "lean"
    with saving(lean, kind="model", origin=Origin()) as written:
        write_model(written, opened.model, opened.tokenizer, is_lean=True)
    again = open_model(lean)
    assert {n: p.tolist() for n, p in again.model.named_parameters()} == {
        n: p.tolist() for n, p in opened.model.named_parameters()
    }
    assert sorted(path.name for path in (lean / "generator").iterdir()) == [
        "bertworks.json",
        "config.json",
        "model.safetensors",
    ]
    kept = [name for name in read_tensors(lean / "generator" / WEIGHTS) if "mbedding" in name]
    assert any("word" in n or "pieces" in n or "tok" in n for n in kept) is has_difference
    learner = open_learner(lean, tokenizer, wanted("fill_mask", "replaced_token"))
    assert isinstance(learner, Electra)
    assert learner.generator.encoder.embeddings.pieces is not None


def test_a_lean_generator_is_no_model_by_itself(
    tokenizer: Tokenizer, saved: Callable[..., Path], tmp_path: Path
) -> None:
    opened = open_model(saved(_moved("electra", tokenizer)))
    with saving(tmp_path / "lean", kind="model", origin=Origin()) as written:
        write_model(written, opened.model, opened.tokenizer, is_lean=True)
    with pytest.raises(ArtifactError, match="generator holds no tokenizer"):
        open_model(tmp_path / "lean" / "generator")


def _moved(family: str, tokenizer: Tokenizer, has_difference: bool = False) -> Electra:
    """Draw two networks whose weights are all their own."""
    shape = {"hidden_size": 24, "num_layers": 2, "num_heads": 2, "feed_forward_size": 32}
    sizes = {"vocab_size": tokenizer.vocab_size, "max_positions": 29}
    config = EncoderConfig(**{**STYLES[family], **shape, **sizes})
    asked = wanted("fill_mask", "replaced_token", seed=5, has_difference=has_difference)
    learner = draw_learner(config, asked)
    assert isinstance(learner, Electra)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    return learner


def test_ids_that_would_mean_other_pieces_are_refused(
    config: EncoderConfig, tokenizer: Tokenizer, saved: Callable[..., Path]
) -> None:
    folder = saved(draw_learner(config, wanted("fill_mask")))
    other = learn_wordpiece(lambda: ["zebras like tea"] * 3, size=307, cased=False)
    with pytest.raises(ArtifactError, match=r"have another vocabulary than .* differ in '.*--tok"):
        open_learner(folder, other, wanted("fill_mask"))
