"""Write the settings tables of the command pages from the settings themselves.

python docs/settings_tables.py            rewrite the tables between their markers
python docs/settings_tables.py --check    change nothing; exit 1 when a page is stale
"""

import argparse
import re
import sys
from dataclasses import MISSING
from pathlib import Path

from bertworks.cli.commands import COMMANDS
from bertworks.core.settings import Setting, settings_of

PAGES = Path(__file__).resolve().parent / "commands"
HEADER = "| setting | default | takes numbers | meaning |"
MARKED = re.compile(r"(?<=<!-- settings -->\n).*?(?=<!-- end of settings -->)", re.DOTALL)


def main() -> None:
    """Rewrite the pages, or tell which are stale."""
    parser = argparse.ArgumentParser(description="Write the settings tables of the command pages.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    is_check = parser.parse_args().check
    stale = [name for name in COMMANDS if is_stale(name)]
    for name in stale:
        sys.stdout.write(f"{page(name)} {'is stale' if is_check else 'is rewritten'}\n")
        if not is_check:
            page(name).write_text(fresh(name), encoding="utf-8")
    sys.exit(1 if is_check and stale else 0)


def is_stale(name: str) -> bool:
    """Tell whether the page of a command shows other settings than the command has."""
    return page(name).read_text(encoding="utf-8") != fresh(name)


def fresh(name: str) -> str:
    """Return the page of a command with its table made anew."""
    text = page(name).read_text(encoding="utf-8")
    made, count = MARKED.subn(lambda _: table(name), text)
    if count != 1:
        sys.exit(f"{page(name)} has {count} settings tables; it needs one pair of markers")
    return made


def page(name: str) -> Path:
    """Return where a command is described."""
    return PAGES / f"{name.replace(' ', '-')}.md"


def table(name: str) -> str:
    """Return the settings of a command as a Markdown table."""
    rows = [_row(setting) for setting in settings_of(COMMANDS[name].settings)]
    return "\n".join(["", HEADER, "|---|---|---|---|", *rows, "", ""])


def _row(setting: Setting) -> str:
    limit = setting.limit.words.removeprefix("of ") if setting.limit else ""
    cells = (f"`{_spelling(setting)}`", _default(setting), limit, setting.help)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _spelling(setting: Setting) -> str:
    if setting.is_positional:
        return setting.name.upper() + ("..." if setting.is_tuple else "")
    if setting.is_switch:
        return f"{setting.flag}, {setting.flag.replace('--', '--no-', 1)}"
    return f"{setting.flag} {setting.shape}" + ("..." if setting.is_tuple else "")


def _default(setting: Setting) -> str:
    if setting.default is MISSING:
        return "must be given"
    if setting.default in (None, ()):
        return ""
    if setting.kind is bool:
        return "on" if setting.default else "off"
    return f"`{setting.default}`"


if __name__ == "__main__":
    main()
