"""What is installed: each pinned version with the sha256 of its files."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SUPPLY = ROOT / "supply"
PINNED = (ROOT / "constraints.txt").read_text(encoding="utf-8")
ENTRY = re.compile(r"([\w.-]+==[\w.+!-]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_hashes", SUPPLY / "write_hashes.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(name: str) -> dict[str, set[str]]:
    """Return the pins of a list with their hashes; all of its lines must be understood."""
    head, _, text = (SUPPLY / name).read_text(encoding="utf-8").partition("\n")
    assert head.startswith("# Written by")
    assert ENTRY.sub("", text) == ""
    return {pin: set(re.findall("[0-9a-f]{64}", hashes)) for pin, hashes in ENTRY.findall(text)}


def test_every_pinned_version_has_the_hashes_of_its_files(lock: Any) -> None:
    pins = lock.read_pins(PINNED)
    assert sum(map(len, pins.values())) > 100
    for name, expected in pins.items():
        assert list(listed(name)) == expected, f"run `make hashes`: {name} is not constraints.txt"


def test_torch_is_known_with_and_without_cuda() -> None:
    (with_cuda,) = [pin for pin in listed("hashes-cuda.txt") if pin.startswith("torch==")]
    assert list(listed("hashes-cpu.txt")) == [f"{with_cuda}+cpu"]


def test_no_file_has_two_names() -> None:
    names = ("hashes.txt", "hashes-build.txt", "hashes-cuda.txt", "hashes-cpu.txt")
    hashes = [one for name in names for found in listed(name).values() for one in found]
    assert len(hashes) == len(set(hashes))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a_b-1.2-py3-none-any.whl", True),
        ("a.b-1.2-py2.py3-none-any.whl", True),
        ("A_B-1.2-7-py3-none-any.whl", True),
        ("a_b-1.2-py3-none-manylinux_2_28_aarch64.whl", True),
        ("a_b-1.2-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", True),
        ("a_b-1.2-cp313-cp313-manylinux_2_28_x86_64.whl", True),
        ("a_b-1.2-cp38-abi3-manylinux_2_28_x86_64.whl", True),
        ("a_b-1.2-cp312-none-manylinux_2_28_x86_64.whl", True),
        ("a_b-1.2-cp314-cp314-manylinux_2_28_x86_64.whl", False),
        ("a_b-1.2-cp313-cp313t-manylinux_2_28_x86_64.whl", False),
        ("a_b-1.2-cp314-abi3-manylinux_2_28_x86_64.whl", False),
        ("a_b-1.2-py2-none-any.whl", False),
        ("a_b-1.2-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", False),
        ("a_b-1.2-cp311-cp311-win_amd64.whl", False),
        ("a_b-1.2-cp311-cp311-manylinux_2_28_i686.whl", False),
        ("a_b-1.2-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("a_b-1.20-py3-none-any.whl", False),
        ("a_b-1.2+cpu-py3-none-any.whl", False),
        ("a_b_c-1.2-py3-none-any.whl", False),
        ("a_b-1.2.tar.gz", False),
    ],
)
def test_wheels_for_linux_and_our_pythons_are_taken(lock: Any, name: str, expected: bool) -> None:
    assert lock.is_wheel_for_us(name, "a-b", "1.2") is expected


def test_source_is_taken_only_where_there_is_no_wheel(lock: Any) -> None:
    one, two, three = ("1" * 64, "2" * 64, "3" * 64)
    source = {"a_b-1.2.tar.gz": one, "a_b-1.1.tar.gz": two}
    assert lock.entry("a.b==1.2", source) == f"a.b==1.2 \\\n    --hash=sha256:{one}\n"
    both = {**source, "a_b-1.2-py3-none-any.whl": three}
    assert lock.entry("a.b==1.2", both) == f"a.b==1.2 \\\n    --hash=sha256:{three}\n"


def test_a_version_without_files_is_refused_in_a_sentence(lock: Any) -> None:
    with pytest.raises(SystemExit, match=r"no file of a==1\.2 is known; pin another version"):
        lock.entry("a==1.2", {"a-1.3.tar.gz": "1" * 64})


def test_the_files_of_a_page_are_read_with_their_names_as_they_are(lock: Any) -> None:
    page = f'<a href="https://b.c/d/torch-2.1%2Bcpu-py3-none-any.whl#sha256={"a" * 64}" e="f">g</a>'
    assert lock.files_of(page) == {"torch-2.1+cpu-py3-none-any.whl": "a" * 64}


def test_the_sha256_of_a_file_is_that_of_its_bytes(lock: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert lock.digest(tmp_path / "a").startswith("ba7816bf8f01cfea")
