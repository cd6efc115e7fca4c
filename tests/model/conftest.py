"""Batches of random texts for the tests of the network, and a place where its kernels run."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import isnan
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

import bertworks.model
from bertworks.data.packing import Features
from bertworks.model import fused

MakeTexts = Callable[..., list[Features]]
Modules = dict[str, ModuleType]
KERNELS = ("row_kernels", "attention_kernels")
# Triton's compiled part is the same for all, and cannot be loaded twice.
TRITON = re.compile(rf"triton(?!\._C)(\.|$)|bertworks\.model\.({'|'.join(KERNELS)})$")


@pytest.fixture(scope="session")
def make_texts() -> MakeTexts:
    """Return texts of the wanted lengths with random tokens and a second segment in some."""

    def make(lengths: Sequence[int], *, vocab_size: int, seed: int = 0) -> list[Features]:
        random = np.random.default_rng(seed)
        return [
            Features(
                random.integers(vocab_size, size=length),
                (np.arange(length) >= random.integers(1, length + 2)).astype(np.int64),
                example=number,
            )
            for number, length in enumerate(lengths)
        ]

    return make


@dataclass(frozen=True)
class Place:
    """Where kernels run, and how near they come to the plain formula there."""

    device: torch.device
    dtype: torch.dtype
    tolerance: float

    def draw(self, *shape: int, seed: int) -> Tensor:
        """Draw normal numbers that this place can hold."""
        random = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=random).to(self.device, self.dtype)

    def gap(
        self, ours: Callable[..., Tensor], plain: Callable[..., Tensor], *read: Tensor
    ) -> float:
        """Return by how much the values and gradients of two functions differ, at the worst.

        The plain one reads the same numbers in single precision at the least.
        """
        precise = [x if x.dtype == torch.float64 else x.float() for x in read]
        pairs = zip(self._run(ours, read), self._run(plain, precise), strict=True)
        return max(self.distance(found, expected) for found, expected in pairs)

    def distance(self, found: Tensor | None, expected: Tensor | None) -> float:
        """Return the length of the difference, by that of what is expected; None is zero."""
        found = torch.zeros_like(expected) if found is None else found
        expected = torch.zeros_like(found) if expected is None else expected
        assert found.shape == expected.shape
        length = float(expected.double().norm())
        distance = float((found.double() - expected.double()).norm()) / (length or 1.0)
        return float("inf") if isnan(distance) else distance

    def _run(self, function: Callable[..., Tensor], read: Sequence[Tensor]) -> list[Tensor | None]:
        leaves = [x.detach().clone().requires_grad_() for x in read]
        made = function(*leaves)
        outs = made if isinstance(made, tuple) else (made,)
        upstream = [self.draw(*x.shape, seed=n).to(x.dtype) for n, x in enumerate(outs, start=17)]
        gradients = torch.autograd.grad(outs, leaves, upstream, allow_unused=True)
        return [*(x.detach() for x in outs), *gradients]


@pytest.fixture(scope="session")
def interpreted() -> Iterator[Modules]:
    """Keep the Triton that interprets, beside the one that others may have imported."""
    modules: Modules = {}
    yield modules
    # Python clears known modules when it ends; of others Triton says that they leak.
    sys.modules.update({f"interpreted.{name}": module for name, module in modules.items()})


@pytest.fixture
def interpreter(interpreted: Modules, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Send this test's tensors through the kernels, in Triton's interpreter.

    Triton decides how kernels run when it is imported, with the kernels and with itself.
    """
    before = _take_triton_out()
    sys.modules.update(interpreted)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for name in KERNELS:
        kernels = import_module(f"bertworks.model.{name}")
        monkeypatch.setattr(bertworks.model, name, kernels)
    monkeypatch.setattr(fused, "is_fused", lambda _: True)
    yield Place(torch.device("cpu"), torch.float32, 1e-5)
    interpreted.update(_take_triton_out())
    sys.modules.update(before)


@pytest.fixture
def gpu() -> Place:
    """Compute on the GPU in half precision."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return Place(torch.device("cuda"), torch.bfloat16, 1e-2)


@pytest.fixture(params=["interpreter", pytest.param("gpu", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> Place:
    """Run the kernels in the interpreter and, where one is asked for, on a GPU."""
    return request.getfixturevalue(request.param)


def _take_triton_out() -> Modules:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if TRITON.match(name)}
