"""MediaWiki's markup made plain: the running text of an article and nothing else.

Left out are boxes, tables, lists, headings, references, formulas, listings, files and categories.
Every pass takes time in proportion to the text, whatever is in it.
"""

import html
import re
from collections import Counter
from collections.abc import Callable

from bertworks.corpus.wiki_templates import template_text

DEEPEST = 20  # marks inside one another; what lies deeper is left out
MEDIA = "file image media category 文件 檔案 档案 图像 圖像 图片 圖片 分类 分類"  # in every wiki


def plain_text(wikitext: str, *, media: frozenset[str] = frozenset()) -> str:
    """Return the prose of an article, a paragraph a line.

    `media` are the names under which its wiki keeps files and categories.
    """
    text = _Prose(media.union(MEDIA.split())).read(_drop_elements(wikitext))
    text = _QUOTES.sub(_apostrophes, _SWITCH.sub("", _EXTERNAL.sub(r"\1", text)))
    text = _TAG.sub("", _BREAK.sub("\n", text))
    return "\n".join(filter(None, map(_paragraph, text.split("\n"))))


_ELEMENTS = (
    "ref|math|chem|ce|syntaxhighlight|source|pre|gallery|timeline|score|hiero|graph|mapframe"
    "|maplink|imagemap|templatedata|style|script|table|nowiki"
)
_ELEMENT = re.compile(rf"<!--|<({_ELEMENTS})\b[^<>]*+>", re.IGNORECASE)
_ENDS = {name: re.compile(rf"</{name}\s*+>", re.IGNORECASE) for name in _ELEMENTS.split("|")}
_ENDS["<!--"] = re.compile("-->")
_LITERAL = {ord(char): f"&#{ord(char)};" for char in "[]{}|'<>=*#:;-_"}


def _drop_elements(text: str) -> str:
    """Take out comments and elements whose content is no prose; of unclosed ones only the mark."""
    kept: list[str] = []
    unclosed: set[str] = set()
    place = 0
    while found := _ELEMENT.search(text, place):
        kept.append(text[place : found.start()])
        place = found.end()
        name = (found[1] or found[0]).lower()
        if found[0].endswith("/>") or name in unclosed:
            continue
        end = _ENDS[name].search(text, place)
        if end is None:
            unclosed.add(name)
            continue
        if name == "nowiki":
            kept.append(text[place : end.start()].translate(_LITERAL))
        place = end.end()
    return "".join([*kept, text[place:]])


_MARK = re.compile(
    r"""
    \{{2,} | \}\}(?=\}-) | \}{2,}              # templates
    | \[\[ | \]\](?!\](?!\]))                # links; of three brackets the first is text
    | ^[ \t:]*+\{\| | ^[ \t]*+\|\}(?!\})       # tables stand at the beginning of a line
    | -\{(?!\{) | \}-                          # Chinese variants
    """,
    re.VERBOSE | re.MULTILINE,
)
_OPENINGS = {"]]": "[[", "|}": "{|", "}-": "-{"}


class _Prose:
    """Text without its templates, tables and links: what a mark opens is judged when it closes."""

    def __init__(self, media: frozenset[str]) -> None:
        self.media = media
        self.kept: list[str] = []
        self.opened: list[tuple[str, int, int]] = []  # mark, where its content begins, its length
        self.num_open: Counter[str] = Counter()

    def read(self, text: str) -> str:
        """Return what remains of a text."""
        place = 0
        for found in _MARK.finditer(text):
            self.kept.append(text[place : found.start()])
            place = found.end()
            self._take(found[0].strip(" \t:"))
        return "".join([*self.kept, text[place:]])

    def _take(self, mark: str) -> None:
        if mark[:2] in ("{{", "[[", "{|", "-{"):
            self._open(mark[:2], len(self.kept), len(mark))
        elif mark[:2] == "}}":
            self._close_braces(len(mark))
        else:
            self._close(_OPENINGS[mark], self._link if mark == "]]" else self._variant)

    def _open(self, mark: str, place: int, size: int) -> None:
        self.opened.append((mark, place, size))
        self.num_open[mark] += 1

    def _close(self, mark: str, render: Callable[[str], str]) -> tuple[int, int]:
        """Put what the nearest such mark opened as it is to be read; return its place and size."""
        if not self.num_open[mark]:
            return 0, 0
        while True:
            opened, place, size = self.opened.pop()
            self.num_open[opened] -= 1
            if opened == mark:
                break
        is_read = mark != "{|" and len(self.opened) < DEEPEST
        content = "".join(self.kept[place:]) if is_read else ""
        del self.kept[place:]
        if content:
            self.kept.append(render(content))
        return place, size

    def _close_braces(self, size: int) -> None:
        """Close as many templates as a run of braces does: }}}} may end two."""
        while size > 1 and self.num_open["{{"]:
            place, opened = self._close("{{", template_text)
            if opened > size + 1:
                self._open("{{", place, opened - size)
            size -= opened

    def _link(self, content: str) -> str:
        target, bar, label = content.partition("|")
        prefix, colon, _ = target.strip().partition(":")
        if colon and prefix.strip().lower() in self.media:
            return ""
        if colon and not bar and _LANGUAGE.fullmatch(prefix):
            return ""
        return label if bar else target.strip().removeprefix(":")

    def _variant(self, content: str) -> str:
        """Choose simplified Chinese where a text has several forms."""
        flags, bar, rest = content.partition("|")
        if bar and set(flags) & set("THD-"):
            return ""
        forms = dict(_FORM.findall(rest if bar else content))
        known = [forms[name] for name in ("zh-hans", "zh-cn", "zh") if name in forms]
        return next(iter([*known, *forms.values()]), rest if bar else content).strip()


_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
_FORM = re.compile(r"(zh(?:-[a-z]+)?)\s*+:([^;]*+)")
_EXTERNAL = re.compile(
    r"\[(?:https?:|ftp:|mailto:|//)[^\s\[\]]*+[ \t]*+([^\[\]\n]*+)\]", re.IGNORECASE
)
_SWITCH = re.compile(r"__[A-Z]{3,30}__")
_QUOTES = re.compile("'{2,}")
_BREAK = re.compile(r"<br\s*+/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]*+>", re.IGNORECASE)


def _apostrophes(run: re.Match[str]) -> str:
    """Two quotes are italic, three bold, five both; what is left over are apostrophes."""
    size = len(run[0])
    return "'" if size == 4 else "'" * (size - 5)


_NO_PROSE = re.compile(r"\s*+[*#;=|!]|----")  # lists, headings, rows of unclosed tables, rules
_HOLLOW = re.compile(r"[(（][\s,;:，；：、]*+[)）]")
_HOLLOW_BEGIN = re.compile(r"(?<=[(（])[\s,;，；、]++")
_HOLLOW_END = re.compile(r"(?<![\s,;，；、])[\s,;，；、]++(?=[)）])")
_LOOSE = re.compile(r"(?<! ) ++(?=[,.](?:\s|$))")
_SPACES = re.compile(r"[ \t]{2,}+")


def _paragraph(line: str) -> str:
    """Return a line without what taking the markup out left behind; nothing if it is no prose."""
    if _NO_PROSE.match(line):
        return ""
    text = html.unescape(line.lstrip(": \t"))
    for hollow in (_HOLLOW, _HOLLOW_BEGIN, _HOLLOW_END, _LOOSE):
        text = hollow.sub("", text)
    text = _SPACES.sub(" ", text).strip()
    return text if any(map(str.isalpha, text)) else ""
