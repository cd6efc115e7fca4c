"""Model folders that mean harm: code where weights should be, and headers that lie."""

import io
import json
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fault_site import SOURCES, Site, Verdict

MIB = 1 << 20
PLACES = (  # where loaders of other libraries look
    "model.safetensors", "pytorch_model.bin", "model.pt", "model.pth", "training_args.bin",
    "optimizer.pt", "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
    "modules.json", "special_tokens_map.json", "1_Pooling/config.json", "1_Dense/pytorch_model.bin",
    "sentence_bert_config.json", "model.onnx", "model.mar", "model.tar", "manifest.json",
)  # fmt: skip
OPEN = """
import shutil, sys
from contextlib import suppress
from pathlib import Path
import bertworks
from bertworks.cli.main import main
from bertworks.service.models import Models
from bertworks.serving.vector_files import read_ranges
canary, *folders = map(Path, sys.argv[1:])
def serve(folder):
    Models.open([str(folder)]).stop(0.0)
def take_over(folder):
    main(["import", str(folder), "--out", str(folder / "out")])
def embed(folder):
    bertworks.load(folder, device="cpu").embed(["the cat"])
def read(folder):
    read_ranges(folder / "ranges.npy")
for folder in folders:
    for open_it in (serve, take_over, embed, read):
        with suppress(BaseException):
            open_it(folder)
        print(canary.exists(), flush=True)
        canary.unlink(missing_ok=True)
"""
MEASURE = """
import json, sys, time
from pathlib import Path
from bertworks.core.errors import BertworksError
from bertworks.model.weights import TensorFiles
def held(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))
for file in map(Path, sys.argv[1:]):
    Path("/proc/self/clear_refs").write_text("5")
    before, began, error = held("VmRSS"), time.process_time(), None
    try:
        for tensor in TensorFiles([file]).values():
            del tensor
    except BertworksError as caught:
        error = str(caught)
    print(json.dumps([error, time.process_time() - began, held("VmHWM") - before]), flush=True)
"""


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.canary,)


def hostile_pickles(site: Site, share: float) -> Iterator[Verdict]:
    """X1: code in a model folder is never run, whatever opens the folder."""
    canary, places = site.folder / "canary", PLACES if share >= 0.1 else PLACES[:3]
    told = list[str]()
    for bomb in make_bombs(canary).values():
        folders = [_with_file(site, place, bomb) for place in places]
        told += _run(OPEN, canary, *folders).split()
    wanted = 4 * 4 * len(places)
    yield Verdict("X1", f"{wanted} openings of folders with code: none runs",
                  f"{told.count('True')} ran of {len(told)}",
                  told == ["False"] * wanted)  # fmt: skip
    file = folders[0] / "careless"
    file.write_bytes(make_bombs(canary)["pickle"])
    _run(f"import pickle; pickle.load(open({str(file)!r}, 'rb'))")
    yield Verdict("X1 control", "a careless loader runs it", f"canary {canary.exists()}",
                  canary.exists())  # fmt: skip


def make_bombs(canary: Path) -> dict[str, bytes]:
    """Return files that run code in a loader that trusts them."""
    zipped, array, archive = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save({"encoder.weight": Bomb(canary)}, zipped)
    np.save(array, np.array([Bomb(canary)], dtype=object), allow_pickle=True)
    with tarfile.open(fileobj=archive, mode="w") as out:
        out.addfile(tarfile.TarInfo(f"../../../../../../../../{canary}"), io.BytesIO(b""))
    return {
        "pickle": pickle.dumps(Bomb(canary)),
        "torch": zipped.getvalue(),
        "array": array.getvalue(),
        "archive": archive.getvalue(),
    }


def _with_file(site: Site, place: str, content: bytes) -> Path:
    folder = site.folder / "hostile" / place.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(site.model("a"), folder)
    if place != "manifest.json":
        (folder / "manifest.json").unlink(missing_ok=True)  # a foreign folder has none
    for file in (place, "ranges.npy"):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).unlink(missing_ok=True)
        (folder / file).write_bytes(content)
    return folder


def _run(code: str, *words: object) -> str:
    """Run some Python in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"},
    )
    return done.stdout


def hostile_headers(site: Site, share: float) -> Iterator[Verdict]:
    """X2: a file that lies about its tensors is refused quickly and in little memory."""
    count, folder = max(50, round(1000 * share)), site.folder / "headers"
    folder.mkdir(exist_ok=True)
    whole = (site.model("a") / "model.safetensors").read_bytes()
    chance, files = random.Random(7), list[Path]()
    for number in range(count):
        files.append(folder / f"{number}.safetensors")
        files[-1].write_bytes(damage(whole, chance))
    found = [measured for at in range(0, count, 200) for measured in _measure(files[at : at + 200])]
    wrong = Counter(_verdict(own, len(whole)) for own in found)
    yield Verdict("X2", f"{count} damaged headers: refused in a sentence, or read",
                  f"{dict(wrong)}",
                  len(found) == count and set(wrong) <= {"refused", "read"})  # fmt: skip
    for name, content in huge_headers():
        file = folder / "huge.safetensors"
        file.write_bytes(content)
        (own,) = _measure([file]) or [[None, 99.0, 9999.0]]
        told = f"{own[1]:.1f} s, {own[2]:.0f} MB for {len(content) / MIB:.0f}, {own[0]!s:.40}"
        yield Verdict("X2", f"{name}: <= 5 s, <= 2x its size", told,
                      own[1] <= 5 and own[2] <= 2 * len(content) / MIB + 20)  # fmt: skip
    file.write_bytes(whole)
    (own,) = _measure([file])
    yield Verdict("X2 control", "a sound file is read", f"{own[0]}", own[0] is None)


def _measure(files: list[Path]) -> list[list[Any]]:
    return [json.loads(line) for line in _run(MEASURE, *files).splitlines()]


def _verdict(own: list[Any], size: int) -> str:
    if own[1] > 5 or own[2] > 2 * size / MIB + 20:
        return f"{own[1]:.1f} s, {own[2]:.0f} MB"
    return "read" if own[0] is None else "refused"


def damage(whole: bytes, chance: random.Random) -> bytes:
    """Return a file of tensors with a lie in its header, or without its end."""
    (size,) = struct.unpack("<Q", whole[:8])
    header, data = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    if chance.random() < 0.3:
        return whole[: chance.randrange(len(whole))]
    name = chance.choice([name for name in header if name != "__metadata__"])
    begin, end = header[name]["data_offsets"]
    header[name] |= chance.choice(
        [
            {"data_offsets": [begin - chance.randint(1, 99), end]},
            {"data_offsets": [end, begin]},
            {"data_offsets": [-begin - 1, end]},
            {"data_offsets": [begin, 2**64 - 1]},
            {"data_offsets": [begin, 10**40]},
            {"shape": [2**33, 2**33]},
            {"shape": [-1, 5]},
            {"shape": [1] * 5000},
            {"dtype": chance.choice(["F99", "", None, 7])},
        ]
    )
    text = json.dumps(header).encode()
    claimed = chance.choice([len(text)] * 8 + [0, 2**63, len(text) + 1, len(whole) * 9])
    return struct.pack("<Q", claimed) + text + data


def huge_headers() -> Iterator[tuple[str, bytes]]:
    """Return files whose headers are mostly header."""
    tensors = {
        f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(10**5)
    }
    text = json.dumps(tensors).encode()
    yield "100,000 tensors", struct.pack("<Q", len(text)) + text
    padded = json.dumps({"__metadata__": {"a": "x" * 99_000_000}}).encode()
    yield "a header of 99 million bytes", struct.pack("<Q", len(padded)) + padded
    yield "a header that claims 2 ** 62", struct.pack("<Q", 2**62) + padded[:1000]
