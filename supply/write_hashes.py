"""Write the sha256 of every file of the pinned versions that an installation may take.

python supply/write_hashes.py                     ask PyPI for the files of constraints.txt
python supply/write_hashes.py --wheels FOLDER     and a folder for torch without CUDA (+cpu)
"""

import argparse
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import file_digest
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

INDEX = "https://pypi.org/simple"
ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "constraints.txt"
LISTS = {  # the headings of constraints.txt, and where their files go
    "# Exact versions that `make` installs.": "hashes.txt",
    "# What builds packages from their source.": "hashes-build.txt",
    "# Torch, and what it needs for CUDA as PyPI has it.": "hashes-cuda.txt",
}
FOR_CPU = "hashes-cpu.txt"
PYTHONS = range(11, 14)  # 3.11 to 3.13
LINK = re.compile(r'href="[^"]*/([^"/#]+)#sha256=([0-9a-f]{64})"')
LINUX = re.compile(r"any|manylinux\w+_(x86_64|aarch64)")
HEAD = "# Written by supply/write_hashes.py: the files of constraints.txt, for Linux.\n"


def main() -> None:
    """Write all lists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--wheels", type=Path, help="a folder with wheels of torch for CPUs")
    folder = parser.parse_args().wheels
    pins = read_pins(PINS.read_text(encoding="utf-8"))
    for name, listed in pins.items():
        with ThreadPoolExecutor(8) as pool:
            pages = list(pool.map(page_of, listed))
        write(name, [entry(pin, files_of(page)) for pin, page in zip(listed, pages, strict=True)])
    if folder is not None:
        near = {path.name: digest(path) for path in sorted(folder.glob("*.whl"))}
        torch = next(pin for listed in pins.values() for pin in listed if pin.startswith("torch="))
        write(FOR_CPU, [entry(f"{torch}+cpu", near)])


def write(name: str, entries: list[str]) -> None:
    """Write one list."""
    (ROOT / "supply" / name).write_text(HEAD + "".join(entries), encoding="utf-8")
    sys.stdout.write(f"supply/{name}: {len(entries)} versions\n")


def read_pins(text: str) -> dict[str, list[str]]:
    """Return the pins that belong to each list."""
    pins: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if line.startswith("#"):
            pins[LISTS[line]] = []
        else:
            pins[list(pins)[-1]].append(line)
    return pins


def page_of(pin: str) -> str:
    """Ask the index for the files of a pinned package."""
    with urlopen(f"{INDEX}/{plain(pin.partition('==')[0])}/", timeout=60) as answer:
        return str(answer.read(), "utf-8")


def files_of(page: str) -> dict[str, str]:
    """Return the files that a page of the index names, with their sha256."""
    return {unquote(name): found for name, found in LINK.findall(page)}


def entry(pin: str, files: dict[str, str]) -> str:
    """Return the lines of a pin: its wheels for us, or its source where it has none."""
    package, _, version = pin.partition("==")
    wheels = {found for name, found in files.items() if is_wheel_for_us(name, package, version)}
    source = f"{plain(package)}-{version}.tar.gz"
    hashes = wheels or {found for name, found in files.items() if _as_source(name) == source}
    if not hashes:
        raise SystemExit(f"no file of {pin} is known; pin another version")
    return " \\\n    ".join([pin, *(f"--hash=sha256:{one}" for one in sorted(hashes))]) + "\n"


def is_wheel_for_us(name: str, package: str, version: str) -> bool:
    """Tell whether a file is a wheel of a version that Linux and our Pythons may take."""
    parts = name.removesuffix(".whl").split("-")
    if not name.endswith(".whl") or len(parts) not in (5, 6):
        return False
    python, abi, platform = parts[-3:]
    is_version = plain(parts[0]) == plain(package) and parts[1] == version
    return is_version and _fits(python, abi) and any(map(LINUX.fullmatch, platform.split(".")))


def _fits(python: str, abi: str) -> bool:
    if abi == "none" and "py3" in python.split("."):
        return True
    numbers = [int(found) for found in re.findall(r"cp3(\d+)", python)]
    if abi == "abi3":
        return any(number < PYTHONS.stop for number in numbers)
    return any(number in PYTHONS and abi in ("none", f"cp3{number}") for number in numbers)


def _as_source(name: str) -> str:
    package, _, rest = name.rpartition("-")
    return f"{plain(package)}-{rest}"


def plain(package: str) -> str:
    """Return the one spelling of a package's name that the index knows."""
    return re.sub(r"[-_.]+", "-", package).lower()


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
