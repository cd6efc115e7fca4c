"""The kinds of tasks: adding one is a file beside this and a row here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.data.examples import TextExample
from bertworks.data.forms import FORMS
from bertworks.tasks.answer import FindAnswer, learn_answers
from bertworks.tasks.choose import Choose, learn_choices
from bertworks.tasks.classify import Classify, learn_labels
from bertworks.tasks.embed import Embed, learn_vectors
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.generate import Generate, learn_texts
from bertworks.tasks.intent_slots import IntentSlots, learn_intents
from bertworks.tasks.multilabel import learn_label_sets, make_multilabel
from bertworks.tasks.relate import Relate
from bertworks.tasks.replaced_token import ReplacedToken
from bertworks.tasks.score import Score, learn_scale
from bertworks.tasks.tag import Tag, learn_tags
from bertworks.tasks.task import Options, Task, Tempered

NEXT_SENTENCE_LABELS = ("next", "random")  # in the order of BERT's two logits
SENTENCE_ORDER_LABELS = ("in order", "swapped")  # in the order of ALBERT's two logits


@dataclass(frozen=True)
class Kind:
    """What is known of a kind of task before there is one."""

    make: Callable[..., Task]  # of labels, a name and options
    form: str = "label"  # of its examples
    other_forms: tuple[str, ...] = ()  # that its files may have as well
    learn: Callable[..., Options] | None = None  # what examples and settings tell to `make`
    settings: tuple[str, ...] = ()  # the flags of finetune that `learn` takes
    plain: tuple[str, ...] = ()  # those that are options of the task as they are
    # The options that a head keeps however often it is trained, each as long as those before it do.
    of_head: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()  # the options of which what is not said again stays as it was
    reads_pairs: bool = False  # whether a single text among pairs is a mistake

    def forms(self, *, scored: bool = False) -> tuple[str, ...]:
        """Return the forms that a file for it may have, or one that answers are scored by."""
        known = (self.form, *self.other_forms)
        return tuple(form for form in known if not scored or FORMS[form].gold)


def _pair_order(kind: str, labels: tuple[str, ...]) -> Kind:
    """Return a kind of pre-training: which of two texts comes first, or whether they belong."""
    return Kind(lambda given, **more: Classify(labels, kind=kind, **more))


KINDS: dict[str, Kind] = {
    "fill_mask": Kind(lambda labels, **more: FillMask(**more)),
    "next_sentence": _pair_order("next_sentence", NEXT_SENTENCE_LABELS),
    "sentence_order": _pair_order("sentence_order", SENTENCE_ORDER_LABELS),
    "replaced_token": Kind(lambda labels, **more: ReplacedToken(**more)),
    "classify": Kind(
        partial(Classify, kind="classify"),
        learn=learn_labels,
        settings=("class_weights", "focal"),
        plain=("pooling",),
    ),
    "match": Kind(
        partial(Classify, kind="match"),
        learn=learn_labels,
        settings=("class_weights", "focal"),
        plain=("pooling",),
        reads_pairs=True,
    ),
    "multilabel": Kind(
        make_multilabel,
        form="labels",
        learn=learn_label_sets,
        settings=("class_weights", "focal"),
        plain=("pooling",),
        of_head=("prior",),
    ),
    "score": Kind(
        lambda labels, **more: Score(**more),
        form="score",
        learn=learn_scale,
        plain=("pooling",),
        of_head=("mean", "deviation"),
    ),
    "aspect": Kind(
        partial(Classify, kind="aspect"),
        form="aspect",
        learn=learn_labels,
        settings=("class_weights", "focal"),
        plain=("pooling",),
    ),
    "relate": Kind(
        Relate,
        form="relation",
        learn=learn_labels,
        settings=("class_weights", "focal"),
    ),
    "tag": Kind(Tag, form="tags", learn=learn_tags, settings=("crf",), of_head=("words", "crf")),
    "intent_slots": Kind(IntentSlots, form="intent_slots", learn=learn_intents, of_head=("words",)),
    "answer": Kind(
        lambda labels, **more: FindAnswer(**more),
        form="answers",
        learn=learn_answers,
        settings=("stride", "max_answer"),
    ),
    "choose": Kind(
        lambda labels, **more: Choose(**more),
        form="choice",
        learn=learn_choices,
        plain=("stride", "pooling"),
    ),
    "generate": Kind(
        lambda labels, **more: Generate(**more),
        form="target",
        learn=learn_texts,
        settings=(
            "decoder",
            "decoder_layers",
            "beams",
            "length_penalty",
            "no_repeat",
            "shortest_reply",
            "longest_reply",
        ),
        of_head=("decoder", "decoder_layers"),
        tables=("writing",),
    ),
    "embed": Kind(
        Embed,
        "score",
        ("label", "texts"),
        learn=learn_vectors,
        settings=("vector_loss", "vector_temperature", "symmetric", "same"),
        plain=("pooling",),
        reads_pairs=True,
    ),
}
OF_FORM = {  # the kind that a form speaks of by itself
    "label": "classify",
    "labels": "multilabel",
    "score": "score",
    "aspect": "aspect",
    "relation": "relate",
    "tags": "tag",
    "intent_slots": "intent_slots",
    "answers": "answer",
    "choice": "choose",
    "target": "generate",
}


def make_task(
    kind: str, labels: Sequence[str] = (), *, name: str | None = None, **options: Any
) -> Task:
    """Return a task of this kind over these labels, with the options that were saved with it."""
    if kind not in KINDS:
        raise UsageError(f"there is no task {kind!r}; the tasks are {', '.join(KINDS)}")
    plain = {key: value for key, value in options.items() if key != "temperature"}
    try:
        task = KINDS[kind].make(tuple(labels), name=name or kind, **plain)
    except TypeError as error:
        raise UsageError(f"the task {kind} cannot be made with {options}: {error}") from error
    # Folders from before there were temperatures have none.
    known = options.get("temperature")
    return task.with_temperature(known) if known and isinstance(task, Tempered) else task


def takes(kind: str, setting: str) -> bool:
    """Tell whether tasks of a kind have a setting."""
    return setting in KINDS[kind].settings + KINDS[kind].plain


def learn_task(
    kind: str,
    examples: Sequence[Any],
    *,
    name: str | None = None,
    before: Task | None = None,
    **settings: Any,
) -> Task:
    """Return the task that examples are for: they tell its labels, and perhaps more.

    Where a task for the same labels goes on, their order and all else is as it was before.
    """
    row = KINDS.get(kind)
    if row is None or row.learn is None:
        known = ", ".join(name for name, row in KINDS.items() if row.learn)
        raise UsageError(f"there is no task {kind!r} to fine-tune on; the tasks are {known}")
    for setting in settings:
        if not takes(kind, setting):
            flag = "--" + setting.replace("_", "-")
            raise UsageError(f"the task {kind} has no setting {flag}; leave it out")
    told = {name: value for name, value in settings.items() if name in row.settings}
    learned = row.learn(examples, **told)
    if before and before.kind == kind:
        learned = _ordered(learned, before, partial(row.learn, examples, **told))
    learned |= {name: settings[name] for name in row.plain if name in settings}
    if before and (before.kind, before.labels) == (kind, tuple(learned.get("labels", ()))):
        kept = _of_head(row, before.options, settings)
        kept |= {name: before.options[name] | learned[name] for name in row.tables}
        learned = {**before.options, **learned, **kept}
    return make_task(kind, name=name, **learned)


def _of_head(row: Kind, before: Options, settings: Options) -> Options:
    """Return what a head keeps: each option until one that is said again to be otherwise."""
    kept: Options = {}
    for option in row.of_head:
        if option not in settings:
            kept[option] = before[option]
        elif settings[option] != before[option]:
            break
    return kept


def _ordered(learned: Options, before: Task, learn: Callable[..., Options]) -> Options:
    """Return what is learned with the same labels in the order that a head has them in."""
    found = tuple(learned.get("labels", ()))
    if found == before.labels or sorted(found) != sorted(before.labels):
        return learned
    again = learn(order=before.labels)
    if tuple(again["labels"]) == before.labels:
        shown = ", ".join(before.labels[:10])
        say(f"task {before.name}: its labels stay in the order of the model: {shown}")
    return again


def guess_kind(form: str, examples: Sequence[Any]) -> str:
    """Return the task that the form and the columns of all examples speak of."""
    is_pair = {isinstance(e, TextExample) and e.text_b is not None for e in examples}
    if len(is_pair) > 1:
        odd = next(e for e in examples if (e.text_b is None) != (examples[0].text_b is None))
        raise DataError(
            f"line {odd.line}: some rows have a text_b and some have none; name the --task"
        )
    return "match" if form == "label" and is_pair == {True} else OF_FORM[form]
