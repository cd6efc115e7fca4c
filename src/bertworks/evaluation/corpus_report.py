"""Statistics pages of a corpus: what cleaning kept and dropped, and what tokenizing made of it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from bertworks.corpus.statistics import Amount, Statistics
from bertworks.evaluation.report import Page

DUPLICATES = ("exact duplicate", "near duplicate")
MOST_ROWS = 30  # of a table of languages or scripts


def documents_page(statistics: Statistics, *, bad_rows: int) -> str:
    """Return the page about a documents folder."""
    page = Page("Clean documents")
    kept = statistics.kept
    page.text(
        f"{statistics.documents_read:,} documents were read and {kept.documents:,} kept "
        f"({_share(kept.documents, statistics.documents_read)})."
    )
    rows = [
        ("documents read", f"{statistics.documents_read:,}"),
        ("megabytes read", _megabytes(statistics.bytes_read)),
        ("documents kept", f"{kept.documents:,}"),
        ("megabytes kept", _megabytes(kept.bytes)),
        ("characters kept", f"{kept.characters:,}"),
        ("characters a document", f"{kept.characters / max(kept.documents, 1):,.0f}"),
        ("duplicate share", f"{statistics.share_dropped(*DUPLICATES):.1%}"),
        ("of them exact", f"{statistics.share_dropped(DUPLICATES[0]):.1%}"),
        ("held out by tokenize at its default share", f"{statistics.held_out_documents:,}"),
        ("rows that could not be read", f"{bad_rows:,}"),
    ]
    page.table(("", "number"), rows)
    page.heading("Dropped, by reason")
    page.table(("reason", "documents", "share", "megabytes"), _dropped_rows(statistics))
    page.heading("Length of kept documents")
    page.bars("documents by characters, from each number to the next", _classes(statistics.lengths))
    page.heading("Scripts")
    page.table(("", "documents", "share"), _count_rows(statistics.scripts))
    page.heading("Languages")
    page.text("Told for a sample of the documents, where the extra corpus is installed.")
    page.table(("", "documents", "share"), _count_rows(statistics.languages))
    page.heading("Examples of what was dropped")
    examples = [(why, text) for why, texts in sorted(statistics.examples.items()) for text in texts]
    page.table(("reason", "text"), examples)
    return page.html()


def shards_page(statistics: Mapping[str, Any], *, bad_rows: int) -> str:
    """Return the page about token shards, from the summary of their statistics."""
    page = Page("Token shards")
    rows = [
        ("documents", _number(statistics["documents"])),
        ("of them held out", _number(statistics["held_out_documents"])),
        ("sentences", _number(statistics["sentences"])),
        ("tokens", _number(statistics["tokens"])),
        ("pieces a word", _number(statistics["pieces_per_word"])),
        ("pieces a character, in text without spaces", _number(statistics["pieces_per_character"])),
        ("tokens a sentence", _number(statistics["tokens_per_sentence"])),
        ("tokens a document", _number(statistics["tokens_per_document"])),
        ("unknown tokens", _number(statistics["unknown_tokens"])),
        ("share of unknown tokens", f"{statistics['unknown_share'] or 0:.4%}"),
        ("rows that could not be read", _number(bad_rows)),
    ]
    page.table(("", "number"), rows)
    page.heading("Length of documents")
    percentiles = statistics["length_percentiles"]
    lengths = [(f"{share} %", _number(length)) for share, length in percentiles.items()]
    lengths.append(("all", _number(statistics["longest_document"])))
    page.table(("of the documents", "have at most so many tokens"), lengths)
    classes = statistics["length_classes"]
    page.bars("documents by tokens, from each number to the next", _classes(classes))
    return page.html()


def _dropped_rows(statistics: Statistics) -> list[tuple[str, ...]]:
    def row(reason: str, amount: Amount) -> tuple[str, ...]:
        share = _share(amount.documents, statistics.documents_read)
        return reason, f"{amount.documents:,}", share, _megabytes(amount.bytes)

    most_first = sorted(statistics.dropped.items(), key=lambda item: -item[1].documents)
    return [row(reason, amount) for reason, amount in most_first]


def _count_rows(counts: Counter[str]) -> list[tuple[str, ...]]:
    total = counts.total()
    most = counts.most_common(MOST_ROWS)
    return [(name, f"{count:,}", _share(count, total)) for name, count in most]


def _classes(counts: Mapping[str, int]) -> list[tuple[str, float]]:
    """Return the bars of a histogram over powers of two, empty ones between others included."""
    if not counts:
        return []
    first, last = (choose(map(int, counts)).bit_length() for choose in (min, max))
    starts = [1 << power for power in range(first - 1, last)]
    return [(_short(start), counts.get(str(start), 0)) for start in starts]


def _short(number: int) -> str:
    """Write a power of two briefly: 512, 1k, 2M."""
    for size, letter in ((2**20, "M"), (2**10, "k")):
        if number >= size:
            return f"{number // size}{letter}"
    return str(number)


def _number(number: float | None) -> str:
    if number is None:
        return "none"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.3f}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"
