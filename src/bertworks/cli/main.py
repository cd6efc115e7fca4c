"""The `bertworks` command: flags and recipe become settings, a stage runs, its result shows."""

import json
import os
import shutil
import sys
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, RawTextHelpFormatter
from contextlib import suppress
from dataclasses import MISSING
from io import TextIOWrapper
from typing import Any, NoReturn

from bertworks.cli.commands import COMMANDS
from bertworks.cli.recipes import read_recipe, table_name
from bertworks.cli.results import result_lines
from bertworks.core import __version__
from bertworks.core.environment import share_cores
from bertworks.core.errors import BertworksError, FoundError, UsageError
from bertworks.core.progress import say
from bertworks.core.settings import (
    Ramp,
    Setting,
    make_settings,
    read_values,
    settings_of,
    suggestion,
)

# A flag puts a recipe's rivals of it aside; flags for both leave them.
RIVALS = {"steps": ("budget",), "budget": ("steps", "short_longest")}
LESS_MEMORY = {
    "batch_size": "lower --batch-size",
    "batch_tokens": "lower --batch-tokens",
    "accumulate": "raise --accumulate",
    "model": "take a smaller model",
}
GROUPS = {"bertworks vocab": "Look at a vocabulary and change it."}  # commands of two words


def main(words: list[str] | None = None) -> NoReturn:
    """Run one command; exit with 0, 1 (failed) or 2 (bad use)."""
    given = sys.argv[1:] if words is None else words
    if isinstance(sys.stdout, TextIOWrapper):  # names of files need not be Unicode
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    name = ""
    try:
        name, settings, as_json = parse(given)
        share_cores()
        _run(name, settings, as_json=as_json)
    except BertworksError as error:
        say(f"bertworks: {error}", is_error=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except (MemoryError, RuntimeError) as error:
        if not is_of_memory(error):
            raise
        say(f"bertworks: the memory is full; {_less_memory(name)}", is_error=True)
        sys.exit(1)
    except OSError as error:
        _silence_output()
        if not isinstance(error, BrokenPipeError):  # who has read enough needs no message
            remedy = "check the path, its permissions and the space on the disk"
            say(f"bertworks: {error}; {remedy}", is_error=True)
        sys.exit(1)
    sys.exit(0)


def is_of_memory(error: BaseException | None) -> bool:
    """Tell whether there was too little memory: torch has a class for that on a GPU only."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return any(sign in str(error) for sign in ("alloc_cpu", "DefaultCPUAllocator"))


def _less_memory(command: str) -> str:
    """Return what may help, of what a command can be told."""
    kind = COMMANDS[command].settings if command else None
    known = {setting.name for setting in settings_of(kind)} if kind else set()
    ways = [way for name, way in LESS_MEMORY.items() if name in known]
    return ", or ".join(ways or ["give it less data at once"])


def parse(words: list[str]) -> tuple[str, Any, bool]:
    """Return the command, its settings from recipe and flags, and whether to print JSON."""
    name, rest = _split_off_command(words)
    parser = command_parser(name)
    flags, unknown = parser.parse_known_intermixed_args(rest)
    if unknown:
        hint = suggestion(unknown[0], list(parser._option_string_actions))
        raise UsageError(f"{name} does not know {unknown[0]!r}{hint}; see bertworks {name} --help")
    given = vars(flags)
    kind, recipe, as_json = COMMANDS[name].settings, given.pop("recipe", None), given.pop("json")
    values = read_values(kind, given, where=name, are_flags=True)
    if recipe is not None:
        table = read_recipe(recipe, name, commands=list(COMMANDS))
        where = f"recipe {recipe} [{table_name(name)}]"
        values = _beside(read_values(kind, table, where=where), values) | values
    return name, make_settings(kind, values, command=name), as_json


def _beside(told: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Return what a recipe tells beside flags; in a run by time its ramps stay at their end."""
    if any(RIVALS.keys() <= given.keys() for given in (flags, told)):
        return told
    rivals = {rival for flag in flags for rival in RIVALS.get(flag, ())}
    kept = {name: value for name, value in told.items() if name not in rivals}
    if "budget" not in flags:
        return kept
    ends = {name: ramp.end for name, ramp in kept.items() if isinstance(ramp, Ramp)}
    kept |= {name: Ramp(end, end) for name, end in ends.items()}
    own = RIVALS.keys() | flags.keys()
    changed = [name for name in told if name not in own and kept.get(name) != told[name]]
    for name in changed:
        fate = f"stays at {kept[name]}" if name in kept else "is left out"
        say(f"--budget counts no steps, so the recipe's {name} {told[name]} {fate}")
    return kept


def command_parser(name: str) -> ArgumentParser:
    """Return the parser of one command's flags; what is not given is left out."""
    kind = COMMANDS[name].settings
    needed = [
        s.name.upper() if s.is_positional else f"{s.flag} {s.shape}"
        for s in settings_of(kind)
        if s.default is MISSING
    ]
    parser = _Parser(
        prog=f"bertworks {name}",
        usage=" ".join(["bertworks", name, *needed, "[flags]"]),
        description=kind.__doc__,
        formatter_class=lambda prog: RawTextHelpFormatter(prog, max_help_position=34, width=100),
        allow_abbrev=False,
        argument_default=SUPPRESS,
    )
    for setting in settings_of(kind):
        _add_flag(parser, setting)
    parser.add_argument("--recipe", metavar="NAME", help="recipe by name or .toml file; flags win")
    parser.add_argument(
        "--json", action="store_true", default=False, help="print the result as JSON"
    )
    return parser


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in our own words and with our own exit code."""
        raise UsageError(f"{message}; see {self.prog} --help")


def _split_off_command(words: list[str]) -> tuple[str, list[str]]:
    """Return the longest command at the start of the words, and the words behind it."""
    for length in (2, 1):
        if (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    has_group = any(name.startswith(f"{words[0]} ") for name in COMMANDS if words)
    group, rest = words[:has_group], words[has_group:]
    program = " ".join(["bertworks", *group])
    if not rest or rest[0] in ("--help", "-h", "--version"):
        _overview(program).parse_args(rest or ["--help"])
    name = " ".join([*group, rest[0]])
    raise UsageError(
        f"there is no command {name!r}{suggestion(name, COMMANDS)}; see {program} --help"
    )


def _overview(program: str) -> ArgumentParser:
    """Return the parser that lists all commands, or those of a group such as `vocab`."""
    shown = {f"bertworks {name}": command for name, command in COMMANDS.items()}
    listed = "\n".join(
        f"  {name.removeprefix('bertworks '):<18}{command.settings.__doc__}"
        for name, command in shown.items()
        if name.startswith(f"{program} ")
    )
    parser = _Parser(
        prog=program,
        usage=f"{program} COMMAND ...",
        description=GROUPS.get(program, "The whole life of a BERT-family text encoder."),
        epilog=f"commands:\n{listed}\n\nbertworks COMMAND --help tells more.",
        formatter_class=RawTextHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def _add_flag(parser: ArgumentParser, setting: Setting) -> None:
    text = setting.help.replace("%", "%%")
    if setting.is_positional:
        several: dict[str, Any] = {"nargs": "*"} if setting.is_tuple else {"nargs": "?"}
        parser.add_argument(setting.name, metavar=setting.name.upper(), help=text, **several)
        return
    if setting.default not in (MISSING, None, ()):
        text += f" [{setting.default}]"
    if setting.default is MISSING:
        text += " (required)"
    if setting.is_switch:
        parser.add_argument(setting.flag, action=BooleanOptionalAction, help=text)
        return
    many: dict[str, Any] = {"nargs": "+", "action": "extend"} if setting.is_tuple else {}
    parser.add_argument(setting.flag, dest=setting.name, metavar=setting.shape, help=text, **many)


def _run(name: str, settings: Any, *, as_json: bool) -> None:
    try:
        result = COMMANDS[name].run(settings)
    except FoundError as error:
        _print_result(error.result, as_json=as_json)
        raise
    _print_result(result, as_json=as_json)


def _print_result(result: dict[str, Any], *, as_json: bool) -> None:
    """Show what a stage returned; one that wrote to standard output itself returns nothing."""
    if as_json and result:
        sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
    elif result:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        sys.stdout.writelines(f"{line}\n" for line in result_lines(result, width=width))
    sys.stdout.flush()


def _silence_output() -> None:
    """Let what could not be written go, so that the interpreter does not try again at its end."""
    with suppress(OSError):  # some programs put a stream without a file in its place
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
