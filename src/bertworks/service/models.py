"""The models of a service: opened, tried, exchanged while they work."""

import hashlib
import re
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Self

from bertworks.core.artifact import MANIFEST, read_manifest, sha256_of
from bertworks.core.errors import ArtifactError, BertworksError, UsageError
from bertworks.core.shipped import find_model
from bertworks.service.answers import Answers
from bertworks.service.batcher import Batcher, BatchLimits
from bertworks.service.failures import Failure
from bertworks.service.histograms import BatchMeasures
from bertworks.service.jobs import Item
from bertworks.service.languages import languages_of
from bertworks.service.metrics import QUEUE
from bertworks.service.pieces import Piece
from bertworks.serving.onnx_encoder import OnnxEncoder
from bertworks.serving.predictor import Predictor, load

NAME = re.compile(r"[\w.@/-]{1,100}")
TRIAL = "A first text, to see whether the model answers."
WARM_UP = 60.0  # seconds in which a model must have answered for the first time
SHOWN = 12  # digits of a revision
FILES = (".json", ".model", ".onnx", ".safetensors", ".txt")  # of which a model is made
COUNTS = [name for kind, name, _ in QUEUE.values() if kind == "counter"]  # that outlive a model
OpenPredictor = Callable[[Path], Predictor]


class ServedModel:
    """One opened model behind one batcher."""

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        *,
        revision: str = "",
        limits: BatchLimits | None = None,
        measures: BatchMeasures | None = None,
        on_give_up: Callable[[], None] | None = None,
    ) -> None:
        limits = limits or BatchLimits()
        self.name = name
        self.revision = revision  # tells the answers of one folder from those of another
        self.predictor = predictor
        self.batch_tokens = limits.batch_tokens
        self._languages = languages_of(predictor.tokenizer)
        self._answers = Answers(predictor, queue_tokens=limits.queue_tokens)
        self.abilities = self._answers.abilities
        self.prepare = self._answers.prepare
        self.compute = self._answers.compute
        self.measures = measures or BatchMeasures()
        self.batcher = Batcher(
            self._compute_in_time,
            limits,
            warm_up=self._trial(),
            on_give_up=on_give_up,
            on_batch=self.measures.begin,
        )
        self._count_before: Callable[[str], int] = lambda name: 0  # of those that it replaced
        self._is_settled = Event()  # those that it replaced count no more
        self._is_settled.set()

    def start(self) -> None:
        """Begin to answer; a model that cannot is an error."""
        item = self._trial()
        (answer,) = self.compute(item.key, [item.content])
        if isinstance(answer, Failure):
            raise ArtifactError(
                f"the model {self.name} gives no finite numbers, so its weights are broken; train "
                "it again or fetch its folder again"
            )
        self.batcher.start()
        if not self.batcher.wait_until_ready(WARM_UP):
            self.batcher.stop(0.0)
            raise ArtifactError(
                f"the model {self.name} did not answer within {WARM_UP:.0f} seconds; this machine "
                "is too slow for it, or too busy"
            )

    def count(self, name: str) -> int:
        """Return one of the batcher's counts, those of the models that it replaced included."""
        return self._count_before(name) + int(getattr(self.batcher, name))

    def follow(self, old: Self) -> None:
        """Go on with the counts of a model that this one will replace."""
        self._count_before = old.count
        self._is_settled.clear()

    def let_go(self, old: Self, drain: float) -> None:
        """Let the replaced model finish, and keep its counts but not its weights.

        One that was itself put in another's place may be done before that other is.
        """
        old.batcher.stop(drain)
        old._is_settled.wait()
        self._count_before = {name: old.count(name) for name in COUNTS}.__getitem__
        self._is_settled.set()

    def tokenize(
        self, texts: Sequence[Any], *, special: bool = True, prompt: str | None = None
    ) -> list[list[Piece]]:
        """Return the pieces of each text as `embed` reads it, perhaps with the special ones."""
        return self._answers.tokenize(texts, special=special, prompt=prompt)

    def info(self) -> dict[str, Any]:
        """Return what a client may want to know of the model, as JSON data."""
        predictor, config = self.predictor, self.predictor.model.config
        recipe = predictor.recipe
        return {
            "name": self.name,
            "revision": self.revision,
            "abilities": sorted(self.abilities),
            "tasks": {name: task.kind for name, task in predictor.model.tasks.items()},
            "labels": self._answers.labels,
            "dims": self._answers.dims,
            "longest": predictor.longest,
            "max_length": recipe.max_length,
            "most_pieces": self._answers.most_pieces,
            "num_layers": config.num_layers,
            "num_heads": config.num_heads,
            "vocab_size": config.vocab_size,
            "mask_piece": predictor.tokenizer.mask_piece,
            "languages": self._languages,
            "pooling": recipe.pooling,
            "normalize": recipe.normalize,
            "prompts": dict(recipe.prompts),
            "default_prompt": recipe.default_prompt,
            "backend": "onnx" if isinstance(predictor.model.encoder, OnnxEncoder) else "torch",
            "device": predictor.machine.device.type,
            "precision": precision_of(predictor),
        }

    def _compute_in_time(self, key: Hashable, contents: list[Any]) -> list[Any]:
        """Compute, and note how long that takes."""
        begun = time.monotonic()
        answers = self.compute(key, contents)
        self.measures.computed.add(time.monotonic() - begun)
        return answers

    def _trial(self) -> Item:
        return self.prepare("embed", [TRIAL], {})[0]


class Models:
    """The models of a service by their names; the first answers where none is named.

    They are opened by `load`.
    """

    def __init__(
        self,
        folders: Mapping[str, Path],
        open_predictor: OpenPredictor,
        *,
        limits: BatchLimits | None = None,
        drain: float = 30.0,
    ) -> None:
        self.is_loaded = False
        self.is_stopping = False
        self.on_give_up: Callable[[], None] | None = None  # called when a worker is lost for good
        self._folders = dict(folders)
        self._open_predictor = open_predictor
        self._limits = limits or BatchLimits()
        self._drain = drain
        self._is_swapping = Lock()
        self._measures: dict[str, BatchMeasures] = {}  # of models by name, whichever has it
        self._models: dict[str, ServedModel] = {}

    @classmethod
    def open(
        cls,
        specs: Sequence[str],
        open_predictor: OpenPredictor = load,
        *,
        limits: BatchLimits | None = None,
        drain: float = 30.0,
    ) -> Self:
        """Open the models that are given as PATH or NAME=PATH."""
        models = cls(named_folders(specs), open_predictor, limits=limits, drain=drain)
        models.load()
        return models

    def load(self, *, last: Callable[[], None] = lambda: None) -> None:
        """Open all models, one after the other; one that cannot be served is an error.

        `last` is done before anybody is let in. When the service stops meanwhile, the rest are not
        opened.
        """
        try:
            for name, folder in self._folders.items():
                if self.is_stopping:
                    return
                self._models[name] = self._start(name, folder)
            last()
        except BaseException:
            self.stop(0.0)
            raise
        self.is_loaded = True

    def require_loaded(self) -> None:
        """Refuse what comes before all models are opened."""
        if not self.is_loaded:
            raise Failure(
                "loading",
                f"{len(self._models)} of {len(self._folders)} models are opened; ask again soon",
                retry_after=1,
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all models, in the order in which they were given."""
        return tuple(self._folders)

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(tuple(self._models.values()))

    @property
    def is_ready(self) -> bool:
        """Whether every model can answer, and goes on to."""
        is_open = self.is_loaded and not self.is_stopping
        return is_open and all(model.batcher.is_ready for model in self)

    def get(self, name: str | None = None) -> ServedModel:
        """Return a model by its name; without one, the first."""
        self.require_loaded()
        found = self._models.get(self.names[0] if name is None else name)
        if found is None:
            known = ", ".join(self.names)
            raise Failure("unknown_model", f"there is no model {name!r:.60}; there is {known}")
        return found

    def swap(self, name: str, folder: Path) -> ServedModel:
        """Put the model of a folder in a model's place, once it has been checked and has answered.

        One that cannot be used is refused, and nothing has changed. The old one answers what waits
        for it; jobs that come too late for that are refused as `stopping`, and are the new one's.
        """
        self.get(name)
        if not self._is_swapping.acquire(blocking=False):
            raise Failure("overloaded", "another model is being opened; ask again", retry_after=5)
        try:
            new, old = self._start(name, folder), self._models[name]
            new.follow(old)
            self._models[name] = new
        except (BertworksError, OSError) as error:
            raise Failure("bad_value", f"{name} stays as it was, for {error}") from error
        finally:
            self._is_swapping.release()
        Thread(target=new.let_go, args=(old, self._drain), daemon=True).start()
        return new

    def refuse_new(self) -> None:
        """Be ready no more; what was begun goes on."""
        self.is_stopping = True

    def stop(self, drain: float) -> None:
        """End all models, after what waits was answered, or some seconds at the most."""
        self.is_stopping = True
        threads = [Thread(target=model.batcher.stop, args=(drain,)) for model in self]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _start(self, name: str, given: Path) -> ServedModel:
        folder = find_model(given)
        model = ServedModel(
            name,
            self._open_predictor(folder),
            revision=revision_of(folder),
            limits=self._limits,
            measures=self._measures.setdefault(name, BatchMeasures()),
            on_give_up=self._give_up,
        )
        model.start()
        return model

    def _give_up(self) -> None:
        if self.on_give_up is not None:
            self.on_give_up()


def named_folders(specs: Sequence[str]) -> dict[str, Path]:
    """Return the folders that are given as PATH or NAME=PATH, by their names."""
    found: dict[str, Path] = {}
    for spec in specs:
        name, is_named, path = spec.partition("=")
        if not is_named or Path(spec).exists():
            path, name = spec, _name_of(Path(spec))
        if not NAME.fullmatch(name):
            raise UsageError(f"--model {spec} has no name that clients can give; say NAME={path}")
        if name in found:
            raise UsageError(f"two models are called {name}; name one of them, as other={path}")
        found[name] = Path(path)
    if not found:
        raise UsageError("no model is given; name a folder with --model")
    return found


def _name_of(folder: Path) -> str:
    """Return the name of a folder, of a link its own."""
    return folder.resolve().name if folder.name in ("", "..") else folder.name


def precision_of(predictor: Predictor) -> str:
    """Return the kind of numbers in which most of the network is computed."""
    encoder: Any = predictor.model.encoder
    if isinstance(encoder, OnnxEncoder):
        return encoder.precision
    return predictor.machine.precision


def revision_of(folder: Path) -> str:
    """Return what tells a folder's model from others: the beginning of a sha256.

    The same weights with another vocabulary, pooling or prompt give other answers.
    """
    if (folder / MANIFEST).is_file():
        return read_manifest(folder)["sha256"][:SHOWN]
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.suffix in FILES):
        if file.is_file():
            digest.update(f"{sha256_of(file)} {file.relative_to(folder).as_posix()}\n".encode())
    return digest.hexdigest()[:SHOWN]
