"""The seeds of finetune: each is a fine-tuning of its own, and the best on dev is the result.

OUT/seed-…/     what each has made
OUT/            the model of the best, with the scores of all
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

from bertworks.core.artifact import MANIFEST, Origin, read_object, refuse_existing, saving
from bertworks.core.errors import TrainingError
from bertworks.core.progress import say
from bertworks.evaluation.answer_parts import Scores
from bertworks.evaluation.floors import ALIKE_WORDS, FLOOR_WORDS, ONE_TEXT, SeedScores
from bertworks.evaluation.full_report import Report, again, fingerprint
from bertworks.evaluation.run_parts import Seeds
from bertworks.evaluation.statistics import Interval, range_rows
from bertworks.serving.model_folder import open_model, write_model
from bertworks.stages.settings import FinetuneSettings
from bertworks.training.run import is_finished

RunOne = Callable[[FinetuneSettings], dict[str, Any]]


def run_seeds(settings: FinetuneSettings, run: RunOne, *, origin: Origin) -> dict[str, Any]:
    """Fine-tune with several seeds, each in a folder of its own; the best on dev is the result."""
    out = settings.out
    if settings.resume == "auto" and is_finished(out, origin):
        say(f"{out} is finished already")
        return {"model": str(out)}
    if settings.resume == "never" or not _is_begun(out):
        refuse_existing(out)
    seeds = range(settings.seed, settings.seed + settings.choice.seeds)
    told = {seed: _run_seed(settings, run, seed) for seed in seeds}
    found: dict[int, dict[str, float]] = {seed: one.get("dev", {}) for seed, one in told.items()}
    floor = next((one["dev_floor"] for one in told.values() if one), None)
    known = (name for one in found.values() for name in one)
    chosen = settings.choice.choose_by or next(known, "score")
    alike = [seed for seed, one in told.items() if one.get(ONE_TEXT)]
    known_scores = {seed: one.get(chosen, nan) for seed, one in found.items()}
    scores = SeedScores(known_scores, floor, alike)
    _refuse_collapse(scores, chosen, out)
    best, collapsed = scores.best, scores.collapsed
    opened = open_model(out / f"seed-{best}")
    extra = {name: told[best][name] for name in ("dev", "dev_intervals", "dev_floor")}
    extra |= {**opened.notes, "best_seed": best, "collapsed": collapsed}
    if fallen := {
        seed: one["collapsed_tasks"] for seed, one in told.items() if "dev_floors" in one
    }:
        extra["collapsed_tasks"] = fallen
    with saving(out, kind="model", origin=origin) as folder:
        write_model(folder, opened.model, opened.tokenizer, extra=extra | {"seeds": found})
        _seeds_report(origin, chosen, scores, told[best]).write(folder)
    return {
        "model": str(out),
        "best_seed": best,
        **{f"dev_{name}": value for name, value in found[best].items()},
        f"dev_{chosen}_mean": None if isnan(scores.mean) else scores.mean,
        f"dev_{chosen}_deviation": None if isnan(scores.mean) else scores.deviation,
        "collapsed": collapsed,
        **({"collapsed_tasks": fallen} if fallen else {}),
        "intervals": range_rows(told[best]["dev_intervals"]),
    }


def _run_seed(settings: FinetuneSettings, run: RunOne, seed: int) -> dict[str, Any]:
    """Fine-tune with one seed; return what is told of its model, of one that came apart nothing."""
    folder, once = settings.out / f"seed-{seed}", replace(settings.choice, seeds=1)
    say(f"seed {seed}")
    try:
        run(replace(settings, out=folder, seed=seed, choice=once))
    except TrainingError as error:
        say(f"warning: seed {seed} has collapsed: {error}")
        return {}
    return read_object(folder / "bertworks.json")


def _seeds_report(
    origin: Origin, chosen: str, scores: SeedScores, told: Mapping[str, Any]
) -> Report:
    best, metrics = scores.best, told["dev"]
    ranges = {name: Interval(metrics[name], *own) for name, own in told["dev_intervals"].items()}
    return Report(
        title=f"Fine-tuning with {len(scores.scores)} seeds",
        summary=f"The best seed is {best}; seed-{best}/report.html tells all of it.",
        parts=[
            Scores.of_metrics(metrics, ranges, of=f"of seed {best} on dev"),
            Seeds.of(chosen, scores),
            fingerprint(origin),
            again(origin),
        ],
    )


def _refuse_collapse(scores: SeedScores, chosen: str, out: Path) -> None:
    """Fail where no seed has learned anything, so that nobody reads a mean of nothing."""
    if len(scores.collapsed) < len(scores.scores):
        return
    floor = "" if scores.floor is None else f"{FLOOR_WORDS} {scores.floor:.4f}, and "
    floor = f"{ALIKE_WORDS}, and " if scores.alike else floor
    shown = ", ".join(f"{score:.4f}" for score in scores.scores.values())
    raise TrainingError(
        f"all {len(scores.scores)} seeds have collapsed: {floor}dev {chosen} is {shown}; look "
        "at the data with bertworks check, lower --lr or raise --epochs, and choose another --out "
        f"than {out}"
    )


def _is_begun(out: Path) -> bool:
    """Tell whether a folder holds seeds alone, perhaps with a model that was half moved there."""
    files = {path.name for path in out.glob("*") if not path.name.startswith("seed-")}
    return MANIFEST not in files and files <= {path.name for path in out.glob("seed-*/*")}
