"""export --to bertworks: a model of ours without its run, its weights as they are or in int8."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertworks.core.artifact import read_object, saving
from bertworks.core.errors import UsageError
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.weights import round_weights
from bertworks.serving.model_folder import networks_in, open_model, write_model
from bertworks.serving.parity import COMPARED, TOLERANCES, Parity, compare
from bertworks.serving.predictor import load
from bertworks.stages.onnx_export import origin_of, read_material, told_recipe
from bertworks.stages.settings import ExportSettings


def run_own(settings: ExportSettings) -> dict[str, Any]:
    """Write the model, round its matrices if so asked, open it again and compare both."""
    if settings.onnx.operators != "fused":
        raise UsageError("a folder of ours takes no --operators; leave it out or use --to onnx")
    opened = open_model(settings.model)
    before = load(settings.model, device="cpu", backend="torch")
    material = read_material(settings.onnx.data, before)
    recipe, precision = told_recipe(opened, settings), settings.onnx.precision
    with saving(settings.out, kind="model", origin=origin_of(settings)) as folder:
        notes = _notes(settings.model)
        is_small = precision == "int8"
        written = opened.model, opened.tokenizer
        write_model(folder, *written, recipe=recipe, extra=notes, is_lean=is_small)
        error = max(map(round_weights, networks_in(folder))) if is_small else 0.0
        before.make_vectors_by(recipe or before.recipe)
        after = load(folder, device="cpu", backend="torch")
        parity = compare(
            before, after, material.texts, material.examples, labelled=material.labelled
        )
        parity.check(TOLERANCES[precision])
        report = {"precision": precision, "largest_error_of_a_weight": error, **asdict(parity)}
        text = json.dumps(report, indent=1, ensure_ascii=False)
        (folder / COMPARED).write_text(text, encoding="utf-8")
    size = sum(path.stat().st_size for path in settings.out.rglob("*") if path.is_file())
    head = {"model": str(settings.out), "to": settings.to, "precision": precision}
    return {**head, "megabytes": size / 1e6, "largest_error_of_a_weight": error, **_told(parity)}


def _notes(model: Path) -> dict[str, Any]:
    """Return what a folder of ours notes beside its tasks, such as its longest window."""
    file = encoder_folder(model) / "bertworks.json"
    found = read_object(file) if file.is_file() else {}
    return {name: value for name, value in found.items() if name != "tasks"}


def _told(parity: Parity) -> dict[str, Any]:
    """Return of what was compared that which is printed."""
    numbers = asdict(parity)
    names = ("texts", "largest_difference", "mean_cosine", "lowest_cosine", "mask_distance")
    all_names = (*names, "label_agreement", "spearman")
    told = {name: numbers[name] for name in all_names if numbers[name] is not None}
    for side in ("before", "after"):
        scores = numbers[f"scores_{side}"] or {}
        told |= {f"{name}_{side}": value for name, value in scores.items()}
    return told
