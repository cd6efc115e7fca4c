"""Locks that die with the process that holds them."""

import fcntl
import os
from pathlib import Path


def hold(path: Path) -> bool:
    """Lock a file until this process ends; tell whether it was free.

    The lock belongs to the process, not to the workers that it forks, so that those cannot keep it
    when the process is killed. A file system that knows no locks refuses nobody.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # never closed, for that would free it
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(handle)
        return False
    except OSError:
        os.close(handle)
    return True
