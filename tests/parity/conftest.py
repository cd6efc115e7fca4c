"""Both sides of a comparison: random networks of odd sizes, the same texts flat and padded."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import BertConfig

from bertworks.core.batch import Batch, Target
from bertworks.data.packing import Features, flatten
from bertworks.serving.model_folder import OpenModel, open_model
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece
from bertworks.tokenizer.tokenizer import Tokenizer

VOCAB_SIZE = 97
FIRST_WORD = 5  # the special pieces come before
SENTENCES = (
    "the cat sat on the mat near the hat",
    "a dog ran from the cat to the man on the hill",
    "zwei Hunde über 北京 3 14 !",
)


@pytest.fixture(scope="session", autouse=True)
def silence() -> None:
    """Keep the other library's progress bars out of the report."""
    transformers.logging.disable_progress_bar()


@pytest.fixture(scope="session")
def pieces() -> Tokenizer:
    """Learn a vocabulary that fits into the small networks."""
    return learn_wordpiece(lambda: SENTENCES * 3, size=VOCAB_SIZE, cased=False)


@pytest.fixture(scope="session")
def pieces_of(pieces: Tokenizer, tmp_path_factory) -> Callable[[str], Tokenizer]:
    """Give the vocabulary, with the padding piece where the classes of a family look for it."""
    folder = tmp_path_factory.mktemp("pieces")
    pieces.save(folder)
    first, second, *rest = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    for file in folder.iterdir():
        file.unlink()
    (folder / "vocab.txt").write_text("\n".join([second, first, *rest]), encoding="utf-8")
    turned = Tokenizer.open(folder)
    assert (pieces.specials.pad, turned.specials.pad) == (0, 1)
    return lambda family: turned if family == "mpnet" else pieces


@pytest.fixture(scope="session")
def draw_config() -> Callable[..., BertConfig]:
    """Draw the shape of a network: heads of odd size, few layers, any activation."""

    def draw(seed: int, **changes: Any) -> BertConfig:
        random = np.random.default_rng(seed)
        heads = int(random.integers(2, 6))  # a norm over very few numbers magnifies rounding
        fields = {
            "vocab_size": VOCAB_SIZE,
            "hidden_size": heads * int(random.choice([5, 7, 9])),
            "num_attention_heads": heads,
            "num_hidden_layers": int(random.integers(1, 6)),
            "intermediate_size": int(random.integers(11, 90)),
            "hidden_act": ("gelu", "gelu_new", "relu")[seed % 3],
            "layer_norm_eps": (1e-12, 1e-5)[seed % 2],
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
        return BertConfig(**{**fields, **changes})

    return draw


@pytest.fixture(scope="session")
def make_theirs(roughen) -> Callable[..., Any]:
    """Make a network of any family and class, no weight of it at rest.

    All settings go by the names that BERT has.
    """

    def make(family: str, kind: str, *, seed: int = 0, **changes: Any) -> Any:
        words = WORDS.get(family, {})
        given = {**SHAPE, **EXTRA.get(family, {}), **changes}
        named = {words.get(key, key): value for key, value in given.items()}
        named.pop("", None)  # what the family does not have
        config = getattr(transformers, f"{CLASSES[family]}Config")(**named)
        config._attn_implementation = "eager"
        return roughen(getattr(transformers, CLASSES[family] + kind)(config), seed=seed)

    return make


# How the classes of a family begin.
CLASSES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "distilbert": "DistilBert",
    "albert": "Albert",
    "electra": "Electra",
    "modernbert": "ModernBert",
    "mpnet": "MPNet",
}
SHAPE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 18,
    "num_attention_heads": 3,
    "num_hidden_layers": 4,
    "intermediate_size": 23,
    "max_position_embeddings": 43,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-5,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
}
EXTRA = {
    "albert": {"embedding_size": 11, "num_hidden_groups": 2},
    "electra": {"embedding_size": 11},
    "modernbert": {
        "local_attention": 9,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "cls_token_id": 2,
        "sep_token_id": 3,
    },
}
# The words of the families that do not speak as BERT does; "" for what they do not have.
WORDS = {
    "distilbert": {
        "hidden_size": "dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "classifier_dropout": "seq_classif_dropout",
        "type_vocab_size": "",
        "layer_norm_eps": "",
    },
    "albert": {"classifier_dropout": "classifier_dropout_prob"},
    "modernbert": {
        "hidden_act": "hidden_activation",
        "layer_norm_eps": "norm_eps",
        "hidden_dropout_prob": "mlp_dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "type_vocab_size": "",
    },
    "mpnet": {"type_vocab_size": ""},
}


@pytest.fixture(scope="session")
def roughen() -> Callable[..., nn.Module]:
    """Draw every weight anew, also norms and biases, from the seed alone.

    Norms stay near 1: far below it, layer by layer, the text would fade from the numbers.
    """

    def rough(model: nn.Module, *, seed: int) -> nn.Module:
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for module in model.modules():
                for name, parameter in module.named_parameters(recurse=False):
                    middle = isinstance(module, nn.LayerNorm) and name == "weight"
                    drawn = torch.randn(parameter.shape, generator=random)
                    parameter.copy_(middle + 0.15 * drawn)
        return model.eval()

    return rough


@pytest.fixture
def open_ours(tmp_path_factory, pieces) -> Callable[..., OpenModel]:
    """Save their model with our vocabulary beside it, and open the folder as ours."""

    def opened(theirs: Any, folder: Path | None = None, **how: Any) -> OpenModel:
        folder = folder or tmp_path_factory.mktemp("theirs")
        theirs.save_pretrained(folder)
        pieces.save(folder)
        made = open_model(folder, **how)
        made.model.eval()
        return made

    return opened


@pytest.fixture(scope="session")
def draw_texts() -> Callable[..., list[Features]]:
    """Draw texts and pairs of the wanted lengths, without the special pieces."""

    def draw(lengths: Sequence[int], *, seed: int, vocab_size: int = VOCAB_SIZE) -> list[Features]:
        random = np.random.default_rng(seed)
        return [
            Features(
                random.integers(FIRST_WORD, vocab_size, size=length),
                (np.arange(length) >= random.integers(1, 2 * length + 1)).astype(np.int64),
            )
            for length in lengths
        ]

    return draw


@pytest.fixture(scope="session")
def flat() -> Callable[[list[Features]], Batch]:
    """Lay texts end to end, with every piece asked for."""

    def make(texts: list[Features]) -> Batch:
        batch = flatten(texts)
        return replace(batch, targets=dict.fromkeys(BY_TOKEN, Target(batch.tokens)))

    return make


@pytest.fixture(scope="session")
def padded() -> Callable[..., dict[str, Tensor]]:
    """Lay texts side by side as the other library wants them, with a mask over the padding."""

    def make(texts: list[Features], pad_id: int = 0) -> dict[str, Tensor]:
        shape = (len(texts), max(len(text.tokens) for text in texts))
        names = ("input_ids", "token_type_ids", "attention_mask")
        inputs = {name: torch.zeros(shape, dtype=torch.long) for name in names}
        inputs["input_ids"] += pad_id
        for row, text in enumerate(texts):
            rows = (text.tokens, text.segments, np.ones_like(text.tokens))
            for name, values in zip(names, rows, strict=True):
                inputs[name][row, : len(text.tokens)] = torch.from_numpy(values)
        return inputs

    return make


@pytest.fixture(scope="session")
def largest_gap() -> Callable[[Tensor, Tensor], float]:
    """Tell how far two tensors of one shape are apart."""

    def gap(first: Tensor, second: Tensor) -> float:
        assert first.shape == second.shape
        return float((first.detach() - second.detach()).abs().max())

    return gap


@pytest.fixture(scope="session")
def gaps(flat, padded, largest_gap) -> Callable[..., dict[str, float]]:
    """Measure how far apart all outputs of both sides are, in one batch and each text alone."""

    @torch.no_grad()
    def measure(
        ours: TaskModel, theirs: Any, texts: list[Features], *, alone: bool = True
    ) -> dict[str, float]:
        batch = flat(texts)
        hidden = ours.encoder(batch)
        found = {
            "hidden": hidden,
            "pooled": ours.encoder.pool(hidden, batch.layout),
            **{name: head(hidden, batch, ours.encoder) for name, head in ours.heads.items()},
        }
        pad_id = theirs.config.pad_token_id
        told = [their_rows(theirs, padded(texts, pad_id), ours.tasks)]
        if alone:
            each = [their_rows(theirs, padded([text], pad_id), ours.tasks) for text in texts]
            told.append({name: torch.cat([rows[name] for rows in each]) for name in each[0]})
        return {
            name: max(largest_gap(found[name], rows[name]) for rows in told) for name in told[0]
        }

    return measure


BY_TOKEN = ("fill_mask", "replaced_token")
# Where they keep the logits of a task: beside those of another, or alone.
THEIR_LOGITS = {
    "fill_mask": ("prediction_logits", "logits"),
    "next_sentence": ("seq_relationship_logits", "logits"),
    "sentence_order": ("sop_logits",),
    "replaced_token": ("logits",),
    "classify": ("logits",),
    "multilabel": ("logits",),
    "score": ("logits",),
}


def their_rows(theirs: Any, inputs: dict[str, Tensor], tasks: Sequence[str]) -> dict[str, Tensor]:
    """Return their outputs in our layout: one row for each token or text that is no padding."""
    if getattr(theirs.config, "type_vocab_size", 1) == 1:
        inputs.pop("token_type_ids")
    is_real = inputs["attention_mask"].bool()
    body, told = theirs.base_model(**inputs), theirs(**inputs)
    rows = {"hidden": body.last_hidden_state[is_real]}
    if body.get("pooler_output") is not None:
        rows["pooled"] = body.pooler_output
    for task in tasks:
        logits = next(told[key] for key in THEIR_LOGITS[task] if key in told)
        rows[task] = logits[is_real] if task in BY_TOKEN else logits
        if task == "replaced_token":
            rows[task] = rows[task].unsqueeze(-1)
    return rows
