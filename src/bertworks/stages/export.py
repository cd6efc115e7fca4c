"""export: a model -> the same model in the layout of another library."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertworks.core.artifact import refuse_existing, saving
from bertworks.core.device import prepare
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.progress import say
from bertworks.interop.descriptions import OWN
from bertworks.interop.families import DIALECTS
from bertworks.interop.hugging_face import encoder_obstacle, open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.model.weights import DIFFERENCE, INT8_WEIGHTS, find_weights
from bertworks.serving.model_folder import OpenModel, open_model, write_model
from bertworks.serving.predictor import Predictor
from bertworks.stages.idle_flags import refuse_any
from bertworks.stages.onnx_export import TEXTS, chosen_recipe, origin_of, run_onnx
from bertworks.stages.own_export import run_own
from bertworks.stages.setting_groups import OnnxSettings
from bertworks.stages.settings import ExportSettings
from bertworks.tasks.catalog import make_task
from bertworks.tasks.electra import parted
from bertworks.tasks.task import TaskModel

LARGEST_DIFFERENCE = 1e-5
# Tasks whose heads nobody asks but pre-training.
OF_PRETRAINING = {"next_sentence", "sentence_order", "replaced_token"}


def run(settings: ExportSettings) -> dict[str, Any]:
    """Write the model, open what was written, and compare the vectors of both."""
    refuse_existing(settings.out)
    if settings.to == "bertworks":
        return run_own(settings)
    refuse_any(settings.difference, "is for --to bertworks; leave it out")
    if settings.to == "onnx":
        return run_onnx(settings)
    _refuse_onnx_settings(settings.onnx)
    is_for_vectors = settings.to == "sentence-transformers"
    if not is_for_vectors:
        _refuse_vector_settings(settings)
    opened = open_model(settings.model, tasks=[] if is_for_vectors else None)
    opened = replace(opened, model=_at_one_temperature(_for_others(opened.model)))
    recipe = chosen_recipe(opened, settings) if is_for_vectors else None
    with saving(settings.out, kind="model", origin=origin_of(settings)) as folder:
        write_model(folder, opened.model, opened.tokenizer, recipe=recipe)
        (folder / "bertworks.json").unlink()  # the other library's files say it all
        _refuse_unknown_elsewhere(opened, folder, settings.model)
        difference = _compare(opened, recipe, folder)
    return {"model": str(settings.out), "to": settings.to, "largest_difference": difference}


def _for_others(model: TaskModel) -> TaskModel:
    """Return a model as a folder of others can hold it, and say what of pre-training stays behind.

    That is a generator, which is a second network, and heads that only pre-training asks for where
    the family has no class with them. How vectors are made is no part of a plain folder either.
    """
    alone, _ = parted(model)
    alone = alone.without(*(name for name, task in alone.tasks.items() if task.kind == "embed"))
    alone = alone.without(*_unknown_objectives(alone))
    left = [name for name in model.tasks if name not in alone.tasks]
    if left:
        say(f"left behind: {', '.join(left)}; the folder holds the encoder that learned by it")
    return alone


def _unknown_objectives(model: TaskModel) -> set[str]:
    """Return which heads of pre-training keep a model from being of a class; as few as will do."""
    kinds = {name: task.kind for name, task in model.tasks.items()}
    family = DIALECTS.get(model.config.family)
    classes = {()} if family is None else {*family.classes}
    asked = {name for name, kind in kinds.items() if kind in OF_PRETRAINING}
    unknown = {name for name in asked if not any(kinds[name] in own for own in classes)}
    for left in (set[str](), unknown, asked):
        if tuple(kind for name, kind in kinds.items() if name not in left) in classes:
            return left
    return set()


def _at_one_temperature(model: TaskModel) -> TaskModel:
    """Divide the logits of heads by the temperatures of their tasks, for which others have no word.

    Nor have they one for a threshold of our own, which is said.
    """
    for name, task in model.tasks.items():
        usual = make_task(task.kind, task.labels).options
        if (bound := task.options.get("threshold")) != usual.get("threshold"):
            say(f"left behind: the threshold of {name}, {bound:.4g}; it is for you to apply")
        if (temperature := task.options.get("temperature", 1.0)) == 1.0:
            continue
        with torch.no_grad():
            for parameter in model.heads[name].get_submodule("output").parameters():
                parameter.div_(temperature)
        options = {**task.options, "temperature": 1.0}
        if "prior" in options:  # which is added to them
            options["prior"] = [log_odds / temperature for log_odds in options["prior"]]
        model.tasks[name] = make_task(task.kind, task.labels, name=name, **options)
    return model


def _refuse_vector_settings(settings: ExportSettings) -> None:
    for name, value in {**vars(settings.vectors), "prompt": settings.prompt}.items():
        if value not in (None, ()):
            raise UsageError(
                f"--{name.replace('_', '-')} says how texts become vectors, which a Hugging Face "
                "folder does not hold; leave it out or use --to sentence-transformers"
            )


def _refuse_onnx_settings(chosen: OnnxSettings) -> None:
    for field in fields(chosen):
        if getattr(chosen, field.name) != field.default:
            others = "onnx" if field.name == "operators" else "onnx or --to bertworks"
            raise UsageError(
                f"a folder of another library takes no --{field.name}; leave it out or use "
                f"--to {others}"
            )


def _compare(opened: OpenModel, recipe: EmbeddingRecipe | None, folder: Path) -> float:
    """Return how far the vectors of what was written are from those of the model."""
    again = open_model(folder)
    machine = prepare("cpu", precision="fp32")
    before = Predictor(OpenModel(opened.model, opened.tokenizer, None, recipe), machine)
    after = Predictor(again, machine)
    length = before.recipe.max_length
    first, second = (side.embed(TEXTS, max_length=length) for side in (before, after))
    difference = float(np.abs(first - second).max())
    if not difference <= LARGEST_DIFFERENCE or after.recipe.max_length != length:
        raise ArtifactError(
            f"what was written gives vectors that differ by {difference:.1e} from the model's, so "
            "it was thrown away; this is a fault of bertworks: report it with the config.json"
        )
    return difference


def _refuse_unknown_elsewhere(opened: OpenModel, folder: Path, model: Path) -> None:
    """Stop where other libraries have no words for the network, or no class for its tasks."""
    config, written = opened.model.config, open_folder(folder)
    if written.model_type == OWN:
        why = encoder_obstacle(config, pad_id=opened.tokenizer.specials.pad)
        remedy = "; use --to onnx" if config.mixer == "attention" else ""
        raise ArtifactError(f"no other library knows this network: {why}{remedy}")
    if written.has_own_heads and list(opened.model.heads.parameters()):
        raise ArtifactError(
            f"no class of the family {config.family} has the tasks {', '.join(opened.model.tasks)}"
            f"{_way_to_the_encoder(model)}"
        )


def _way_to_the_encoder(model: Path) -> str:
    """Say how transformers opens the encoder of a model with task heads that it does not know."""
    file, *_ = find_weights(encoder_folder(model))
    if file.name in (INT8_WEIGHTS, DIFFERENCE):
        return (
            f", and transformers finds no weights in {file.name}; its AutoModel opens the "
            "encoder of what export --to bertworks writes"
        )
    return "; transformers' AutoModel opens the encoder of the model as it is"
