"""Tag: the words of a text -> a tag for each, and the spans that the tags speak of."""

import operator
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TaggedExample
from bertworks.data.packing import Features, Goal
from bertworks.data.tag_schemes import Scheme, find_spans
from bertworks.model.chain import chain_loss
from bertworks.model.config import EncoderConfig
from bertworks.model.heads import ChainHead, PlaceHead
from bertworks.tasks.claims import Claims
from bertworks.tasks.statistic import Statistic
from bertworks.tasks.tagged_words import (
    TagScores,
    TagSet,
    TextWords,
    cut_windows,
    join_rows,
    kind_of_words,
    learn_tag_set,
    single_words,
    words_to_ask,
    words_to_learn,
)
from bertworks.tasks.task import Answer, Options, Parts, Rows, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer


class Tag:
    """Text or words -> the tags of the words; of tags that speak of spans, these too."""

    kind = "tag"

    def __init__(
        self,
        labels: Sequence[str],
        *,
        name: str = kind,
        scheme: Scheme | None = None,
        crf: bool = False,
        words: TextWords = "text",
        dropout: float | None = None,
    ) -> None:
        self.name = name
        self.labels = tuple(labels)
        self.tag_set = TagSet(self.labels, scheme, words)
        self.options: Options = {
            "scheme": self.tag_set.scheme,
            "crf": crf,
            "words": words,
            "dropout": dropout,
        }

    def blinded(self, example: TaggedExample) -> TaggedExample:
        """Return an example whose words its spans do not tell."""
        return self.tag_set.blinded(example)

    def features(
        self, example: TaggedExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Ask for the tag of every word at its first piece, in one window each."""
        words = words_to_learn(example, self.tag_set.words)
        values = self.tag_set.values(example, words)
        made = []
        for number, window in enumerate(cut_windows(example, words, tokenizer, longest=longest)):
            goal = Goal(values[window.words], window.at)
            if self.options["crf"]:  # words of a window count together, each as much as alone
                goal = Goal(values[window.words], window.at, float(len(window.at)), number)
            goals = {self.name: goal}
            made.append(Features(window.tokens, window.segments, goals, example.line, window.words))
        return [window for window in made if len(window.note)] or made[:1]

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer on the vector of each word, or a conditional random field."""
        make = ChainHead if self.options["crf"] else PlaceHead
        return make(
            config,
            target=self.name,
            num_labels=len(self.labels),
            dropout=self.options["dropout"],
        )

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy of the tags, or of the tags of a window together."""
        if self.options["crf"]:
            return chain_loss(logits, target)
        return functional.cross_entropy(
            logits.float(),
            target.values,
            ignore_index=IGNORE,
            reduction="sum",
            label_smoothing=target.smoothing,
        )

    def decode(
        self,
        example: TaggedExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Return the tags that are best together, and where their spans lie in the text."""
        rows = join_rows(logits, [window.note for window in windows])
        tagged = self.tag_set.decode(example.text, words_to_ask(example, self.tag_set.words), rows)
        answer: Answer = {
            "tags": tagged.tags,
            "tokens": tagged.tokens,
            "probabilities": tagged.chances.tolist(),
        }
        return answer if self.tag_set.scheme == "plain" else answer | {"spans": tagged.spans()}

    def scorer(self) -> "TagScorer":
        """Return what counts right spans and tags."""
        return TagScorer(self.tag_set)


class TagScorer:
    """Counts spans and tags that are right; a text is right when all its tags are."""

    def __init__(self, tag_set: TagSet) -> None:
        self._tag_set = tag_set
        self._scores = TagScores(single_words if tag_set.scheme == "plain" else find_spans)

    def add(self, example: TaggedExample, answer: Answer) -> Verdict:
        """Count the tags of one text."""
        words = words_to_ask(example, self._tag_set.words)
        gold = self._tag_set.gold(example, words) or []
        beyond = self._tag_set.beyond(example, words)
        given, chances = answer["tags"], answer["probabilities"]
        parts = self._scores.add(gold, given, beyond=beyond)
        claims = Claims.each(chances, list(map(operator.eq, gold, given))) if chances else None
        return Verdict(
            " ".join(gold),
            " ".join(given),
            float(gold == given and not beyond),
            min(chances, default=1.0),
            parts,
            claims,
        )

    def take(self, parts: Parts) -> None:
        """Count a text by its parts."""
        self._scores.take(parts)

    def metrics(self) -> dict[str, float]:
        """Return F1 of spans first, or accuracy where tags speak of none."""
        return {name: one.value for name, one in self.statistics().items()}

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each text adds."""
        found = self._scores.statistics()
        if self._tag_set.scheme != "plain":
            return found
        return {"accuracy": found["accuracy"], "macro_f1": self._scores.macro_f1()}

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why."""
        return self._scores.lacking

    @property
    def note(self) -> str:
        """How many spans could not be found."""
        return self._scores.note

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return the scores of each label of spans, or of each tag."""
        return self._scores.by_label()

    def label_statistics(self) -> dict[str, Statistic]:
        """Return the F1 of each label."""
        return self._scores.label_statistics()


def learn_tags(
    examples: Sequence[TaggedExample], *, order: Sequence[str] = (), crf: bool = False
) -> Options:
    """Return the tags in use and how they speak of spans."""
    tags, scheme = learn_tag_set(examples, order)
    return {"labels": tags, "scheme": scheme, "crf": crf, "words": kind_of_words(examples)}
