"""The language of a text, told offline by a small model inside its package."""

from functools import cache
from typing import Any

from bertworks.core.errors import UsageError
from bertworks.core.optional import import_optional

SAMPLE = 400  # characters read at the beginning, in the middle and at the end
FOLDED = {"wuu": "zh"}  # in writing hardly to be told apart


def language_of(text: str) -> str:
    """Return the code of the language that most of a text is in, such as en or zh."""
    middle = len(text) // 2
    parts = (text[:SAMPLE], text[middle : middle + SAMPLE], text[-SAMPLE:])
    code = _identifier().classify(text if len(text) <= 3 * SAMPLE else "\n".join(parts))[0]
    return FOLDED.get(code, code)


def check_languages(codes: tuple[str, ...]) -> None:
    """Stop when a language is asked for that the detector does not know."""
    known = [code for code in _identifier().labels if code not in FOLDED]
    for code in codes:
        if code not in known:
            raise UsageError(f"no language {code!r}; the known ones are {', '.join(known)}")


@cache
def _identifier() -> Any:
    langid = import_optional("py3langid.langid", extra="corpus", purpose="telling languages apart")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
