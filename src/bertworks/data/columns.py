"""Which columns of a file hold what: by their names, never by guessing between two."""

import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import chain

from bertworks.core.errors import DataError, UsageError
from bertworks.data.forms import COLUMNS, FORMS, TELLTALES

Columns = Mapping[str, str]  # our name of a column -> the file's, or several with commas between

# Names under which the public sets have our columns. Those of one group are equally sure, so two
# of them in a file are one too many; a later group counts only where the earlier ones fail.
ALIASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "text": (
        ("sentence", "文本", "句子"),
        ("text_a",),
        (
            *("content", "review", "comment", "tweet", "message", "utterance", "body", "title"),
            *("内容", "评论"),
        ),
    ),
    "label": (
        ("gold_label",),
        (
            *("class", "category", "quality", "is_duplicate", "sentiment", "polarity", "target"),
            *("标签", "类别"),
        ),
        ("情感", "情感倾向"),
        ("entailment_judgment", "gold", "topic", "group"),
    ),
    "labels": (("classes", "categories", "topics", "标签"),),
    "score": (
        ("similarity", "similarity_score", "relatedness_score", "relatedness"),
        ("rating", "stars"),
    ),
    "aspect": (("方面",), ("term", "aspect_term", "target")),
    "tokens": (("words",),),
    "tags": (("ner_tags", "pos_tags", "chunk_tags", "slots", "ner", "pos"),),
    "spans": (("entities", "实体"),),
    "intent": (("意图",), ("label", "category")),
    "question": (("query", "prompt", "stem", "startphrase", "ctx", "问题"),),
    "passage": (("context", "paragraph", "article", "dialogue", "段落", "文章", "篇章"),),
    "answers": (("answer", "答案"),),
    "choices": (("options", "endings", "选项"),),
    "source": (
        ("src",),
        ("document", "article", "abstract", "dialogue"),
        ("text", "sentence", "content", "body", "原文", "正文", "内容"),
    ),
    "target": (
        ("tgt", "reference", "references"),
        ("summary", "tldr", "highlights", "摘要"),
        ("title", "headline", "标题"),
        ("translation", "译文"),
    ),
}
# What a header of one column may name: something to read. Other names may be a text, as those of
# the parts of a paper are.
ALONE = {"text", "tokens", "question", "source"} | {
    *chain(*ALIASES["text"], *ALIASES["tokens"], *ALIASES["question"], *ALIASES["source"][:2])
}
WEAK_NAMES = ALIASES["text"][-1]  # which a file may have beside a text of another name
ALIASES_OF_FORM = {
    ("score", "score"): (*ALIASES["score"], ("label",)),
    ("choice", "label"): (("answer", "answerkey", "answer_key", "correct", "答案"),),
    ("relation", "label"): (("relation",),),
}
OURS = ("text", "text_b")
PAIRS = (
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 string", "#2 string"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("s1", "s2"),
    ("句子1", "句子2"),
    ("句子a", "句子b"),
    ("文本1", "文本2"),
    ("问题1", "问题2"),
)
_CHOICE = re.compile(r"([a-z]*?)[_ ]?(\d|[a-h])")
_CHOICE_WORDS = ("", "choice", "option", "ending", "answer")
_NEEDED = {  # one of each, beside what is sought
    "label": (("text",),),
    "labels": (("text",),),
    "score": (("text",),),
    "texts": (("text",),),
    "aspect": (("text",), ("aspect",)),
    "tags": (("tokens", "text"),),
    "intent_slots": (("tokens", "text"),),
    "answers": (("question",), ("passage",)),
    "choice": (("question",), ("choices",)),
    "relation": (("text",), ("first",), ("second",)),
    "target": (("source",),),
}
_TELLS_BESIDE = {  # alone they may be anything
    "tags": ("tokens",),
    "first": ("second",),
    "target": ("source",),
}
_TELLS_WITHOUT = {"target": ("text", "sentence", "text_a")}  # of which a target is the label
_SURE_SIGNS = {  # columns that no other form has together
    "choice": {"question", "choices", "label"},
    "answers": {"question", "passage", "answers"},
    "tags": {"tokens", "tags"},
}
_TWINS = {"aspect": "方面", "choices": "选项"}  # names that tell a form as ours do
_TARGETS = (("原文", "译文"), ("正文", "摘要"))  # which no form has but that of a target
_OPTIONAL = {"choice": (("passage",),)}
_SOUGHT = {"intent_slots": (("tags", "spans"), ("intent",))}  # one of each; else one of all
_PAIRED = ("label", "labels", "score", "texts")


def is_header(cells: Sequence[str], given: Columns, below: Sequence[Sequence[str]] = ()) -> bool:
    """Tell whether the first row of a table names columns, known ones or those that were given.

    A known name that comes again in its column is a value, such as the label `pos`.
    """
    known = _known_names() - {"id", "first", "second"} if len(cells) > 1 else ALONE
    others = [row for row in below if row != cells]  # files that were joined have it twice
    values = {pair for row in others for pair in enumerate(row)}
    folded = [_folded(cell) for at, cell in enumerate(cells) if (at, cell) not in values]
    asked = {part for theirs in given.values() for part in (theirs, *theirs.split(","))}
    names = {name for name in asked if not name.isdecimal()}  # numbers are places, not names
    return any(name in known for name in folded) or any(
        {cell, cell.strip()} & names for cell in cells
    )


def match_names(
    names: Sequence[str], form: str, given: Columns, *, labelled: bool = True
) -> dict[str, str]:
    """Return the columns that a form needs as far as names tell them, given ones first."""
    found = dict(given)
    sought = _SOUGHT.get(form, (FORMS[form].gold,)) if labelled else ()
    for ours in (*FORMS[form].inputs, *chain(*sought)):
        free = _free(names, found)
        if ours not in found and ours in free:
            found[ours] = free[ours]
    if form in _PAIRED and "text" not in found:
        found |= _pair(_free(names, found))
    if form == "choice" and "choices" not in found:
        found |= _several_choices(_free(names, found))
    for any_of in (*_NEEDED[form], *_OPTIONAL.get(form, ()), *sought):
        for ours in any_of:
            if not found.keys() & set(any_of):
                found |= _alias(ours, form, _free(names, found))
    _refuse_twins(found, names)
    return found


def choose_form(names: Sequence[str], given: Columns, among: Sequence[str]) -> str | None:
    """Return the first of several forms that a file has the columns of, by our names if it may."""
    for form in among:
        gold = FORMS[form].gold
        if all(_has(ours, names, given) for ours in gold) and gold:
            return form
    for form in sorted(among, key=lambda form: not FORMS[form].gold):
        found = match_names(names, form, given)
        has_gold = not FORMS[form].gold or set(FORMS[form].gold) & found.keys()
        if has_gold and not missing_inputs(form, found):
            return form
    return None


def form_of(names: Sequence[str], given: Columns) -> str:
    """Return the form that the names of columns speak of."""
    told = next((form for ours, form in TELLTALES.items() if _tells(ours, names, given)), None)
    if told == "score":
        return _label_or_score(names, given) or told
    form = told or _sure_form(names, given)
    if form is None and not _has("label", names, given):
        form = _label_or_score(names, given) or _form_of_aliases(names, given)
    has_intent = bool({*ALIASES["intent"][0]} & {*map(_folded, names)})
    return "intent_slots" if form == "tags" and has_intent else form or "label"


def num_columns(cells: Sized) -> str:
    """Count the columns of a row in words: 1 column, 2 columns."""
    return f"{len(cells)} column{'s' * (len(cells) != 1)}"


def _tells(ours: str, names: Sequence[str], given: Columns) -> bool:
    beside, without = _TELLS_BESIDE.get(ours, ()), _TELLS_WITHOUT.get(ours, ())
    is_told = all(_has(one, names, given) for one in (ours, *beside))
    return is_told and not any(_has(one, names, given) for one in without)


def _sure_form(names: Sequence[str], given: Columns) -> str | None:
    signs = _SURE_SIGNS.items()
    found = (form for form, sure in signs if sure <= _matched(names, form, given).keys())
    return next(found, None)


def _form_of_aliases(names: Sequence[str], given: Columns) -> str | None:
    """Return the form of names that speak of one only where there is no label and no score."""
    folded = {*map(_folded, names)}
    if any(folded.issuperset(pair) for pair in _TARGETS):
        return "target"
    return "tags" if {"text", "spans"} <= _matched(names, "tags", given).keys() else None


def _label_or_score(names: Sequence[str], given: Columns) -> str | None:
    """Return which of both a file has or was given, if it is one of them."""
    asked = [ours for ours in ("label", "score") if ours in given]
    if asked:
        return asked[-1]
    free = _free(names, given)
    own = {ours: free[ours] for ours in ("label", "score") if ours in free}
    found = own or _alias("label", "label", free) | _alias("score", "label", free)
    if len(found) > 1:
        raise UsageError(
            f"may be meant for its {found['label']} or its {found['score']}; name the --task"
        )
    return next(iter(found), None)


def _matched(names: Sequence[str], form: str, given: Columns) -> dict[str, str]:
    found = match_names(names, form, given, labelled=False)
    return match_names(names, form, given) if not missing_inputs(form, found) else {}


def missing_inputs(form: str, found: Iterable[str]) -> list[str]:
    """Return which columns a form cannot do without and has not."""
    return [" or ".join(any_of) for any_of in _NEEDED[form] if not set(any_of) & set(found)]


def cannot_tell(
    names: Sequence[str], form: str, *, has_names: bool = True, labelled: bool = True
) -> DataError:
    """Return the error of columns that nobody knows, with the flag that mends it."""
    wanted = [any_of[0] for any_of in _NEEDED[form]]
    wanted += FORMS[form].gold[:1] if labelled else ()
    return DataError(
        f"{_seen(names, has_names=has_names)}; say it with --columns {_as_flags(wanted)}"
    )


def must_be_told(names: Sequence[str], form: str, *, has_names: bool = True) -> DataError:
    """Return the error of columns that nobody knows where no task was named either."""
    unknown = {*map(_folded, names)} - _known_names()
    wanted = [any_of[0] for any_of in _NEEDED[form]]
    is_wide = len(names) > 2 and len(unknown) > 1  # enough for two texts and what is sought
    wanted += ["text_b"] if form in _PAIRED and is_wide else []
    wanted += FORMS[form].gold[:1]
    return DataError(
        f"{_seen(names, has_names=has_names)}; name the --task (classify, match, tag, answer, "
        f"generate, ...), and if need be say it with --columns {_as_flags(wanted)}"
    )


def _seen(names: Sequence[str], *, has_names: bool) -> str:
    return (
        f"has {'' if has_names else 'no known header and '}the columns {', '.join(names)}, and "
        "which of them hold what cannot be told"
    )


def _as_flags(wanted: Iterable[str]) -> str:
    return " ".join(f"{ours}=COLUMN" for ours in wanted)


def _known_names() -> set[str]:
    aliases = {alias for groups in ALIASES.values() for group in groups for alias in group}
    return aliases | {name for pair in PAIRS for name in pair} | {*COLUMNS}


def _has(ours: str, names: Sequence[str], given: Columns) -> bool:
    """Tell whether a column was given, or is there under our name or one that is as sure."""
    return ours in given or bool({ours, _TWINS.get(ours, ours)} & {*map(_folded, names)})


def _folded(name: str) -> str:
    return name.strip().casefold()


def _free(names: Sequence[str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that hold nothing yet, by their names in small letters."""
    used = {part for theirs in found.values() for part in (theirs, *theirs.split(","))}
    return {_folded(name): name for name in reversed(names) if name not in used}


def _alias(ours: str, form: str, free: Mapping[str, str]) -> dict[str, str]:
    for group in ALIASES_OF_FORM.get((form, ours), ALIASES.get(ours, ())):
        there = [free[alias] for alias in group if alias in free]
        if len(there) == 1:
            return {ours: there[0]}
        if there:
            raise DataError(
                f"has more than one column that may hold the {ours}: {', '.join(there)}; choose "
                f"with --columns {ours}=COLUMN"
            )
    return {}


def _pair(free: Mapping[str, str]) -> dict[str, str]:
    pairs = [pair for pair in PAIRS if all(name in free for name in pair)]
    if len(pairs) > 1:
        shown = ", ".join("/".join(free[name] for name in pair) for pair in pairs)
        raise DataError(
            f"has more than one pair of texts: {shown}; choose with --columns text=COLUMN "
            "text_b=COLUMN"
        )
    return {ours: free[name] for pair in pairs for ours, name in zip(OURS, pair, strict=True)}


def _several_choices(free: Mapping[str, str]) -> dict[str, str]:
    """Return columns that hold a choice each, as A, B, C or ending0, ending1, in their order."""
    for word in _CHOICE_WORDS:
        marks = {match[2]: name for name, match in _marked(free) if match[1] == word}
        for first in ("a", "0", "1"):
            run: list[str] = []
            while (mark := chr(ord(first) + len(run))) in marks:
                run.append(marks[mark])
            is_letters = first == "a" or word
            if len(run) > 1 and is_letters:
                return {"choices": ",".join(run)}
    return {}


def _marked(free: Mapping[str, str]) -> list[tuple[str, re.Match[str]]]:
    found = ((name, _CHOICE.fullmatch(folded)) for folded, name in free.items())
    return [(name, match) for name, match in found if match]


def _refuse_twins(found: Mapping[str, str], names: Sequence[str]) -> None:
    for name in found.values():
        if names.count(name) > 1:
            raise DataError(f"has two columns {name!r}; rename one of them")
