"""Templates of MediaWiki that stand in the middle of a sentence, as a reader sees them.

Most templates are boxes, notes and navigation, of which nothing is left. Without the few that are
known here, numbers, names and dashes would be missing from sentences.
"""

import re
from collections.abc import Callable

Arguments = dict[str, str]  # by name; those without one are counted from 1


def template_text(content: str) -> str:
    """Return what a reader sees of a template in running text; of most that is nothing."""
    name, bar, rest = content.partition("|")
    name = name.strip().lower().replace("_", " ")
    if not bar and name.startswith("formatnum:"):
        return content.partition(":")[2].strip()
    if not bar:
        return _SIGNS.get(name, "")
    if _OF_A_LANGUAGE.fullmatch(name):  # {{lang-fr|mot}} has its language in its name
        return _arguments(rest).get("1", "")
    if name in _TEXT_AT:
        return _arguments(rest).get(_TEXT_AT[name], "")
    render = _RENDERERS.get(name)
    return render(_arguments(rest)) if render else ""


_NAMED = re.compile(r"\s*+(\w++)\s*+=(.*+)", re.DOTALL)


def _arguments(rest: str) -> Arguments:
    arguments: Arguments = {}
    place = 0
    for argument in rest.split("|"):
        if named := _NAMED.match(argument):
            arguments[named[1]] = named[2].strip()
        else:
            place += 1
            arguments[str(place)] = argument.strip()
    return arguments


def _in_order(arguments: Arguments) -> list[str]:
    """Return the arguments without names."""
    return [value for name, value in arguments.items() if name.isdigit()]


def _quotation(arguments: Arguments) -> str:
    text = next((arguments[name] for name in ("1", "text", "quote") if name in arguments), "")
    return f"\n{text}\n"


def _linked(arguments: Arguments) -> str:
    """Return the label of a link to another wiki: language, title there, title here, label."""
    return next((arguments[name] for name in "432" if arguments.get(name)), "")


def _about(arguments: Arguments) -> str:
    return " – ".join(f"c. {year}" for year in _in_order(arguments)[:2] if year)


def _as_of(arguments: Arguments) -> str:
    return f"{'as' if 'lc' in arguments else 'As'} of {arguments.get('1', '')}"


def _fraction(arguments: Arguments) -> str:
    numbers = _in_order(arguments)
    if not numbers:
        return ""
    *whole, over, under = numbers if len(numbers) > 1 else ["1", *numbers]
    return " ".join([*whole, f"{over}/{under}"])


_NUMBER = re.compile(r"[-+−]?[\d.,/⁄]++")
_BETWEEN = {
    "-": "–",
    "–": "–",
    "x": " × ",
    "by": " by ",
    "to": " to ",
    "and": " and ",
    "or": " or ",
}
_UNITS = {"C": "°C", "F": "°F", "sqmi": "sq mi", "sqft": "sq ft", "km2": "km²", "m2": "m²"}


def _measure(arguments: Arguments) -> str:
    """Return what was measured, not what it is converted to: 5 to 10 km of 5|to|10|km|mi."""
    text = ""
    is_after_number = False
    for value in _in_order(arguments):
        if not is_after_number and not _NUMBER.fullmatch(value):
            break
        is_unit = is_after_number and value not in _BETWEEN
        shown = f" {_UNITS.get(value, value)} " if is_unit else _BETWEEN.get(value, value)
        text += shown
        is_after_number = not is_after_number
    return text.strip()


# Which of the arguments is the text; all else about these is dress.
_TEXT_AT = {
    **dict.fromkeys(("nowrap", "nobr", "nobold", "noitalic", "small", "smaller", "big"), "1"),
    **dict.fromkeys(("em", "strong", "sup", "sub", "abbr", "tooltip", "sic", "not a typo"), "1"),
    **dict.fromkeys(("visible anchor", "vanchor", "val", "nihongo", "ruby", "僻字"), "1"),
    **dict.fromkeys(("ill", "interlanguage link", "le", "lj"), "1"),
    **dict.fromkeys(("lang", "langx", "transl", "translit", "transliteration", "color"), "2"),
}
_OF_A_LANGUAGE = re.compile(r"(?:lang|link)-[a-z-]++")
_RENDERERS: dict[str, Callable[[Arguments], str]] = {
    **dict.fromkeys(("convert", "cvt"), _measure),
    **dict.fromkeys(("circa", "c.", "ca."), _about),
    **dict.fromkeys(("frac", "fraction", "sfrac"), _fraction),
    **dict.fromkeys(("quote", "blockquote", "cquote", "quotation", "引文", "引用"), _quotation),
    "as of": _as_of,
    "tsl": _linked,
}
_SIGNS = {
    **dict.fromkeys(("snd", "spnd", "spaced ndash", "spaced en dash"), " – "),
    **dict.fromkeys(("ndash", "en dash"), "–"),
    **dict.fromkeys(("mdash", "em dash", "emdash"), "—"),
    **dict.fromkeys(("nbsp", "space", "spaces"), " "),
    "'": "'",
    "'s": "'s",
    "!": "|",
    "=": "=",
    "·": " · ",
}
