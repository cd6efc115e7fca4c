"""What must stand in the environment before torch is loaded."""

import os

# Threads that wait for one another spin for a while. On a machine that does other work too, the
# spinning keeps that work from ending: steps took several times as long (docs/experiments.md).
SPINS = {"GOMP_SPINCOUNT": "3000"}


def share_cores() -> None:
    """Let idle threads give their core away soon, unless the user has decided otherwise."""
    for name, value in SPINS.items():
        os.environ.setdefault(name, value)  # noqa: TID251
