"""Memory that was freed is kept where it is needed again, and given back where it is not."""

import subprocess
import sys

import pytest

from bertworks.core import freed_memory
from bertworks.core.freed_memory import give_back, kept

# How many pages the system had to lend for 40 blocks of 64 MiB, of which one is there at a time,
# and how much the process holds after all of them are freed.
COUNT = """
import ctypes, resource, sys
from contextlib import nullcontext
from bertworks.core.freed_memory import kept

c = ctypes.CDLL(None)
c.malloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
size = 64 << 20

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

with kept() if sys.argv[1] != "plain" else nullcontext():
    with kept() if sys.argv[1] == "nested" else nullcontext():
        pass
    before = pages()
    for _ in range(40):
        block = c.malloc(ctypes.c_size_t(size))
        ctypes.memset(block, 1, size)
        c.free(block)
    lent = (pages() - before) * resource.getpagesize() / size
held = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / size
print(lent, held)
"""
has_glibc = freed_memory._function("mallopt") is not None and sys.platform == "linux"


def count(how: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, how], capture_output=True, text=True, check=True
    )
    lent, held = map(float, done.stdout.split())
    return lent, held


@pytest.mark.skipif(not has_glibc, reason="keeping and giving back are glibc's")
@pytest.mark.parametrize("how", ["kept", "nested"])
def test_kept_memory_is_lent_once_and_given_back_at_the_end(how: str) -> None:
    lent, held = count(how)
    assert lent < 2
    assert held < 1


@pytest.mark.skipif(not has_glibc, reason="keeping and giving back are glibc's")
def test_other_memory_is_lent_each_time() -> None:
    lent, _ = count("plain")
    assert lent > 20


@pytest.mark.skipif(not has_glibc, reason="keeping and giving back are glibc's")
@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_ARENA_MAX", "2"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=65536")],
)
def test_what_a_user_tells_the_c_library_stays(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    lent, _ = count("kept")
    assert lent > 20


def test_keeping_and_giving_back_can_always_be_asked_for() -> None:
    with kept(), kept():
        give_back()
        assert freed_memory._keepers
    assert not freed_memory._keepers
    with pytest.raises(ZeroDivisionError), kept():
        _ = 1 / 0
    assert not freed_memory._keepers


def test_without_a_c_library_that_knows_of_it_nothing_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(freed_memory, "_function", lambda name: None)
    with kept():
        give_back()
