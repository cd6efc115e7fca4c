"""export --to bertworks: a model of ours without its run, whole, in int8, or beside its base."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bertworks.core.artifact import Origin, read_object, saving
from bertworks.core.errors import UsageError
from bertworks.core.shipped import shown
from bertworks.interop.hugging_face import keep_difference
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.difference import Moves
from bertworks.model.weights import WEIGHTS, round_weights
from bertworks.serving.model_folder import networks_in, open_model, write_model
from bertworks.serving.parity import COMPARED, TOLERANCES, Parity, compare
from bertworks.serving.predictor import load
from bertworks.stages.onnx_export import origin_of, read_material, told_recipe
from bertworks.stages.settings import ExportSettings

LARGEST_SHARE = 0.75  # of the space of whole weights, beyond which a difference is no gain


def run_own(settings: ExportSettings) -> dict[str, Any]:
    """Write the model, in less space if so asked, open it again and compare both."""
    _refuse_nonsense(settings)
    opened = open_model(settings.model)
    before = load(settings.model, device="cpu", backend="torch")
    material = read_material(settings.onnx.data, before)
    recipe, precision = told_recipe(opened, settings), settings.onnx.precision
    base = settings.difference.base
    with saving(settings.out, kind="model", origin=_origin(settings)) as folder:
        notes = _notes(settings.model)
        written = opened.model, opened.tokenizer
        is_lean = precision == "int8" or base is not None
        write_model(folder, *written, recipe=recipe, extra=notes, is_lean=is_lean)
        told = _make_small(folder, settings)
        before.make_vectors_by(recipe or before.recipe)
        after = load(folder, device="cpu", backend="torch")
        parity = compare(
            before, after, material.texts, material.examples, labelled=material.labelled
        )
        parity.check(TOLERANCES[precision if base is None else _nearness(settings)])
        text = json.dumps(told | asdict(parity), indent=1, ensure_ascii=False)
        (folder / COMPARED).write_text(text, encoding="utf-8")
    size = sum(path.stat().st_size for path in settings.out.rglob("*") if path.is_file())
    head = {"model": str(settings.out), "to": settings.to, "megabytes": size / 1e6}
    return {**head, **told, **_told(parity)}


def _refuse_nonsense(settings: ExportSettings) -> None:
    if settings.onnx.operators != "fused":
        raise UsageError("a folder of ours takes no --operators; leave it out or use --to onnx")
    base, rank = settings.difference.base, settings.difference.rank
    if base is None and rank is not None:
        raise UsageError(f"--rank {rank} is about how far a model is from its --base; name that")
    if base is not None and settings.onnx.precision != "fp32":
        raise UsageError(
            "--base keeps what a model has of its own in half precision; leave --precision out"
        )


def _origin(settings: ExportSettings) -> Origin:
    origin, base = origin_of(settings), settings.difference.base
    return origin if base is None else replace(origin, inputs={**origin.inputs, "base": base})


def _make_small(folder: Path, settings: ExportSettings) -> dict[str, Any]:
    """Bring the weights of a folder into the form that is asked for, and tell of it."""
    base = settings.difference.base
    if base is None:
        is_small = settings.onnx.precision == "int8"
        error = max(map(round_weights, networks_in(folder))) if is_small else 0.0
        return {"precision": settings.onnx.precision, "largest_error_of_a_weight": error}
    whole = (folder / WEIGHTS).stat().st_size
    moves = keep_difference(folder, base, rank=settings.difference.rank)
    if moves.num_bytes > LARGEST_SHARE * whole:
        raise UsageError(
            f"what {settings.model} has of its own takes {moves.num_bytes / 1e6:,.1f} MB, and all "
            f"of it {whole / 1e6:,.1f}: {_why_so_large(moves, whole, settings.difference.rank)}"
        )
    return {"base": shown(base)}


def _why_so_large(moves: Moves, whole: int, rank: int | None) -> str:
    """Say what of a model takes the space, and what can be done about it."""
    if moves.of_others > LARGEST_SHARE * whole:
        others = f"{moves.of_others / 1e6:,.1f} MB are tensors that the base has not"
        return f"{others}, or in other shapes; leave --base out"
    if rank is not None:
        return f"{rank} directions of each matrix are too many; give a smaller --rank"
    return (
        "its matrices have moved in too many directions; give --rank 16 to keep the strongest of "
        "each, fine-tune with --lora 16, or leave --base out"
    )


def _nearness(settings: ExportSettings) -> str:
    return "difference" if settings.difference.rank is None else "strongest"


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
