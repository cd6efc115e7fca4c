"""What tests of several areas share: a small tokenizer, a small network, a machine."""

import pytest
import torch
from hypothesis import HealthCheck, settings

from bertworks.core.device import Machine
from bertworks.model.config import EncoderConfig
from bertworks.tokenizer.learn import learn_wordpiece
from bertworks.tokenizer.tokenizer import Tokenizer

# The same examples in every run, no clock in the verdict, nothing written beside the tests.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")

SENTENCES = (
    "The cat sat on the mat and looked at the dog.",
    "A dog ran over the hill, and the cat stayed where the cat was.",
    "Paris is the capital of France; the river runs through the city.",
    "Die Katze sitzt auf der Matte, und der Hund läuft über den Hügel.",
    "我们今天在北京学习中文。北京是中国的首都。",
    "Numbers such as 3, 14 and 159 are split from words like these!",
)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Keep to one thread: tiny tensors gain nothing from more, and wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def denormal_numbers() -> None:
    """Give each test numbers of all sizes again: preparing a device flushes the smallest ones."""
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Learn a vocabulary of a few hundred pieces in three languages."""
    return learn_wordpiece(lambda: SENTENCES * 3, size=307, cased=False)


@pytest.fixture(scope="session")
def config(tokenizer: Tokenizer) -> EncoderConfig:
    """Describe a network with odd sizes, three heads of seven, for the small tokenizer."""
    return EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=21,
        num_layers=3,
        num_heads=3,
        feed_forward_size=37,
        max_positions=67,
        init_deviation=0.3,
    )


@pytest.fixture(scope="session")
def machine() -> Machine:
    """Compute on the CPU in single precision."""
    return Machine(torch.device("cpu"), "fp32")
