"""A model's card: all that it must say is in it, and notes that lack something are refused."""

from typing import Any

import pytest

from bertworks.core.errors import UsageError
from bertworks.core.lineage import Lineage
from bertworks.evaluation.bias_probe import BiasProbe, probe_bias
from bertworks.evaluation.model_card import CardNotes, DataNote, ModelCard
from bertworks.evaluation.run_parts import Speed

NOTES: dict[str, Any] = {
    "about": "A small encoder of English.",
    "language": "en",
    "license": "apache-2.0",
    "limits": ["It reads 512 pieces.", "It knows <nothing> of | tables."],
    "data": [{"name": "Wikipedia", "about": "articles", "license": "CC BY-SA 4.0"}],
}
RUN = {
    "version": "0.1.0",
    "command": "bertworks pretrain shards --out run",
    "settings": {"lr": 0.001, "steps": 1000, "model": None, "cased": False, "sizes": [1, 2]},
    "sha256": "aa",
}
MODEL = {
    "command": "bertworks export --to bertworks --out little",
    "sha256": "bb",
    "files": {"model.int8.safetensors": {"size": 12345, "sha256": "f00d" * 16}},
}
COMPARED = {
    "precision": "int8",
    "mean_cosine": 0.9998,
    "label_agreement": None,
    "scores_before": {"accuracy": 0.91},
    "scores_after": {"accuracy": 0.909},
}


def make(**changes: Any) -> str:
    probe = BiasProbe(("he", "she"), ("A {} and [MASK].",), ("a b", "x y"))
    parts = [
        Speed("one core", 2.0, {"sentences": 100}),
        probe_bias(probe, lambda text: {"he": 0.2, "she": 0.2}),
    ]
    told = {
        "name": "little-en",
        "facts": {"parameters": 47123456, "tasks": "fill_mask"},
        "notes": CardNotes.read(NOTES, where="notes"),
        "model": MODEL,
        "run": RUN,
        "parts": parts,
        **changes,
    }
    return ModelCard(**told).markdown()


def test_the_card_says_all_that_a_reader_must_know() -> None:
    page = make(compared=COMPARED, training=Speed("one H200", 1560.0, {"steps": 1000}))
    assert page.startswith(
        '---\nlanguage: "en"\nlicense: "apache-2.0"\nlibrary_name: "bertworks"\n'
    )
    for told in (
        "# little-en\n\nA small encoder of English.",
        'bertworks.load("little-en")',
        "| parameters | 47,123,456 |",
        "| Wikipedia | articles | CC BY-SA 4.0 |",
        "bertworks pretrain shards --out run",
        "| lr | 0.001 |",
        "| cased | no |",
        "| sizes | 1, 2 |",
        "| seconds | 1,560.0 |",
        "bertworks export --to bertworks --out little",
        "| sentences a second | 50.0 |",
        "## Bias probe",
        "kept in int8 and opened in single precision",
        "| mean cosine | 0.9998 |",
        "| accuracy | 0.9100 | 0.9090 |",
        "It knows \\<nothing\\> of \\| tables.",
        f"| model.int8.safetensors | 12,345 | {'f00d' * 16} |",
    ):
        assert told in page, told
    assert "| model | – |" not in page  # what was left out of a command says nothing


def test_a_model_that_is_kept_beside_its_base_names_it() -> None:
    compared = {name: value for name, value in COMPARED.items() if name != "precision"}
    page = make(compared={"base": "little-en", **compared})
    assert "kept as how far they are from those of little-en, and opened together" in page
    assert "None" not in page
    assert "| mean cosine | 0.9998 |" in page


def test_a_model_that_is_its_own_run_has_one_command() -> None:
    page = make(model=MODEL | {"sha256": "aa"})
    assert "made of it" not in page
    assert "## Weights" not in page


def test_notes_are_read_as_they_are() -> None:
    notes = CardNotes.read(NOTES, where="notes")
    assert notes.data == (DataNote("Wikipedia", "articles", "CC BY-SA 4.0"),)
    assert notes.limits == tuple(NOTES["limits"])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"licence": "x"}, "has 'licence', which no card shows"),
        ({"about": "  "}, "about is '  ', but it must be a text"),
        ({"language": 3}, "language is 3, but"),
        ({"limits": []}, "limits must be a list of sentences"),
        ({"limits": "none"}, "limits must be a list of sentences"),
        ({"data": []}, r"data must be tables, each under \[\[data\]\]"),
        ({"data": {"name": "x"}}, "data must be tables"),
        ({"data": [{"name": "x", "about": "y"}]}, r"\[\[data\]\] has no license"),
        ({"data": [{"name": "x", "about": "y", "license": ""}]}, "license is '', but"),
    ],
)
def test_notes_that_lack_something_are_refused(changes: dict[str, Any], found: str) -> None:
    with pytest.raises(UsageError, match=f"^notes.*{found}"):
        CardNotes.read(NOTES | changes, where="notes")


@pytest.mark.parametrize("name", NOTES)
def test_every_key_of_the_notes_is_needed(name: str) -> None:
    with pytest.raises(UsageError, match=f"has no {name}; a card needs about, language"):
        CardNotes.read({key: NOTES[key] for key in NOTES if key != name}, where="notes")


def test_commands_from_the_raw_text_on_stand_before_that_of_the_run() -> None:
    commands = ["bertworks clean raw --out documents", "bertworks tokenize documents"]
    page = make(before=Lineage(commands, ["tokenizer"]))
    assert "What had made tokenizer is not known here." in page
    told = "bertworks clean raw --out documents\nbertworks tokenize documents\n" + RUN["command"]
    assert f"with these commands:\n\n```\n{told}\n```" in page
    assert f"with this command:\n\n```\n{RUN['command']}\n```" in make()
