"""Models that come with the package: found by name, and behind what lies on the disk."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from bertworks.core.artifact import check_artifact, name_input, open_artifact, sha256_of
from bertworks.core.errors import ArtifactError
from bertworks.core.shipped import PLACE, find_model, shipped_models, shown

ROOT = Path(__file__).parents[2]
NEEDED = {"README.md", "config.json", "bertworks.json", "manifest.json"}


@pytest.fixture
def shipped(ship, tmp_path: Path) -> Path:
    """Ship a folder that is called little-en, and one without a manifest."""
    folder = tmp_path / "made"
    folder.mkdir()
    ship(folder, "half-made")
    (folder / "manifest.json").write_text("{}")
    return ship(folder, "little-en")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_folder_with_a_manifest_is_all_that_a_shipped_model_needs(shipped: Path) -> None:
    assert shipped_models() == {"little-en": shipped}


@pytest.mark.usefixtures("elsewhere")
def test_a_name_becomes_its_folder_and_a_path_stays(shipped: Path, tmp_path: Path) -> None:
    assert find_model(Path("little-en")) == shipped
    for path in (Path("little-zh"), Path("half-made"), Path("some/little-en"), tmp_path, Path()):
        assert find_model(path) == path


@pytest.mark.usefixtures("shipped")
def test_a_folder_on_the_disk_comes_first_and_that_is_said(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "little-en").mkdir()
    assert find_model(Path("little-en")) == Path("little-en")
    said = capsys.readouterr().err
    assert said.startswith(f"little-en is the folder in {elsewhere}, not the model of this name")
    assert find_model(Path("little-en")) == Path("little-en")
    assert capsys.readouterr().err == ""  # it has been said
    (elsewhere / "other").mkdir()
    assert find_model(Path("other")) == Path("other")
    assert capsys.readouterr().err == ""


def test_a_model_that_has_lost_its_manifest_is_said_to_be_damaged(shipped: Path) -> None:
    (shipped / "config.json").write_text("{}")
    (shipped / "manifest.json").unlink()
    assert shipped_models() == {"little-en": shipped}
    with pytest.raises(ArtifactError, match=r"has no manifest\.json: .*; reinstall bertworks"):
        check_artifact(shipped, "model")


def test_a_shipped_folder_is_shown_by_its_name(shipped: Path) -> None:
    assert shown(shipped) == "little-en"
    assert find_model(Path(shown(shipped))) == shipped
    assert shown(Path("a/little-en")) == "a/little-en"
    named = {"path": "little-en", "sha256": sha256_of(shipped / "manifest.json")}
    assert name_input(shipped) == named


def test_the_place_is_a_part_of_the_package() -> None:
    assert PLACE == ROOT / "src" / "bertworks" / "models"
    assert (PLACE / "__init__.py").is_file()


def test_the_wheel_takes_along_every_file_of_a_model() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build = project["tool"]["hatch"]["build"]
    assert build.keys() == {"targets"}  # nothing is left out for all targets
    wheel = build["targets"]["wheel"]
    assert wheel["packages"] == ["src/bertworks"]
    assert not wheel.keys() & {"exclude", "include", "only-include"}
    files = ["README.md", "manifest.json", "model.int8.safetensors", "1_Pooling/config.json"]
    paths = [str(PLACE / "bertworks-en" / name) for name in files]
    done = subprocess.run(  # what git ignores, the wheel leaves out
        ["git", "check-ignore", "--no-index", *paths, str(ROOT / "build" / "x")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [str(ROOT / "build" / "x")]


def faults(place: Path) -> list[str]:
    """Return what is wrong with the folders of shipped models."""
    folders = [path for path in sorted(place.iterdir()) if (path / "config.json").is_file()]
    found = [
        f"{f.name} lacks {name}" for f in folders for name in NEEDED if not (f / name).exists()
    ]
    for folder in folders:
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if size > 48 << 20:
            found.append(f"{folder.name} takes {size} bytes")
        if (folder / "manifest.json").is_file():
            open_artifact(folder, "model")
    return found


def test_what_is_shipped_is_whole_and_small(tmp_path: Path) -> None:
    assert faults(PLACE) == []
    odd = tmp_path / "odd" / "big"
    odd.mkdir(parents=True)
    for name in NEEDED - {"manifest.json"}:
        (odd / name).write_text("{}")
    with (odd / "model.safetensors").open("wb") as file:
        file.truncate(49 << 20)
    assert len(faults(tmp_path / "odd")) == 2
