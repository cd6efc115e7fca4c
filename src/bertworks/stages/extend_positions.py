"""extend-positions: a model -> the same model for longer texts."""

from typing import Any

from bertworks.core.artifact import Origin, refuse_existing
from bertworks.core.errors import UsageError
from bertworks.core.settings import as_command, as_json
from bertworks.core.shipped import shown
from bertworks.model.config import Local
from bertworks.serving.model_folder import open_model, save_model
from bertworks.stages.settings import ExtendPositionsSettings
from bertworks.tasks.resize import with_rows

MOST_POSITIONS = 2**20


def run(settings: ExtendPositionsSettings) -> dict[str, Any]:
    """Repeat the learned positions until there are enough; rotary ones need only the limit."""
    refuse_existing(settings.out)
    opened = open_model(settings.model)
    config, before = opened.model.config, opened.model.config.max_positions
    if settings.to < before or (settings.to == before and settings.window is None):
        raise UsageError(
            f"{shown(settings.model)} reads {before} positions already; give --to a number above "
            f"{before}"
        )
    if settings.to > MOST_POSITIONS:
        raise UsageError(f"--to is {settings.to}; the most is {MOST_POSITIONS}")
    if settings.window is not None and config.mixer != "attention":
        raise UsageError(f"{settings.model} has no attention to narrow; leave --window out")
    changes: dict[str, Any] = {}
    if settings.window is not None:
        full_every = None if config.local is None else config.local.full_every
        changes["local"] = Local(window=settings.window, full_every=full_every)
    places = [[place % before] for place in range(settings.to)]
    model = with_rows(opened.model, "max_positions", places, **changes)
    origin = Origin(
        command=as_command("extend-positions", settings),
        settings=as_json(settings),
        inputs={"model": settings.model},
    )
    recipe, notes = opened.recipe, opened.notes
    if recipe is not None and recipe.max_length == before:  # not a shorter one of its own choice
        recipe = recipe.changed(max_length=settings.to)
    if opened.longest == before:
        notes = {}
    save_model(settings.out, model, opened.tokenizer, origin=origin, recipe=recipe, extra=notes)
    return {"model": str(settings.out), "positions_before": before, "positions": settings.to}
