"""What a model can do for clients: inputs made ready in any thread, answered together in one."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

from bertworks.core.errors import DataError, UsageError
from bertworks.model.encoder import Encoder
from bertworks.service.asked import Asked
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.lengths import MOST_PIECES, Lengths
from bertworks.service.numbers import if_finite
from bertworks.service.pieces import Piece, attention_item, cut_into_pieces, look_at
from bertworks.service.task_answers import TaskAnswers
from bertworks.service.vector_answers import VectorAnswers
from bertworks.serving.inputs import refuse_others_than_texts
from bertworks.serving.predictor import Predictor
from bertworks.tasks.zero_shot import ByVectors, Way

MOST_WINDOWS = 16  # of one input; what stands behind them is not read
OF_ALL = frozenset({"embed", "embed_all", "rerank", "zero_shot"})  # what every encoder can do


class Answers:
    """An opened model as a pair of functions: `prepare` and `compute`."""

    def __init__(self, predictor: Predictor, *, queue_tokens: int) -> None:
        self.predictor = predictor
        most = min(MOST_WINDOWS * predictor.longest, MOST_PIECES, queue_tokens // 2)
        self.most_pieces = max(most, 1)
        self._lengths = Lengths(predictor.tokenizer, self.most_pieces, queue_tokens)
        self._vectors = VectorAnswers(predictor, self._lengths)
        self._tasks = TaskAnswers(predictor, self._lengths)
        model = predictor.model
        can_look = model.config.mixer == "attention" and isinstance(model.encoder, Encoder)
        self.abilities = OF_ALL | self._tasks.abilities | ({"attention"} if can_look else set())

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""
        return self._vectors.dims

    @property
    def labels(self) -> dict[str, list[str]]:
        """The labels of the tasks that have some, by their names."""
        return self._tasks.labels

    def prepare(
        self, ability: str, inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> list[Item]:
        """Make inputs ready to be computed, one item each; a Failure says what is wrong with them.

        Texts to embed are strings; those to rerank are pairs of a query and a document; tasks read
        what `Predictor.predict` reads.
        """
        if ability not in self.abilities:
            known = ", ".join(sorted(self.abilities))
            raise Failure("cannot_do", f"this model cannot {ability}; it can {known}")
        asked = Asked.of(ability, options)
        try:
            items = self._prepare(ability, inputs, asked)
        except (DataError, UsageError) as error:
            raise Failure("bad_value", str(error)) from error
        self._refuse_cut(items, asked)
        return items

    def compute(self, key: Hashable, contents: list[Any]) -> list[Any]:
        """Return one answer for each item of a key, in order, or a Failure in its place.

        A vector [D] to embed, [tokens, D] for `embed_all`, and else JSON data.
        """
        way = cast(tuple[Any, ...], key)[0]
        if way == "attention":
            return list(map(if_finite, look_at(contents, self.predictor)))
        return (self._tasks if way == "task" else self._vectors).compute(key, contents)

    def tokenize(
        self, texts: Sequence[Any], *, special: bool = True, prompt: str | None = None
    ) -> list[list[Piece]]:
        """Return the pieces of each text as `embed` reads it, perhaps with the special ones.

        The prompt is one of the model's, by its name.
        """
        tokenizer = self.predictor.tokenizer
        try:
            refuse_others_than_texts(texts, "cut into pieces")
            name = self._vectors.prompt(Asked(prompt_name=prompt))
            prefix = self.predictor.recipe.prompt_text(name)
        except (DataError, UsageError) as error:
            raise Failure("bad_value", str(error)) from error
        found, total = list[list[Piece]](), 0
        for text in texts:
            most = self.most_pieces
            found.append(cut_into_pieces(prefix + text, tokenizer, most=most, special=special))
            total += len(found[-1])
            self._lengths.require_few(total)
        return found

    def _prepare(self, ability: str, inputs: Sequence[Any], asked: Asked) -> list[Item]:
        if ability == "embed":
            return self._vectors.embed(inputs, asked)
        if ability == "embed_all":
            return self._vectors.embed_all(inputs, asked)
        if ability == "rerank":
            by_pairs = self.predictor.reads_pairs
            return (self._tasks if by_pairs else self._vectors).rerank(inputs)
        if ability == "zero_shot":
            return self._zero_shot(inputs, asked)
        if ability == "attention":
            return [attention_item(item, n, self.predictor) for n, item in enumerate(inputs, 1)]
        return self._tasks.ask(ability, inputs, asked)

    def _zero_shot(self, texts: Sequence[Any], asked: Asked) -> list[Item]:
        way = cast(Way | None, asked.by)
        task = self.predictor.zero_shot(asked.labels, by=way, template=asked.template)
        if isinstance(task, ByVectors):
            return self._vectors.zero_shot(texts, task, asked)
        return self._tasks.zero_shot(texts, task, asked)

    def _refuse_cut(self, items: Sequence[Item], asked: Asked) -> None:
        for number, item in enumerate(items, 1):
            if item.is_cut and not asked.truncate:
                raise Failure(
                    "too_large",
                    f"input {number} is longer than what is read of it, which is "
                    f"{item.num_read} tokens; shorten it, or let it be cut with truncate",
                )
