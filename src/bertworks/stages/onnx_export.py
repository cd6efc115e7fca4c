"""export --to onnx: a model folder with an ONNX file in it, compared before it appears."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import DataError, UsageError
from bertworks.core.optional import import_optional
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.examples import Example
from bertworks.data.rows import read_examples
from bertworks.interop.descriptions import TaskNote
from bertworks.interop.onnx import FILE, REPORT, OnnxPlan, owner_of, write_onnx
from bertworks.interop.onnx_outputs import Head, head_of
from bertworks.interop.tensor_names import head_scales
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.serving.model_folder import OpenModel, open_model, write_model
from bertworks.serving.parity import TOLERANCES, Parity, compare
from bertworks.serving.predictor import Predictor, load
from bertworks.serving.quantizing import Int8Choice, calibration_batches, choose_int8
from bertworks.stages.setting_groups import VectorSettings
from bertworks.stages.settings import ExportSettings
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.task import Task, TaskModel, Writer

MOST_COMPARED = 2000  # examples
READ = ("text", "text_b", "question", "passage", "choices", "source")  # the texts of examples
MOST_TRIED = 64  # texts on which each layer is tried in eight bits
TOLD = (  # of a report what is printed
    "precision",
    "texts",
    "largest_difference",
    "mean_cosine",
    "label_agreement",
    "spearman",
    "spearman_of_cosines",
)
# What both sides are compared on: several scripts, nothing at all, a text that may be cut.
TEXTS = (
    "The river ran quietly past the old mill.",
    "Über den Dächern kreisten Möwen: 3,14 €!",
    "我们今天在北京学习中文。",
    "",
    "one two three four five six seven eight nine ten " * 8,
)


@dataclass(frozen=True)
class Material:
    """What both sides are compared on."""

    texts: Sequence[str]
    examples: Sequence[Any] = ()
    labelled: bool = False


def run_onnx(settings: ExportSettings) -> dict[str, Any]:
    """Write a model folder and its ONNX file, and compare the answers of torch and of the file."""
    for name in ("onnx", "onnxruntime"):
        import_optional(name, extra="onnx", purpose="export to ONNX")
    opened = open_model(settings.model)
    _refuse_writers(opened)
    before = load(settings.model, device="cpu", backend="torch")
    material = read_material(settings.onnx.data, before)
    recipe = told_recipe(opened, settings)
    choice = _choose(opened, material.texts) if settings.onnx.precision == "int8" else None
    plan = OnnxPlan(
        operators=settings.onnx.operators,
        int8=frozenset() if choice is None else choice.chosen,
        recipe=recipe,
        head=_head(opened.model),
    )
    with saving(settings.out, kind="model", origin=origin_of(settings)) as folder:
        written = opened.model, opened.tokenizer
        write_model(folder, *written, recipe=recipe, extra=opened.notes)
        write_onnx(folder / FILE, opened.model.encoder, plan, owner=owner_of(folder))
        before.make_vectors_by(recipe or before.recipe)
        after = load(folder, device="cpu", backend="onnx")
        parity = compare(
            before, after, material.texts, material.examples, labelled=material.labelled
        )
        parity.check(TOLERANCES[settings.onnx.precision])
        report = _report(settings, parity, choice)
        text = json.dumps(report, indent=1, ensure_ascii=False)
        (folder / REPORT).write_text(text, encoding="utf-8")
    return {"model": str(settings.out), "to": settings.to, **_told(report)}


def _refuse_writers(opened: OpenModel) -> None:
    """Fail where answers are written piece by piece, which one pass through a graph cannot."""
    for name, task in opened.model.tasks.items():
        if isinstance(task, Writer):
            raise UsageError(
                f"the task {name} writes its answers piece by piece, for which there is no ONNX "
                "export; use the model as it is, or --to hugging-face"
            )


def read_material(data: Path | None, predictor: Predictor) -> Material:
    """Read what is compared: examples of the model's task, or texts where it has none."""
    if data is None:
        return Material(TEXTS)
    if not predictor.model.tasks or KINDS[predictor.task.kind].learn is None:
        rows = read_examples(data, Quarantine(), form="texts", labelled=False)[:MOST_COMPARED]
        return Material(_texts(rows))
    form = KINDS[predictor.task.kind].form
    try:
        rows, labelled = read_examples(data, Quarantine(), form=form), True
    except DataError as error:
        rows, labelled = read_examples(data, Quarantine(), form=form, labelled=False), False
        say(f"{data} is read without labels ({error}), so scores are not compared")
    texts = _texts(rows[:MOST_COMPARED])
    if predictor.task.kind == "embed" and any(row.text_b is None for row in rows):
        return Material(texts)  # single texts have a vector, but no answer
    return Material(texts, rows[:MOST_COMPARED], labelled)


def _texts(examples: Sequence[Example]) -> list[str]:
    """Return all texts that examples give to a model, whatever their form."""
    values = (vars(example).get(name) for example in examples for name in READ)
    several = (value if isinstance(value, tuple) else (value,) for value in values)
    return [text for own in several for text in own if text is not None]


def _choose(opened: OpenModel, texts: Sequence[str]) -> Int8Choice:
    """Try the layers in eight bits, on texts from all over the file."""
    some = texts[:: -(-len(texts) // MOST_TRIED)]
    longest = opened.model.config.max_positions
    batches = calibration_batches(some, opened.tokenizer, longest=longest)
    choice = choose_int8(opened.model.encoder.eval(), batches)
    if choice.kept:
        say(f"{len(choice.kept)} of {len(choice.damage)} layers stay in fp32, by measurement")
    return choice


def _head(model: TaskModel) -> Head | None:
    """Return the head of a model's only task, where others have a name for it."""
    if len(model.tasks) != 1:
        return None
    ((name, task),) = model.tasks.items()
    head = head_of(model.heads[name], model.config, of_spans=task.kind == "answer")
    return None if head is None else replace(head, layer=_whole(head.layer, name, task))


def _whole(layer: nn.Linear, name: str, task: Task) -> nn.Linear:
    """Return a layer that gives what the class of another library gives for the same task."""
    scales = head_scales({name: TaskNote(task.labels, task.options, task.kind)})
    whole = deepcopy(layer)
    with torch.no_grad():
        for ending, parameter in whole.named_parameters():
            factor, shift = scales.get(f"heads.{name}.output.{ending}", (1.0, 0.0))
            parameter.mul_(factor).add_(shift)
    return whole


def _report(settings: ExportSettings, parity: Parity, choice: Int8Choice | None) -> dict[str, Any]:
    chosen = settings.onnx
    layers = (
        {}
        if choice is None
        else {
            "damage_of_layers": choice.damage,
            "damage_together": choice.together,
            "kept_in_fp32": choice.kept,
        }
    )
    tolerance = asdict(TOLERANCES[chosen.precision])
    del tolerance["remedy"]
    how = {"precision": chosen.precision, "operators": chosen.operators, "tolerance": tolerance}
    return {**how, **asdict(parity), **layers}


def _told(report: dict[str, Any]) -> dict[str, Any]:
    """Return of a report what is printed."""
    kept = {name: report[name] for name in TOLD if report[name] is not None}
    for side in ("before", "after"):
        if "spearman" in (report[f"scores_{side}"] or {}):
            kept[f"spearman_with_gold_{side}"] = report[f"scores_{side}"]["spearman"]
    if report["precision"] == "int8":
        kept["layers_kept_in_fp32"] = len(report["kept_in_fp32"])
    return kept


def origin_of(settings: ExportSettings) -> Origin:
    """Return from what an export is made."""
    data = {} if settings.onnx.data is None else {"data": settings.onnx.data}
    return Origin(
        command=as_command("export", settings),
        settings=as_json(settings),
        inputs={"model": settings.model, **data},
    )


def told_recipe(opened: OpenModel, settings: ExportSettings) -> EmbeddingRecipe | None:
    """Return how vectors are made, where the model or a setting says so."""
    is_told = opened.recipe is not None or settings.vectors != VectorSettings() or settings.prompt
    return chosen_recipe(opened, settings) if is_told else None


def chosen_recipe(opened: OpenModel, settings: ExportSettings) -> EmbeddingRecipe:
    """Return how the model makes vectors, with what the settings change."""
    chosen = settings.vectors
    longest = opened.model.config.max_positions
    if chosen.max_length is not None and chosen.max_length > longest:
        raise UsageError(
            f"--max-length is {chosen.max_length}, but the network reads {longest} pieces; "
            "choose fewer"
        )
    own = opened.recipe or EmbeddingRecipe(max_length=longest)
    return own.changed(
        pooling=chosen.pooling,
        normalize=chosen.normalize,
        max_length=chosen.max_length,
        prompts=own.prompts | _prompts(settings.prompt),
    )


def _prompts(pairs: tuple[str, ...]) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    for name, equals, text in split:
        if not name or not equals:
            raise UsageError(f"--prompt takes NAME=TEXT; got {name + equals + text!r}")
    return {name: text for name, _, text in split}
