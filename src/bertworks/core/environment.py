"""The environment: what must stand there before torch is loaded, and what a user has said there."""

import os

# Threads that wait for one another spin for a while. On a machine that does other work too, the
# spinning keeps that work from ending: steps took several times as long (docs/experiments.md).
SPINS = {"GOMP_SPINCOUNT": "3000"}


def share_cores() -> None:
    """Let idle threads give their core away soon, unless the user has decided otherwise."""
    for name, value in SPINS.items():
        os.environ.setdefault(name, value)  # noqa: TID251


def chose_malloc() -> bool:
    """Tell whether the user has told the C library how to deal with memory."""
    named = any(name.startswith("MALLOC_") for name in os.environ)  # noqa: TID251
    return named or "malloc" in os.environ.get("GLIBC_TUNABLES", "")  # noqa: TID251
