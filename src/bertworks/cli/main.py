"""The `bertworks` command: flags and recipe become settings, a stage runs, its result shows."""

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Annotated, Any, NoReturn

import cyclopts
from cyclopts import App, CycloptsError, Parameter

import bertworks
from bertworks.cli.commands import COMMANDS, Command
from bertworks.cli.recipes import check_recipe, find_recipe
from bertworks.core.errors import BertworksError
from bertworks.core.progress import say


def main(words: list[str] | None = None) -> NoReturn:
    """Run one command; exit with 0, 1 (failed) or 2 (bad use)."""
    given = sys.argv[1:] if words is None else words
    try:
        app = build_app()
        app.config = _recipe_source(given)
        app(given, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(str(error).strip().replace("\n", " "), code=2)
    except BertworksError as error:
        _fail(str(error), code=error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    sys.exit(0)


def build_app() -> App:
    """Return the command line with every command of the table."""
    app = App(
        name="bertworks",
        help="The whole life of a BERT-family text encoder.",
        version=bertworks.__version__,
        result_action="return_value",
    )
    for name, command in COMMANDS.items():
        app.command(_entry(command), name=name, help=command.settings.__doc__)
    return app


def _entry(command: Command) -> Callable[..., None]:
    """Return a function whose parameters are the command's flags."""

    def run(
        settings: Any = None,
        *,
        recipe: Annotated[
            str | None, Parameter(help="Recipe (name or .toml file); flags win over it.")
        ] = None,
        json: Annotated[bool, Parameter(help="Print the result as JSON.", negative="")] = False,
    ) -> None:
        result = command.run(command.settings() if settings is None else settings)
        _print_result(result, as_json=json)

    # cyclopts reads the flags from the type; it wants a default where no setting is required.
    needs_flags = any(field.default is MISSING for field in fields(command.settings))
    signature = inspect.signature(run)
    first, *others = signature.parameters.values()
    first = first.replace(default=inspect.Parameter.empty if needs_flags else None)
    run.__signature__ = signature.replace(parameters=[first, *others])  # type: ignore[attr-defined]
    run.__annotations__["settings"] = Annotated[command.settings, Parameter(name="*")]
    return run


def _recipe_source(words: list[str]) -> tuple[Any, ...]:
    """Return where settings come from that no flag gives: the table of the recipe named."""
    if not words or words[0] not in COMMANDS:
        return ()
    named = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--recipe"]
    named += [word.partition("=")[2] for word in words if word.startswith("--recipe=")]
    if not named:
        return ()
    path = find_recipe(named[-1])
    check_recipe(path, words[0], commands=set(COMMANDS))
    return (cyclopts.config.Toml(path, root_keys=[words[0]], use_commands_as_keys=False),)


def _print_result(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
        return
    for key, value in result.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        sys.stdout.write(f"{key.replace('_', ' ')}: {shown}\n")


def _fail(message: str, *, code: int) -> NoReturn:
    say(f"bertworks: {message}")
    sys.exit(code)
