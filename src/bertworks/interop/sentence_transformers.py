"""sentence-transformers folders: what stands around an encoder to make vectors of texts.

Such a folder lists its modules in `modules.json`. Nothing of it is executed: the modules that are
known here are read as data, any other is refused by its name.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Engine
from tokenizers import normalizers

from bertworks.core.artifact import read_json, read_object
from bertworks.core.errors import ArtifactError
from bertworks.core.progress import say
from bertworks.model.embedding import Bend, DenseLayer, EmbeddingRecipe, VectorPooling
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.tokenizer.tokenizer import Tokenizer

MODULES = "modules.json"
PACKAGE = "sentence_transformers.models"  # every version of the package reads these names
ENCODER, POOLING, DENSE, NORMALIZE = "Transformer", "Pooling", "Dense", "Normalize"
# Their pooling mode -> ours.
POOLINGS: dict[str, VectorPooling] = {
    "cls": "first",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "sqrt",
    "weightedmean": "weighted",
    "lasttoken": "last",
}
# The key by which older versions ask for a mode -> the mode.
POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# Their activation -> ours.
ACTIVATIONS: dict[str, Bend] = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
}
# Where the encoder's own settings lie, by the kind of encoder they were first made for.
ENCODER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# Their settings of an encoder that are not known here, but for what changes no vector.
UNKNOWN = (
    *("processing_kwargs", "query_expansion", "tokenizer_args", "processor_kwargs"),
    *("config_args", "config_kwargs"),
)
HARMLESS = {
    *("trust_remote_code", "use_fast", "padding", "padding_side", "pad_to_multiple_of"),
    *("output_attentions", "output_hidden_states", "return_dict", "local_files_only"),
}
LEAST_LENGTH = 3  # a first piece, one of the text, a separator


def encoder_folder(folder: Path) -> Path:
    """Return where the encoder of a model folder lies: in it, or where `modules.json` says."""
    modules = _read_modules(folder)
    return folder / modules[0].place if modules else folder


def read_recipe(folder: Path, *, hidden_size: int, longest: int) -> EmbeddingRecipe | None:
    """Read how a folder makes vectors of texts; None where it says nothing about that."""
    modules = _read_modules(folder)
    ours = folder / "config_sentence_transformers.json"
    said = read_object(ours) if ours.is_file() else {}
    if not modules or said.get("model_type") == "CrossEncoder":
        return None
    _check_order(folder, [module.kind for module in modules])
    encoder, pooling, *others = [folder / module.place for module in modules]
    normalizes = modules[-1].kind == NORMALIZE
    if normalizes:
        _read_behind_pooling(others.pop())
    layers = _read_layers(others, hidden_size)
    width = len(layers[-1].weight) if layers else hidden_size
    if (said.get("truncate_dim") or width) < width:
        raise ArtifactError(
            f"{ours} cuts vectors to {said['truncate_dim']} numbers; that is not known here: "
            "remove truncate_dim from a copy, and ask for shorter vectors as they are made"
        )
    return EmbeddingRecipe(
        **_read_pooling(pooling),
        **_read_encoder_settings(encoder, longest),
        **_read_prompts(said, ours),
        layers=layers,
        normalize=normalizes,
    )


def write_recipe(folder: Path, recipe: EmbeddingRecipe, *, hidden_size: int) -> None:
    """Write the files that make a sentence-transformers folder of an encoder's folder."""
    kinds = [ENCODER, POOLING, *[DENSE] * len(recipe.layers), *[NORMALIZE] * recipe.normalize]
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": f"{i}_{kind}" if i else "",
            "type": f"{PACKAGE}.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    pooling: dict[str, Any] = {"word_embedding_dimension": hidden_size}
    for key, mode in POOLING_KEYS.items():
        if mode in POOLINGS:
            pooling[key] = POOLINGS[mode] == recipe.pooling
    if not recipe.pools_prompt:
        pooling["include_prompt"] = False  # older versions do not know the key
    _write(folder / MODULES, modules)
    _write(folder / "1_Pooling" / "config.json", pooling)
    for i, layer in enumerate(recipe.layers, start=2):
        _write_dense(folder / f"{i}_{DENSE}", layer)
    _write(
        folder / ENCODER_FILES[0],
        {"max_seq_length": recipe.max_length, "do_lower_case": recipe.lowercase},
    )
    _write(
        folder / "config_sentence_transformers.json",
        {
            "prompts": recipe.prompts,
            "default_prompt_name": recipe.default_prompt,
            "similarity_fn_name": recipe.similarity,
        },
    )


def lowercased(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that folds capital letters before it does anything else."""
    engine = Engine.from_str(tokenizer.engine.to_str())
    told = json.loads(engine.to_str())["normalizer"] or {}
    if told.get("type") == "Sequence" and told["normalizers"][:1] == [{"type": "Lowercase"}]:
        return tokenizer
    own = [] if engine.normalizer is None else [engine.normalizer]
    engine.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
    return tokenizer.with_engine(engine)


@dataclass(frozen=True)
class _Module:
    kind: str
    place: str  # relative to the folder


def _read_modules(folder: Path) -> list[_Module]:
    file = folder / MODULES
    if not file.is_file():
        return []
    rows = read_json(file)
    if not isinstance(rows, list) or not rows:
        raise ArtifactError(f"{file} is no list of modules; make or fetch the folder again")
    return [_module(row, file) for row in rows]


def _module(row: Any, file: Path) -> _Module:
    name, place = (row.get("type"), row.get("path")) if isinstance(row, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(place, str):
        raise ArtifactError(
            f"{file} holds {row!r:.80}, which names no type and path; fetch the folder again"
        )
    if Path(place).is_absolute() or ".." in Path(place).parts:
        raise ArtifactError(
            f"{file} names the path {place!r}, which leads out of the folder; do not trust it"
        )
    package, _, kind = name.rpartition(".")
    is_theirs = package.partition(".")[0] == "sentence_transformers"
    if not is_theirs or kind not in (ENCODER, POOLING, DENSE, NORMALIZE):
        raise ArtifactError(
            f"{file} names a module of type {name}, which is not known here; remove {MODULES} from "
            "a copy of the folder to use the encoder alone"
        )
    return _Module(kind, place)


def _check_order(folder: Path, kinds: list[str]) -> None:
    dense = [DENSE] * kinds.count(DENSE)
    plain = [ENCODER, POOLING, *dense]
    if kinds not in (plain, [*plain, NORMALIZE]):
        raise ArtifactError(
            f"{folder / MODULES} lists {', '.join(kinds)}; only {ENCODER}, {POOLING}, then any "
            f"{DENSE}, then perhaps {NORMALIZE} is known here"
        )


def _read_pooling(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    said = read_object(file)
    modes = said.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in POOLING_KEYS.items() if said.get(key)] or "mean"
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in list(POOLINGS):
        found = " + ".join(map(str, modes)) if isinstance(modes, list) else modes
        raise ArtifactError(
            f"{file} asks for the pooling {found}; only one of {', '.join(POOLINGS)} is known "
            "here: use sentence-transformers for this model"
        )
    pools_prompt = said.get("include_prompt", True)
    if not isinstance(pools_prompt, bool):
        raise ArtifactError(f"{file}: include_prompt is {pools_prompt!r}; it must be true or false")
    return {"pooling": POOLINGS[modes[0]], "pools_prompt": pools_prompt}


def _read_encoder_settings(folder: Path, longest: int) -> dict[str, Any]:
    file = next((folder / name for name in ENCODER_FILES if (folder / name).is_file()), None)
    said = read_object(file) if file else {}
    task = said.get("transformer_task", "feature-extraction")
    unknown = [found for key in UNKNOWN for found in _unknown_settings(key, said.get(key))]
    if task != "feature-extraction" or unknown:
        what = f"the task {task}" if not unknown else unknown[0]
        raise ArtifactError(
            f"{file} asks for {what}, which is not known here; use sentence-transformers for it"
        )
    settings = folder / "tokenizer_config.json"
    cutting = read_object(settings) if settings.is_file() else {}
    if cutting.get("truncation_side", "right") != "right":
        raise ArtifactError(
            f"{settings} cuts the beginning off long texts (truncation_side); here their end is "
            "cut off: use sentence-transformers for it"
        )
    return {
        "max_length": min(
            _length(said, file, longest) or _tokenizer_length(cutting) or longest, longest
        ),
        "lowercase": said.get("do_lower_case") is True,
    }


def _length(said: dict[str, Any], file: Path | None, longest: int) -> int | None:
    length = said.get("max_seq_length")
    if length is None:
        return None
    if not isinstance(length, int) or length < LEAST_LENGTH:
        raise ArtifactError(
            f"{file}: max_seq_length is {length!r}; it must be a whole number of at least "
            f"{LEAST_LENGTH}"
        )
    if length > longest:
        say(f"{file}: max_seq_length is {length}; the network reads {longest}, which is used")
    return length


def _tokenizer_length(settings: dict[str, Any]) -> int | None:
    """Return how many pieces the tokenizer's settings allow, where newer versions say it."""
    length = settings.get("model_max_length")
    return length if isinstance(length, int) and length >= LEAST_LENGTH else None


def _read_prompts(said: dict[str, Any], file: Path) -> dict[str, Any]:
    prompts, default = said.get("prompts") or {}, said.get("default_prompt_name")
    texts = prompts.values() if isinstance(prompts, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise ArtifactError(
            f"{file}: prompts is {prompts!r:.80}; it must map names to texts: mend the file"
        )
    if default is not None and default not in list(prompts):
        raise ArtifactError(
            f"{file}: default_prompt_name is {default!r}, but the prompts are "
            f"{', '.join(prompts) or 'none'}; mend the file"
        )
    return {
        "prompts": prompts,
        "default_prompt": default,
        "similarity": said.get("similarity_fn_name"),
    }


def _unknown_settings(key: str, value: Any) -> list[str]:
    """Return what a setting asks for, by its inner keys where it has some."""
    if isinstance(value, dict):
        return [f"{inner} in {key}" for inner in value if inner not in HARMLESS]
    return [key] if value else []


def _read_layers(folders: list[Path], size: int) -> tuple[DenseLayer, ...]:
    """Read the dense layers; the first takes vectors of this size."""
    layers = []
    for folder in folders:
        layers.append(_read_dense(folder, size))
        size = len(layers[-1].weight)
    return tuple(layers)


def _read_dense(folder: Path, size: int) -> DenseLayer:
    said = _read_behind_pooling(folder)
    activation = said.get("activation_function", "torch.nn.modules.activation.Tanh")
    if activation not in list(ACTIVATIONS) or said.get("use_residual"):
        found = "use_residual" if said.get("use_residual") else activation
        raise ArtifactError(
            f"{folder / 'config.json'} asks for {found}; a dense layer is known here without "
            f"residual and with {', '.join(ACTIVATIONS.values())}"
        )
    file = folder / "model.safetensors"
    if not file.is_file() and (folder / "pytorch_model.bin").is_file():
        raise ArtifactError(
            f"{folder} holds its weights as a pickle, which is never opened; open the model with "
            "sentence-transformers and save it again, which writes model.safetensors"
        )
    tensors = read_tensors(file)
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    out = said.get("out_features")
    wanted = {"linear.weight": [out, size], **({"linear.bias": [out]} if len(shapes) > 1 else {})}
    if shapes != wanted:
        raise ArtifactError(
            f"{file} holds {shapes}, but {wanted} is needed here; fetch the folder again"
        )
    whole = {name: tensor.float() for name, tensor in tensors.items()}
    return DenseLayer(whole["linear.weight"], whole.get("linear.bias"), ACTIVATIONS[activation])


def _write_dense(folder: Path, layer: DenseLayer) -> None:
    num_out, num_in = layer.weight.shape
    settings = {
        "in_features": num_in,
        "out_features": num_out,
        "bias": layer.bias is not None,
        "activation_function": next(key for key, ours in ACTIVATIONS.items() if ours == layer.bend),
    }
    _write(folder / "config.json", settings)
    bias = {} if layer.bias is None else {"linear.bias": layer.bias}
    write_tensors(folder / "model.safetensors", {"linear.weight": layer.weight, **bias})


def _read_behind_pooling(folder: Path) -> dict[str, Any]:
    """Read the settings of a module that must work on the pooled vector."""
    file = folder / "config.json"
    said = read_object(file) if file.is_file() else {}
    names = [said.get(key) for key in ("module_input_name", "module_output_name")]
    if any(name not in (None, "sentence_embedding") for name in names):
        raise ArtifactError(
            f"{file} works on {names[0]} and not on the vector of a text; that is not known here"
        )
    return said


def _write(file: Path, data: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")
