"""card: a model, the run that made it, its scores and a person's notes -> the model's card."""

import time
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertworks.core.artifact import (
    MANIFEST,
    open_artifact,
    read_manifest,
    read_object,
    refuse_overwriting,
    sha256_of,
)
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.lineage import REWRITING, Lineage, names_of
from bertworks.core.progress import say
from bertworks.evaluation.bias_probe import PROBES, BiasProbe, Chances, probe_bias
from bertworks.evaluation.card_scores import read_scores
from bertworks.evaluation.full_report import Part
from bertworks.evaluation.model_card import CardNotes, ModelCard
from bertworks.evaluation.run_parts import Speed
from bertworks.serving.model_facts import CARD, facts_of
from bertworks.serving.parity import COMPARED
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.shipping_settings import CardSettings


def run(settings: CardSettings) -> dict[str, Any]:
    """Read all that is known of a model, measure what is not, and write it down."""
    out = settings.out or settings.model / CARD
    refuse_overwriting(out)
    notes = _read_notes(settings.notes)
    facts = facts_of(settings.model)
    manifest = open_artifact(settings.model, "model")
    scores = read_scores(settings.scores, names_of(settings.model))
    trained = settings.run or settings.model
    made = read_manifest(trained)
    if sha256_of(trained / MANIFEST) not in names_of(settings.model, through=REWRITING):
        raise UsageError(
            f"{trained} is another model than {settings.model}, which was not made of it; give the "
            "--run that trained this one"
        )
    before = Lineage.of(made)
    for path in before.lost:
        say(f"warning: {path} has gone or changed, so the card does not tell what had made it")
    predictor = load(settings.model, **vars(settings.machine))
    probe = _probe(settings, notes, predictor)
    parts: list[Part] = [scores, _speed(predictor)]
    if probe is not None:
        parts.append(probe_bias(probe, _chances(predictor)))
    compared = settings.model / COMPARED
    card = ModelCard(
        name=facts.pop("name"),
        facts=facts | {"language": notes.language},
        notes=notes,
        model=manifest,
        run=made,
        before=before,
        training=_training(trained),
        compared=read_object(compared) if compared.is_file() else None,
        parts=parts,
    )
    out.write_text(card.markdown(), encoding="utf-8")
    return {"card": str(out), "scores": len(scores.rows), "bias_probe": probe is not None}


def _read_notes(file: Path) -> CardNotes:
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    return CardNotes.read(told, where=str(file))


def _probe(settings: CardSettings, notes: CardNotes, predictor: Predictor) -> BiasProbe | None:
    """Return the probe that is asked for, or that of the card's language where it can be made."""
    if settings.bias is not None:
        return PROBES.get(settings.bias)
    if notes.language not in PROBES:
        say(f"warning: no bias is probed, for there is no probe in {notes.language!r}")
        return None
    if "fill_mask" not in predictor.model.tasks:
        say("warning: no bias is probed, for the model fills no masks")
        return None
    return PROBES[notes.language]


def _chances(predictor: Predictor) -> Chances:
    """Return what gives the chance of every piece behind the mask of a text."""
    count = predictor.tokenizer.vocab_size

    def chances(text: str) -> Mapping[str, float]:
        found: Counter[str] = Counter()
        for candidate in predictor.fill_mask(text, num_candidates=count):
            found[candidate.token] += candidate.probability
        return found

    return chances


def _speed(predictor: Predictor) -> Speed:
    """Measure how fast short sentences become vectors, once the network is warm."""
    texts = [sentence for probe in PROBES.values() for sentence in probe.sentences()]
    predictor.embed(texts[:32])
    tokens = sum(map(len, predictor.tokenizer.ids_of(texts)))
    started = time.monotonic()
    predictor.embed(texts)
    counts = {"sentences as vectors": len(texts), "pieces of them": tokens}
    return Speed.of(predictor.machine, time.monotonic() - started, counts)


def _training(run: Path) -> Speed | None:
    """Return how long a run took, where its report says so."""
    file = run / "report.json"
    told = read_object(file).get("speed") if file.is_file() else None
    try:
        return None if told is None else Speed(**told)
    except TypeError as error:
        raise ArtifactError(
            f"{file} tells no speed of a run ({error}); give another --run"
        ) from error
