"""A process that runs functions of test files in forked children, which form a crew.

Importing torch is paid once, here. One JSON line in: the file, the function, its arguments, how
many children, the seconds after which one counts as lost; without these the function is called
with its rank and joins the crew itself. One JSON line out: of each child its exit code, what the
function returned, and what was said.
"""

import importlib.util
import json
import os
import socket
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, sys.argv[1])

import pytest  # noqa: F401 (this and the next ones would be imported by every child)
import torch._dynamo
import torch.distributed.fsdp

from bertworks.core.crew import joined
from bertworks.core.errors import BertworksError
from bertworks.stages import pretrain  # noqa: F401


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def live(order: dict[str, Any], rank: int, files: Path) -> None:
    """Take part in a crew; errors that are meant for users are results too."""
    said = os.open(files / f"said-{rank}", os.O_WRONLY | os.O_CREAT)
    for handle in (1, 2):
        os.dup2(said, handle)
    code = 70
    try:
        spec = importlib.util.spec_from_file_location("crew_test", order["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules["crew_test"] = module
        spec.loader.exec_module(module)
        function = getattr(module, order["name"])
        try:
            if not order["patience"]:
                result = function(rank, *order["args"])
            else:
                with joined(patience=order["patience"]) as crew:
                    result = function(crew, *order["args"])
        except BertworksError as error:
            result = f"{type(error).__name__}: {error}"
        (files / f"result-{rank}").write_text(json.dumps(result))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def started(order: dict[str, Any], files: Path) -> list[int]:
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    children = []
    for rank in range(order["size"]):
        child = os.fork()
        if not child:
            ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": order["size"]}
            os.environ.update(where | {name: str(n) for name, n in ranks.items()})  # noqa: TID251
            live(order, rank, files)
        children.append(child)
    return children


torch.set_num_threads(1)
for line in sys.stdin:
    with TemporaryDirectory() as folder:
        files = Path(folder)
        codes = [
            os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for child in started(json.loads(line), files)
        ]
        ended = []
        for rank, code in enumerate(codes):
            result = files / f"result-{rank}"
            found = json.loads(result.read_text()) if result.exists() else None
            ended.append((code, found, (files / f"said-{rank}").read_text()))
    sys.stdout.write(json.dumps(ended) + "\n")
    sys.stdout.flush()
