"""A network and its tasks in Hugging Face's words, read from `config.json` and written to it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.pieces import SpecialIds
from bertworks.interop.dialect import ACTIVATIONS, OF_TEXTS, PROBLEMS, Dialect
from bertworks.interop.families import ALIASES, DIALECTS
from bertworks.model.config import (
    Bucketed,
    EncoderConfig,
    Learned,
    Local,
    Rotary,
    Sharing,
    Waves,
)

OWN = "bertworks"  # the model_type of networks that no other library knows
POSITIONS = {"learned": Learned, "rotary": Rotary, "waves": Waves, "bucketed": Bucketed}


@dataclass(frozen=True)
class TaskNote:
    """What a folder says about a task of its model."""

    labels: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    kind: str = ""  # by default as its name

    def as_json(self, name: str) -> dict[str, Any]:
        """Return what is written of a task of this name."""
        told: dict[str, Any] = {"labels": self.labels, "options": self.options}
        return told if self.kind in ("", name) else {**told, "kind": self.kind}


def kinds_of(tasks: Mapping[str, TaskNote]) -> tuple[str, ...]:
    """Return the kinds of the tasks of a model, by which other libraries know it."""
    return tuple(note.kind or name for name, note in tasks.items())


def config_from_hugging_face(theirs: dict[str, Any]) -> EncoderConfig:
    """Return our description of their network."""
    name = theirs.get("model_type")
    if name == OWN:
        return _from_own_words(theirs)
    family = ALIASES.get(str(name), str(name))
    if family not in DIALECTS:
        known = ", ".join([*DIALECTS, *ALIASES])
        raise ArtifactError(
            f"model_type {name!r} is of no family that is known here; known are {known}"
        )
    dialect = DIALECTS[family]
    theirs = {**dialect.defaults, **{k: value for k, value in theirs.items() if value is not None}}
    for key, value in dialect.expected.items():
        if theirs.get(key, value) != value:
            raise ArtifactError(
                f"{key} is {theirs[key]!r}; of this family only networks with {value!r} are known"
            )
    fields = {ours: theirs[key] for key, ours in dialect.keys.items() if key in theirs}
    activation = fields.get("activation", "gelu")
    if activation not in ACTIVATIONS:
        raise ArtifactError(
            f"the activation {activation!r} is not known; known are {', '.join(ACTIVATIONS)}"
        )
    fields["activation"] = ACTIVATIONS[activation]
    if "max_positions" in fields:
        fields["max_positions"] -= dialect.skipped_places(pad_id_of(theirs))
    try:
        return EncoderConfig(
            family=family,  # type: ignore[arg-type]
            **{**fields, **dialect.fixed, **dialect.read(theirs)},
        )
    except (TypeError, ValueError, UsageError) as error:
        raise ArtifactError(
            f"the config describes no network that can be built: {error}"
        ) from error


def config_to_hugging_face(
    config: EncoderConfig, *, tasks: Mapping[str, TaskNote], specials: SpecialIds
) -> dict[str, Any]:
    """Return their description of our network and its tasks."""
    dialect = DIALECTS[config.family]
    theirs = their_config(config, pad_id=specials.pad)
    theirs |= {"architectures": [dialect.classes[kinds_of(tasks)]]}
    theirs |= {"bos_token_id": specials.first, "eos_token_id": specials.separator}
    theirs |= {"cls_token_id": specials.first, "sep_token_id": specials.separator}
    for kind, note in zip(kinds_of(tasks), tasks.values(), strict=True):
        theirs |= _labels_to_hugging_face(kind, note.labels)
        theirs |= _options_to_hugging_face(note.options, dialect)
    return theirs


def tasks_from_hugging_face(theirs: dict[str, Any]) -> dict[str, TaskNote]:
    """Return the tasks by the class that saved a folder."""
    dialect = DIALECTS[ALIASES.get(theirs["model_type"], theirs["model_type"])]
    suffix = _class_suffix((theirs.get("architectures") or [""])[0])
    names = next((n for n, known in dialect.classes.items() if _class_suffix(known) == suffix), ())
    known = (_kind_of_texts(theirs) if name in OF_TEXTS else name for name in names)
    return {name: _note(name, theirs, dialect) for name in known if name is not None}


def pad_id_of(theirs: dict[str, Any]) -> int:
    """Return the id of the padding piece."""
    given = theirs.get("pad_token_id")
    if given is not None:
        return int(given)
    family = ALIASES.get(theirs["model_type"], theirs["model_type"])
    return DIALECTS[family].defaults.get("pad_token_id", 0) if family in DIALECTS else 0


def own_words(config: EncoderConfig) -> dict[str, Any]:
    """Return the config as JSON under our own names."""
    told: dict[str, Any] = {"model_type": OWN, **asdict(config)}
    if config.positions is not None:
        kinds = {made: kind for kind, made in POSITIONS.items()}
        told["positions"] = {"kind": kinds[type(config.positions)], **told["positions"]}
    return told


def _from_own_words(ours: dict[str, Any]) -> EncoderConfig:
    fields = {name: value for name, value in ours.items() if name != "model_type"}
    positions, made = fields.pop("positions"), None
    if positions is not None:
        made = POSITIONS[positions["kind"]](**{k: v for k, v in positions.items() if k != "kind"})
    for name, kind in (("local", Local), ("sharing", Sharing)):
        if fields[name] is not None:
            fields[name] = kind(**fields[name])
    return EncoderConfig(**fields, positions=made)


def their_config(config: EncoderConfig, *, pad_id: int) -> dict[str, Any]:
    """Return their description of our network alone."""
    dialect = DIALECTS[config.family]
    theirs = {key: getattr(config, ours) for key, ours in dialect.keys.items()}
    for key, ours in dialect.keys.items():
        if ours == "activation":
            theirs[key] = next(k for k, known in ACTIVATIONS.items() if known == config.activation)
        if ours == "max_positions":
            theirs[key] += dialect.skipped_places(pad_id)
    return {
        "model_type": config.family,
        **theirs,
        **dialect.expected,
        **dialect.write(config),
        "pad_token_id": pad_id,
        "dtype": "float32",
    }


def _labels_to_hugging_face(kind: str, labels: tuple[str, ...]) -> dict[str, Any]:
    if kind not in (*OF_TEXTS, "tag"):
        return {}
    named = (kind,) if kind == "score" else labels  # a number has a name there, too
    told: dict[str, Any] = {
        "id2label": {str(index): label for index, label in enumerate(named)},
        "label2id": {label: index for index, label in enumerate(named)},
    }
    return told | ({"problem_type": PROBLEMS[kind]} if kind in PROBLEMS else {})


def _options_to_hugging_face(options: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    theirs: dict[str, Any] = {}
    if options.get("tied") is False:
        theirs["tie_word_embeddings"] = False
    if options.get("dropout") is not None:
        theirs[dialect.head_dropout] = options["dropout"]
    for name, ours in dialect.poolings.items():
        if options.get("pooling") == ours:
            theirs["classifier_pooling"] = name
    return theirs


def _kind_of_texts(theirs: dict[str, Any]) -> str | None:
    """Return which task on the vector of a text is meant; None: one that is not known here."""
    count = len(_labels(theirs))
    said = theirs.get("problem_type")
    if said is None:
        return "score" if count == 1 else "classify"
    kinds = {problem: kind for kind, problem in PROBLEMS.items()}
    kind = kinds.get(said, "classify" if said == "single_label_classification" else None)
    fits = {"score": count == 1, "classify": count > 1, "multilabel": count > 0}
    return kind if kind and fits[kind] else None


def _note(name: str, theirs: dict[str, Any], dialect: Dialect) -> TaskNote:
    """Return labels and options of a task."""
    if name == "fill_mask":
        return TaskNote(options={"tied": theirs.get("tie_word_embeddings") is not False})
    if name == "answer" and (count := _num_labels(theirs)) != 2:
        raise ValueError(f"num_labels is {count}; answers have two ends, so only 2 is known")
    if name not in (*OF_TEXTS, "choose", "tag"):
        return TaskNote()
    labels = () if name in ("score", "choose") else _labels(theirs)
    said = theirs.get("classifier_pooling") if dialect.poolings else None
    if said is not None and said not in dialect.poolings:
        known = ", ".join(dialect.poolings)
        raise ValueError(f"classifier_pooling {said!r} is not known; known are {known}")
    pooling = None if said is None else dialect.poolings[said]
    dropout = theirs.get(dialect.head_dropout)
    if dropout is not None and not (isinstance(dropout, float | int) and 0 <= dropout < 1):
        raise ValueError(f"{dialect.head_dropout} is {dropout!r}; it must lie from 0 to below 1")
    if name == "tag":
        return TaskNote(labels, {"dropout": dropout})
    return TaskNote(labels, {"pooling": pooling, "dropout": dropout})


def _labels(theirs: dict[str, Any]) -> tuple[str, ...]:
    """Return the labels in the order of their numbers, or numbered ones where none are named."""
    labels = theirs.get("id2label") or {n: f"LABEL_{n}" for n in range(_num_labels(theirs))}
    keys = [str(number) for number in range(len(labels))]
    by_key = {str(key): str(label) for key, label in labels.items()}
    if by_key.keys() != set(keys) or len({*by_key.values()}) < len(labels):
        raise ValueError(f"id2label {labels} does not number different labels from 0 on")
    return tuple(by_key[key] for key in keys)


def _num_labels(theirs: dict[str, Any]) -> int:
    return len(theirs.get("id2label") or ()) or theirs.get("num_labels", 2)


def _class_suffix(architecture: str) -> str:
    """Return `ForMaskedLM` of `BertForMaskedLM`: the same task in every family."""
    return architecture[architecture.find("For") :] if "For" in architecture else ""
