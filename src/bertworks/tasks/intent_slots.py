"""Intent and slots: an utterance -> what is wanted, and the parts of it that say what exactly."""

from array import array
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TaggedExample
from bertworks.data.packing import Features, Goal
from bertworks.data.tag_schemes import Scheme, find_runs, find_spans
from bertworks.model.config import EncoderConfig
from bertworks.model.heads import PlaceHead
from bertworks.tasks.chances import softmax
from bertworks.tasks.claims import Claims
from bertworks.tasks.statistic import Statistic, mean_of
from bertworks.tasks.tagged_words import (
    FindSpans,
    LabelNumbers,
    TagScores,
    TagSet,
    TextWords,
    cut_windows,
    join_rows,
    kind_of_words,
    learn_tag_set,
    words_to_ask,
    words_to_learn,
)
from bertworks.tasks.task import Answer, Options, Parts, Rows, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer


class IntentSlots:
    """Utterance -> one intent, a tag for each word, and the slots that the tags speak of.

    The labels are the intents and then the tags. Every window asks for the intent at its first
    token and for tags at its words; a row of logits has a column for each label, and only the
    columns of what it is asked for count.
    """

    kind = "intent_slots"

    def __init__(
        self,
        labels: Sequence[str],
        *,
        name: str = kind,
        num_intents: int = 1,
        scheme: Scheme | None = None,
        words: TextWords = "text",
        dropout: float | None = None,
    ) -> None:
        self.name = name
        self.labels = tuple(labels)
        self.intents = self.labels[:num_intents]
        self.tag_set = TagSet(self.labels[num_intents:], scheme, words)
        self.options: Options = {
            "num_intents": num_intents,
            "scheme": self.tag_set.scheme,
            "words": words,
            "dropout": dropout,
        }
        self._intent_numbers = LabelNumbers(self.intents, "intent")

    def blinded(self, example: TaggedExample) -> TaggedExample:
        """Return an example whose words its spans do not tell."""
        return self.tag_set.blinded(example)

    def features(
        self, example: TaggedExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Ask for the intent in every window, and for the tag of every word in one."""
        words = words_to_learn(example, self.tag_set.words)
        tags = self.tag_set.values(example, words)
        tags = np.where(tags == IGNORE, IGNORE, tags + len(self.intents))
        intent = IGNORE if example.intent is None else self._intent_numbers.of(example.intent)
        made = []
        for number, window in enumerate(cut_windows(example, words, tokenizer, longest=longest)):
            goal = Goal(
                np.append(intent, tags[window.words]),
                np.append(0, window.at),
                weight=2.0 * len(window.at),  # the intent as much as all words together
                group=number,
            )
            goals = {self.name: goal}
            made.append(Features(window.tokens, window.segments, goals, example.line, window.words))
        return made

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer on the vectors of the first token and of the words."""
        return PlaceHead(
            config,
            target=self.name,
            num_labels=len(self.labels),
            dropout=self.options["dropout"],
        )

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy of tags, and of intents as often as there are words."""
        assert target.groups is not None
        values, num_intents = target.values, len(self.intents)
        is_intent = (values < num_intents) & (values != IGNORE)
        columns = torch.arange(logits.shape[1], device=values.device) < num_intents
        asked = logits.float().masked_fill(is_intent[:, None] != columns, -torch.inf)
        each = functional.cross_entropy(asked, values, ignore_index=IGNORE, reduction="none")
        if target.smoothing:
            own = is_intent[:, None] == columns
            even = -asked.log_softmax(-1).masked_fill(~own, 0.0).sum(1) / own.sum(1)
            each = each + target.smoothing * (even * (values != IGNORE) - each)
        num_words = target.groups.bincount()[target.groups] - 1
        return (each * torch.where(is_intent, num_words, 1)).sum()

    def decode(
        self,
        example: TaggedExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Return the likeliest intent by the mean of the windows, the tags and their slots."""
        num_intents = len(self.intents)
        first = np.stack([rows[0, :num_intents] for rows in logits])
        chances = softmax(first.mean(axis=0, dtype=np.float64))
        rows = join_rows(
            [rows[1:, num_intents:] for rows in logits], [window.note for window in windows]
        )
        tagged = self.tag_set.decode(example.text, words_to_ask(example, self.tag_set.words), rows)
        return {
            "intent": self.intents[int(chances.argmax())],
            "probability": float(chances.max()),
            "tags": tagged.tags,
            "tokens": tagged.tokens,
            "slots": tagged.spans(slots_of(self.tag_set)),
        }

    def scorer(self) -> "UtteranceScorer":
        """Return what counts utterances of which all is right."""
        return UtteranceScorer(self.tag_set)


class UtteranceScorer:
    """Counts utterances of which intent and all tags are right, intents, and slots."""

    def __init__(self, tag_set: TagSet) -> None:
        self._tag_set = tag_set
        self._slots = TagScores(slots_of(tag_set))
        self._is_whole, self._is_intent = array("b"), array("b")

    def add(self, example: TaggedExample, answer: Answer) -> Verdict:
        """Count one utterance."""
        words = words_to_ask(example, self._tag_set.words)
        gold = self._tag_set.gold(example, words) or []
        beyond = self._tag_set.beyond(example, words)
        is_intent = answer["intent"] == example.intent
        is_whole = is_intent and answer["tags"] == gold and not beyond
        parts = self._slots.add(gold, answer["tags"], beyond=beyond)
        parts |= {"whole": is_whole, "intent": is_intent}
        self._count(parts)
        sought, given = (
            " ".join([str(intent), *tags])
            for intent, tags in ((example.intent, gold), (answer["intent"], answer["tags"]))
        )
        chance = answer["probability"]
        claims = Claims.each([chance], [is_intent])
        return Verdict(sought, given, float(is_whole), chance, parts, claims, example.intent)

    def take(self, parts: Parts) -> None:
        """Count an utterance by its parts."""
        self._slots.take(parts)
        self._count(parts)

    def metrics(self) -> dict[str, float]:
        """Return the shares of right utterances and intents, and the scores of slots."""
        return {name: one.value for name, one in self.statistics().items()}

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each utterance adds."""
        return {
            "whole_accuracy": mean_of(np.array(self._is_whole)),
            "intent_accuracy": mean_of(np.array(self._is_intent)),
            **{f"slot_{name}": value for name, value in self._slots.statistics().items()},
        }

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why."""
        return self._slots.lacking

    @property
    def note(self) -> str:
        """How many spans could not be found."""
        return self._slots.note

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return the scores of each kind of slot."""
        return self._slots.by_label()

    def label_statistics(self) -> dict[str, Statistic]:
        """Return the F1 of each kind of slot."""
        return self._slots.label_statistics()

    def _count(self, parts: Parts) -> None:
        self._is_whole.append(parts["whole"])
        self._is_intent.append(parts["intent"])


def slots_of(tag_set: TagSet) -> FindSpans:
    """Return what finds slots: where tags do not speak of spans, each run of equal ones is one."""
    return find_runs if tag_set.scheme == "plain" else find_spans


def learn_intents(examples: Sequence[TaggedExample], *, order: Sequence[str] = ()) -> Options:
    """Return the intents and tags in use, and how the tags speak of slots."""
    found = {example.intent for example in examples if example.intent is not None}
    intents = list(order[: len(found)]) if found == {*order[: len(found)]} else sorted(found)
    if len(intents) < 2:
        raise DataError(
            f"has one intent only ({', '.join(intents) or 'none'}), so there is nothing to tell "
            "apart; add others, or name the --task tag"
        )
    tags, scheme = learn_tag_set(examples, order[len(intents) :])
    return {
        "labels": [*intents, *tags],
        "num_intents": len(intents),
        "scheme": scheme,
        "words": kind_of_words(examples),
    }
