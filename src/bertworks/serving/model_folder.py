"""Model folders: opened for work or for further training, and written, in one way each."""

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from bertworks.core.artifact import Origin, check_artifact, saving
from bertworks.core.errors import ArtifactError
from bertworks.core.progress import say
from bertworks.interop.descriptions import OWN, TaskNote
from bertworks.interop.encoder_decoder import PAIR, refuse_other_ends
from bertworks.interop.families import DIALECTS
from bertworks.interop.hugging_face import Folder, open_folder, write_folder
from bertworks.interop.sentence_transformers import (
    encoder_folder,
    lowercased,
    read_recipe,
    write_recipe,
)
from bertworks.interop.tensor_names import RenamedTensors
from bertworks.model.config import AS_IT_IS, Dropout, EncoderConfig
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.model.encoder import initialize
from bertworks.model.weights import Account, load_weights
from bertworks.tasks.catalog import make_task
from bertworks.tasks.electra import add_generator, parted, tables_of
from bertworks.tasks.embed import Embed
from bertworks.tasks.task import Borrower, Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

GENERATOR = "generator"  # the folder of ELECTRA's other network, inside that of the model
TABLE = "encoder.embeddings."
POOLER = "encoder.pooler."
# Tasks that read through no pooler. A model of these alone whose pooler was drawn is saved without
# it, for nothing has trained it: who opens the folder draws it, says so, and lets it learn where
# all that was learned before is frozen. One that came with the weights stays, whatever is learned
# now, unless the class that the folder is written as has no place for it.
OF_PIECES = {"fill_mask", "replaced_token"}
# Folders of these tasks alone may lack the pooler.
WITHOUT_POOLER = {"fill_mask", "replaced_token", "embed", "answer", "tag", "generate"}


@dataclass(frozen=True)
class OpenModel:
    """A model in memory with its tokenizer, and how its weights fitted."""

    model: TaskModel
    tokenizer: Tokenizer
    account: Account | None  # None: no weights were loaded
    recipe: EmbeddingRecipe | None = None  # None: the folder does not say how to embed
    longest: int | None = None  # window of its own tasks; None: what the network reads

    @property
    def notes(self) -> dict[str, Any]:
        """What a folder that is made of this one says of it beside its tasks."""
        return {} if self.longest is None else {"longest": self.longest}


def open_model(
    path: Path,
    *,
    tasks: Sequence[Task] | None = None,
    dropout: Dropout = AS_IT_IS,
    fresh: bool | Collection[str] = False,
    pickled: bool = False,
    seed: int = 0,
) -> OpenModel:
    """Open a model folder, for its own tasks or with fresh heads for others.

    `fresh` leaves all weights as they are drawn from the seed, the same network, untrained; or it
    names tasks whose heads are left so. `pickled` reads pytorch_model.bin, as only an explicit
    import does.
    """
    check_artifact(path, "model")
    folder = open_folder(encoder_folder(path))
    recipe = _recipe_of(path, folder)
    own = _own_tasks(folder, recipe)
    config = folder.config.with_dropout(*dropout)
    tokenizer = Tokenizer.open(folder.path)
    if recipe and recipe.lowercase:
        tokenizer = lowercased(tokenizer)
    _refuse_stranger(tokenizer, folder, path)
    wanted = own if tasks is None else tasks
    if fresh is True:
        return OpenModel(TaskModel(config, wanted, seed=seed), tokenizer, None, recipe)
    model = TaskModel.without_weights(config, wanted)
    account = _load(model, folder.tensors(pickled=pickled), own, fresh=fresh or ())
    initialize(model, seed=seed, only=account.missing)
    if tasks is None and has_generator(folder.path):
        add_generator(model, open_generator(folder.path, model, dropout=dropout))
    return OpenModel(model, tokenizer, account, recipe, folder.longest)


def has_generator(path: Path) -> bool:
    """Tell whether the folder of a discriminator holds what fills masks for it."""
    return (path / GENERATOR).is_dir()


def networks_in(path: Path) -> list[Path]:
    """Return the folders of a model's networks: its own, and its generator's if it has one."""
    return [path, path / GENERATOR] if has_generator(path) else [path]


def open_generator(
    path: Path, beside: TaskModel, *, task: Task | None = None, dropout: Dropout = AS_IT_IS
) -> TaskModel:
    """Open the generator in the folder of a discriminator; a table that it lacks is that one's."""
    folder = open_folder(path / GENERATOR)
    own = _own_tasks(folder, None)
    model = TaskModel.without_weights(folder.config.with_dropout(*dropout), [task] if task else own)
    tensors = folder.tensors()
    common = {f"{TABLE}{table}.weight": one.detach() for table, one in tables_of(beside).items()}
    lent = {name: one for name, one in common.items() if name not in tensors}
    whole = ChainMap(lent, cast(MutableMapping[str, Tensor], tensors))
    initialize(model, seed=0, only=_load(model, whole, own, fresh=()).missing)
    return model


def make_model(
    tokenizer: Path,
    size: str,
    tasks: Sequence[Task],
    *,
    longest: int,
    dropout: Dropout = AS_IT_IS,
    seed: int = 0,
) -> OpenModel:
    """Make a fresh network of a size for the pieces of a tokenizer's folder."""
    cutter = Tokenizer.open(tokenizer)
    named = EncoderConfig.named(size)
    config = replace(named, vocab_size=cutter.vocab_size, max_positions=longest)
    model = TaskModel(config.with_dropout(*dropout), tasks, seed=seed)
    return OpenModel(model, cutter, None)


def tasks_of(path: Path) -> dict[str, Task]:
    """Return the tasks of a model folder by their names, without its weights."""
    check_artifact(path, "model")
    folder = open_folder(encoder_folder(path))
    own = _own_tasks(folder, _recipe_of(path, folder))
    if has_generator(folder.path):
        own += _own_tasks(open_folder(folder.path / GENERATOR), None)
    return {task.name: task for task in own}


def save_model(
    path: Path,
    model: TaskModel,
    tokenizer: Tokenizer,
    *,
    origin: Origin,
    recipe: EmbeddingRecipe | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write a model as a folder that Hugging Face's library opens too."""
    with saving(path, kind="model", origin=origin) as folder:
        write_model(folder, model, tokenizer, recipe=recipe, extra=extra)


def write_model(
    folder: Path,
    model: TaskModel,
    tokenizer: Tokenizer,
    *,
    recipe: EmbeddingRecipe | None = None,
    extra: dict[str, Any] | None = None,
    is_lean: bool = False,
) -> None:
    """Write the files of a model into a folder that is being saved.

    With a recipe, or a task that has one, sentence-transformers opens the folder too. A generator
    becomes a model folder inside it, or a lean one, which has nothing that the model has.
    """
    model, generator = parted(model)
    own = (task.recipe for task in model.tasks.values() if isinstance(task, Embed))
    recipe = recipe or next(own, None)
    _write_network(folder, model, tokenizer, extra=extra)
    tokenizer.save(
        folder,
        max_length=model.config.max_positions,
        has_segments=model.config.num_segments > 1,
    )
    if recipe is not None:
        write_recipe(folder, recipe, hidden_size=model.config.hidden_size)
    if generator is not None:
        write_generator(folder, generator, tokenizer, beside=model if is_lean else None)


def write_generator(
    folder: Path, generator: TaskModel, tokenizer: Tokenizer, *, beside: TaskModel | None = None
) -> None:
    """Write a generator into the folder of its discriminator: whole, or without what that has."""
    (folder / GENERATOR).mkdir()
    if beside is None:
        write_model(folder / GENERATOR, generator, tokenizer)
        return
    ours, theirs = tables_of(beside), tables_of(generator)
    shared = [f"{TABLE}{table}.weight" for table in theirs if theirs[table] is ours[table]]
    _write_network(folder / GENERATOR, generator, tokenizer, without=shared)


def _write_network(
    folder: Path,
    model: TaskModel,
    tokenizer: Tokenizer,
    *,
    extra: dict[str, Any] | None = None,
    without: Collection[str] = (),
) -> None:
    tasks = {
        name: TaskNote(task.labels, task.options, task.kind) for name, task in model.tasks.items()
    }
    is_unpooled = has_untrained_pooler(model)
    write_folder(
        folder,
        model.config,
        {
            name: one
            for name, one in model.named_parameters()
            if name not in without and not (is_unpooled and name.startswith(POOLER))
        },
        tasks=tasks,
        specials=tokenizer.specials,
        extra=extra,
    )


def has_untrained_pooler(model: TaskModel) -> bool:
    """Tell whether a pooler was drawn, not opened, and no task of its model reads through it."""
    kinds = {task.kind for task in model.tasks.values()}
    return bool(kinds) and kinds <= OF_PIECES and not model.encoder.keeps_pooler


def lacks_pooler(tasks: Iterable[Task]) -> bool:
    """Tell whether nothing that was learned for these tasks went through a pooler."""
    return {task.kind for task in tasks} <= WITHOUT_POOLER


def _recipe_of(path: Path, folder: Folder) -> EmbeddingRecipe | None:
    sizes = {"hidden_size": folder.config.hidden_size, "longest": folder.config.max_positions}
    return read_recipe(path, **sizes)


def _own_tasks(folder: Folder, recipe: EmbeddingRecipe | None) -> list[Task]:
    """Return the tasks of a folder; those of vectors make them as the folder says."""
    made = [
        make_task(note.kind or name, note.labels, name=name, **note.options)
        for name, note in folder.tasks.items()
    ]
    return [task.reading(recipe) if recipe and isinstance(task, Embed) else task for task in made]


def _load(
    model: TaskModel,
    tensors: Mapping[str, Tensor],
    own: Sequence[Task],
    *,
    fresh: Collection[str],
) -> Account:
    """Load the folder's weights; a head for another task or labels than its own starts fresh."""
    known = {task.name: task for task in own}
    new = [
        name
        for name, task in model.tasks.items()
        if name in fresh or not _fits(known.get(name), task, model, tensors)
    ]
    heads = [f"heads.{name}." for name in new]
    pooler = [POOLER] if lacks_pooler(own) else []
    lent = _lent(model, new, tensors)
    found = load_weights(model, tensors, may_miss=[*heads, *pooler], fresh=heads, lent=lent)
    borrowed = tensors.borrowed if isinstance(tensors, RenamedTensors) else ()
    drawn = any(name.startswith(POOLER) for name in (*found.missing, *borrowed))
    model.encoder.keeps_pooler = not drawn
    return found


def _lent(model: TaskModel, new: Sequence[str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the tensors with which parameters of new heads begin, where a task knows such."""
    lent = {}
    for name in new:
        task = model.tasks[name]
        if isinstance(task, Borrower):
            for parameter, _ in model.heads[name].named_parameters():
                source = task.source_of(parameter)
                if source is not None and source in tensors:
                    lent[f"heads.{name}.{parameter}"] = source
    return lent


def _fits(own: Task | None, task: Task, model: TaskModel, tensors: Mapping[str, Tensor]) -> bool:
    """Tell whether the head of a folder's task is that of another task with the same name."""
    if own is None or (own.kind, own.labels) != (task.kind, task.labels):
        return False
    if own.options == task.options:
        return True  # and where tensors are missing, that is an error
    if isinstance(task, Borrower) and not _takes_all(task, model, tensors):
        return False  # of other parts together it would make a network that never learned
    shapes = {
        f"heads.{task.name}.{n}": p.shape for n, p in model.heads[task.name].named_parameters()
    }
    return all(name in tensors and tensors[name].shape == shapes[name] for name in shapes)


def _takes_all(task: Task, model: TaskModel, tensors: Mapping[str, Tensor]) -> bool:
    """Tell whether a head has a place for everything that a folder has for its task."""
    known = {f"heads.{task.name}.{name}" for name, _ in model.heads[task.name].named_parameters()}
    return all(name in known for name in tensors if name.startswith(f"heads.{task.name}."))


def _refuse_stranger(tokenizer: Tokenizer, folder: Folder, path: Path) -> None:
    config = folder.config
    if folder.model_type == PAIR:
        refuse_other_ends(folder.path, tokenizer.specials)
    if folder.model_type != OWN and DIALECTS[config.family].skipped_places(0):
        only = DIALECTS[config.family].only_pad_id
        padding = folder.pad_id if only is None else only
        if padding != tokenizer.specials.pad:
            say(
                f"{path}: config.json takes piece {padding} for padding, which the tokenizer has "
                f"as {tokenizer.specials.pad}; texts with that piece get other vectors than in "
                "transformers, which gives it no place of its own"
            )
    if tokenizer.vocab_size > config.vocab_size:
        raise ArtifactError(
            f"the tokenizer of {path} has {tokenizer.vocab_size} pieces but the network knows "
            f"{config.vocab_size} (vocab_size in config.json); they belong to different models"
        )
