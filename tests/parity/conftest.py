"""Both sides of a comparison: random networks of odd sizes, the same texts flat and padded."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig

from bertworks.core.batch import Batch, Target
from bertworks.data.packing import Features, flatten
from bertworks.tokenizer.learn import learn_wordpiece
from bertworks.tokenizer.tokenizer import Tokenizer

VOCAB_SIZE = 97
SENTENCES = (
    "the cat sat on the mat near the hat",
    "a dog ran from the cat to the man on the hill",
    "zwei Hunde über 北京 3 14 !",
)


@pytest.fixture(scope="session")
def pieces() -> Tokenizer:
    """Learn a vocabulary that fits into the small networks."""
    return learn_wordpiece(lambda: SENTENCES * 3, size=VOCAB_SIZE, cased=False)


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
def roughen() -> Callable[..., nn.Module]:
    """Draw every weight anew, also norms and biases, from the seed alone."""

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


@pytest.fixture(scope="session")
def draw_texts() -> Callable[..., list[Features]]:
    """Draw texts and pairs of the wanted lengths, without the padding piece."""

    def draw(lengths: Sequence[int], *, seed: int, vocab_size: int = VOCAB_SIZE) -> list[Features]:
        random = np.random.default_rng(seed)
        return [
            Features(
                random.integers(1, vocab_size, size=length),
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
        return Batch(
            **{**vars(batch), "targets": {"fill_mask": Target(torch.zeros_like(batch.tokens))}}
        )

    return make


@pytest.fixture(scope="session")
def padded() -> Callable[[list[Features]], dict[str, Tensor]]:
    """Lay texts side by side as the other library wants them, with a mask over the padding."""

    def make(texts: list[Features]) -> dict[str, Tensor]:
        shape = (len(texts), max(len(text.tokens) for text in texts))
        names = ("input_ids", "token_type_ids", "attention_mask")
        inputs = {name: torch.zeros(shape, dtype=torch.long) for name in names}
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
