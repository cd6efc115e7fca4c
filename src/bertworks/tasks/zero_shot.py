"""Zero-shot: a text and the names of labels -> one of them, by a model that never learned them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Literal, Self

import numpy as np
from torch import Tensor, nn

from bertworks.core.batch import Target
from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import is_unicode
from bertworks.core.pieces import IGNORE
from bertworks.core.scripts import HAN, script_of
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import cut_text
from bertworks.model.config import EncoderConfig
from bertworks.tasks.chances import likeliest_label, log_softmax
from bertworks.tasks.classify import Classify, LabelScorer
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.task import Answer, Rows, Task
from bertworks.tokenizer.tokenizer import Tokenizer

Way = Literal["entailment", "cloze", "vectors"]
TEMPLATES: dict[Way, str] = {
    "entailment": "This text is about {label}.",
    "cloze": "{text} This text is about [MASK].",
    "vectors": "{label}",
}
CHINESE: dict[Way, str] = {  # where every label is described in Chinese
    "entailment": "这段话的主题是{label}。",
    "cloze": "{text}这段话的主题是[MASK]。",
    "vectors": "{label}",
}
SLOTS = {"entailment": ("{label}",), "cloze": ("{text}", "[MASK]"), "vectors": ("{label}",)}
ENTAILED = ("entailment", "entails", "entailed", "same", "true", "yes", "1")  # the surest first
SHARPNESS = 20.0  # of the chances that cosines stand for


class Choice:
    """The labels to choose from, what describes each, and how the chances of all make an answer."""

    def __init__(self, described: Mapping[str, str]) -> None:
        if len(described) < 2:
            raise UsageError(f"zero-shot needs two labels or more; got {len(described)}")
        self.labels = tuple(described)
        self.descriptions = tuple(described.values())
        self._prior = np.zeros(len(described))  # what is taken off each score

    @classmethod
    def of(cls, labels: Sequence[str] | Mapping[str, str]) -> Self:
        """Make it of names, or of a table of names and descriptions."""
        if isinstance(labels, str):
            raise UsageError("zero-shot takes a list of labels; put them into a list")
        pairs = labels.items() if isinstance(labels, Mapping) else zip(labels, labels, strict=True)
        described: dict[str, str] = {}
        for name, description in pairs:
            _refuse_unsaid(name, f"the label {name!r}")
            _refuse_unsaid(description, f"the description of the label {name!r}")
            if name in described:
                raise UsageError(f"the label {name!r} is given twice; give it once")
            if description in described.values():
                raise UsageError(
                    f"the label {name!r} is described as another one is; describe them differently"
                )
            described[name] = description
        return cls(described)

    @property
    def is_chinese(self) -> bool:
        """Whether every label is described in Chinese, so that a text about it is too."""
        return all(script_of(text) == HAN for text in self.descriptions)

    def require_different(self, tokenizer: Tokenizer) -> None:
        """Stop where a vocabulary cannot tell two of the labels apart."""
        _refuse_alike(self.labels, tokenizer.ids_of(self.descriptions))

    def without_prior(self, answer: Answer) -> Self:
        """Return a choice that takes off how likely each label is for a text that says nothing."""
        changed = copy(self)
        changed._prior = np.log(np.maximum(list(answer["probabilities"].values()), 1e-12))
        return changed

    def rejudge(self, answer: Answer) -> Answer:
        """Return an answer that was given without the prior as it is with it."""
        chances = np.array(list(answer["probabilities"].values()))
        return self.answer(np.log(np.maximum(chances, np.finfo(np.float64).tiny)))

    def answer(self, scores: np.ndarray) -> Answer:
        """Name the label with the highest score; chances are the softmax of all."""
        return likeliest_label(self.labels, scores - self._prior)

    def id_of(self, label: str) -> int:
        """Return the number of a label."""
        if label not in self.labels:
            raise DataError(
                f"the label {label!r} is not among those to choose from "
                f"({', '.join(self.labels[:10])}); name it too, or remove the row"
            )
        return self.labels.index(label)


class _Judged:
    """What both ways have in common that ask another task of the model, with its very head."""

    kind = "classify"

    def __init__(self, choice: Choice, judge: Task) -> None:
        self.choice, self.labels = choice, choice.labels
        self.name, self.options = judge.name, dict[str, Any]()
        self._judge = judge

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make the head of the judge."""
        return self._judge.head(config)

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the judge's loss."""
        return self._judge.loss(logits, target)

    def scorer(self) -> LabelScorer:
        """Return what counts right labels."""
        return LabelScorer(self.choice)


class ByEntailment(_Judged):
    """Each label as a sentence that the text may entail, judged by a model of pairs."""

    def __init__(self, choice: Choice, judge: Classify, *, template: str | None = None) -> None:
        super().__init__(choice, judge)
        self._entailed = judge.labels.index(entailed_label(judge))
        pattern = _checked(template, "entailment", choice)
        self._claims = [pattern.replace("{label}", text) for text in choice.descriptions]

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Return the windows of the text with each claim."""
        _refuse_pair(example)
        return [
            Features(window.tokens, window.segments, window.goals, window.example, label)
            for label, claim in enumerate(self._claims)
            for window in self._judge.features(
                TextExample(example.text, claim, line=example.line), tokenizer, longest=longest
            )
        ]

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Compare how surely each claim is entailed."""
        owners = np.array([window.note for window in windows])
        rows = np.concatenate(logits).astype(np.float64)
        means = np.stack([rows[owners == label].mean(axis=0) for label in range(len(self.labels))])
        sure = means / self._judge.options["temperature"]
        return self.choice.answer(log_softmax(sure)[:, self._entailed])


class ByCloze(_Judged):
    """Each label as what may stand behind the masks of a pattern, judged by a fill-mask model."""

    def __init__(self, choice: Choice, judge: FillMask, *, template: str | None = None) -> None:
        super().__init__(choice, judge)
        pattern = _checked(template, "cloze", choice)
        self._parts = [part for part in re.split(r"(\{text\}|\[MASK\])", pattern) if part]
        self._cut: tuple[Tokenizer, list[list[int]]] | None = None  # the labels, once for all texts

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Return the windows of the text in the pattern, for each number of masks."""
        _refuse_pair(example)
        (text,) = tokenizer.ids_of([example.text])
        lengths = {len(pieces) for pieces in self._label_pieces(tokenizer)}
        return [
            window
            for num_masks in sorted(lengths)
            for window in self._windows(text, num_masks, tokenizer, longest, example.line)
        ]

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Compare the mean log-probability of each label's pieces behind as many masks."""
        by_length: dict[int, list[np.ndarray]] = {}
        for window, rows in zip(windows, logits, strict=True):
            by_length.setdefault(window.note, []).append(log_softmax(rows.astype(np.float64)))
        means = {length: np.mean(rows, axis=0) for length, rows in by_length.items()}
        scores = [
            means[len(pieces)][np.arange(len(pieces)), pieces].mean()
            for pieces in self._label_pieces(tokenizer)
        ]
        return self.choice.answer(np.array(scores))

    def _label_pieces(self, tokenizer: Tokenizer) -> list[list[int]]:
        if self._cut is None or self._cut[0] is not tokenizer:
            self._cut = (tokenizer, self._cut_labels(tokenizer))
        return self._cut[1]

    def _cut_labels(self, tokenizer: Tokenizer) -> list[list[int]]:
        # Some tokenizers have other pieces for a word behind a space.
        place = self._parts.index("[MASK]")
        space = " " if place and self._parts[place - 1][-1:] == " " else ""
        found = tokenizer.ids_of([space + text for text in self.choice.descriptions])
        if not all(found):
            raise UsageError(
                "one of the labels has no pieces in the vocabulary; choose other words"
            )
        _refuse_alike(self.labels, found)
        return found

    def _windows(
        self, text: list[int], num_masks: int, tokenizer: Tokenizer, longest: int, line: int
    ) -> list[Features]:
        parts: list[list[int] | None] = []  # None: the text
        for number, part in enumerate(self._parts):
            if part == "{text}":
                parts.append(None)
            elif part == "[MASK]":
                parts.append([tokenizer.specials.mask] * num_masks)
            else:
                before_mask = self._parts[number + 1 : number + 2] == ["[MASK]"]
                parts.append(tokenizer.ids_of([part.rstrip() if before_mask else part])[0])
        taken = sum(len(part) for part in parts if part is not None)
        room = longest - tokenizer.specials.num_added(pair=False) - taken
        if room < 1:
            raise UsageError(
                f"the template with its longest label takes {taken} pieces, which leaves no room "
                f"for a text in {longest}; shorten them"
            )
        found = []
        for window in cut_text(np.array(text, dtype=np.int64), room=room):
            pieces = np.concatenate([window if part is None else part for part in parts])
            tokens, segments = join_pieces(pieces.astype(np.int64), None, tokenizer.specials)
            at = _masks_of(parts, len(window), tokenizer.specials.mask)
            goal = Goal(np.full(num_masks, IGNORE), at)
            found.append(Features(tokens, segments, {self.name: goal}, line, num_masks))
        return found


class ByVectors:
    """Each label as a text, judged by the cosine of its vector and the text's."""

    kind = "classify"
    name = "vectors"

    def __init__(self, choice: Choice, *, template: str | None = None) -> None:
        self.choice, self.labels = choice, choice.labels
        pattern = _checked(template, "vectors", choice)
        self.texts = [pattern.replace("{label}", text) for text in choice.descriptions]

    def answer(self, cosines: np.ndarray) -> Answer:
        """Name the label whose text lies closest."""
        return self.choice.answer(SHARPNESS * cosines.astype(np.float64))

    def scorer(self) -> LabelScorer:
        """Return what counts right labels."""
        return LabelScorer(self.choice)


def make_zero_shot(
    tasks: Sequence[Task], choice: Choice, *, by: Way | None = None, template: str | None = None
) -> "ByEntailment | ByCloze | ByVectors":
    """Return the task that chooses in a way, or in the best way that the tasks of a model allow."""
    if by is not None and by not in TEMPLATES:
        raise UsageError(f"labels are told by {', '.join(TEMPLATES)}, not by {by!r}")
    judges = [task for task in tasks if isinstance(task, Classify)]
    fillers = [task for task in tasks if isinstance(task, FillMask)]
    judges.sort(key=lambda task: not is_judge_of_entailment(task))
    usual: Way = "cloze" if fillers else "vectors"
    way = by or ("entailment" if any(map(is_judge_of_entailment, judges)) else usual)
    if way == "vectors":
        return ByVectors(choice, template=template)
    if way == "cloze" and fillers:
        return ByCloze(choice, fillers[0], template=template)
    if way == "entailment" and judges:
        return ByEntailment(choice, judges[0], template=template)
    head = "fills masks" if way == "cloze" else "judges pairs of texts"
    raise UsageError(
        f"no task head of this model {head}, so labels cannot be told by {way}; choose vectors"
    )


def single_texts(examples: Iterable[Any]) -> tuple[list[Any], list[tuple[Any, DataError]]]:
    """Return the examples of one text each, and the others with what is wrong with them."""
    single, refused = [], []
    for example in examples:
        try:
            _refuse_pair(example)
            single.append(example)
        except DataError as error:
            refused.append((example, error))
    return single, refused


def entailed_label(judge: Task) -> str:
    """Return the label of a model of pairs by which the second text follows from the first."""
    by_name = {label.lower(): label for label in judge.labels}
    found = next((by_name[name] for name in ENTAILED if name in by_name), None)
    if found is None:
        raise UsageError(
            f"none of the labels {', '.join(judge.labels)} says that one text entails the other; "
            f"it should be called {ENTAILED[0]}"
        )
    return found


def is_judge_of_entailment(task: Task) -> bool:
    """Tell whether a task names the label of entailment as such."""
    return isinstance(task, Classify) and ENTAILED[0] in map(str.lower, task.labels)


def _refuse_unsaid(text: Any, what: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{what} is no string but of type {type(text).__name__}; write it as text")
    if not text.strip():
        raise UsageError(f"{what} is empty; give it a word, or leave it out")
    if not is_unicode(text):
        raise UsageError(f"{what} is not Unicode, for it holds half of a surrogate pair; mend it")


def _checked(template: str | None, way: Way, choice: Choice) -> str:
    usual = (CHINESE if choice.is_chinese else TEMPLATES)[way]
    pattern = usual if template is None else template
    for slot in SLOTS[way]:
        if pattern.count(slot) != 1 or not is_unicode(pattern):
            raise UsageError(f"the template {pattern!r} must hold {slot} once, such as {usual!r}")
    return pattern


def _refuse_alike(labels: Sequence[str], pieces: Sequence[Sequence[int]]) -> None:
    seen: dict[tuple[int, ...], str] = {}
    for label, own in zip(labels, map(tuple, pieces), strict=True):
        if own in seen:
            raise UsageError(
                f"the labels {seen[own]!r} and {label!r} are the same pieces of the vocabulary; "
                "describe them in other words, or take a model that knows these"
            )
        seen[own] = label


def _refuse_pair(example: TextExample) -> None:
    if example.text_b is not None:
        raise DataError("zero-shot reads one text, not a pair; put both into one text")


def _masks_of(parts: Sequence[list[int] | None], text_length: int, mask: int) -> np.ndarray:
    """Return the places of the pattern's masks; those in the text itself are not asked for."""
    place = 1  # the first piece is [CLS]
    for part in parts:
        if part is not None and mask in part:
            return np.arange(place, place + len(part))
        place += text_length if part is None else len(part)
    raise AssertionError("the pattern has no mask")
