"""Bases are known by their weights, and found by their names or from beside the folder."""

import json
import shutil
from pathlib import Path

import pytest

from bertworks.core.artifact import Origin, seal
from bertworks.core.errors import ArtifactError
from bertworks.interop.bases import NOTE, find_base, note_base
from bertworks.model.weights import DIFFERENCE, INT8_WEIGHTS, WEIGHTS


def make(folder: Path, **files: str) -> Path:
    """Make a folder of another library: files alone, and no manifest that knows them."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make(tmp_path / "base", **{WEIGHTS: "many numbers", "config.json": "{}"})


@pytest.fixture
def tuned(base: Path, tmp_path: Path) -> Path:
    """Make a folder whose weights are told against those of the base."""
    tuned = make(tmp_path / "tuned", **{DIFFERENCE: "few numbers"})
    note_base(tuned, base)
    return tuned


def test_the_base_is_found_where_it_was(tuned: Path, base: Path) -> None:
    assert json.loads((tuned / NOTE).read_text()).keys() == {"place", "sha256"}
    assert find_base(tuned) == base


def test_both_may_go_elsewhere_together(tuned: Path, base: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for folder in (tuned, base):
        shutil.move(folder, tmp_path / "far" / folder.name)
    assert find_base(tmp_path / "far" / "tuned") == tmp_path / "far" / "base"


def test_a_folder_that_is_called_by_another_path_has_the_same_base(
    tuned: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tuned)
    assert find_base(Path()) == base
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(tuned)
    assert find_base(tmp_path / "elsewhere" / "link") == base


def test_other_weights_are_another_base_and_other_files_are_not(tuned: Path, base: Path) -> None:
    (base / "README.md").write_text("a card")
    assert find_base(tuned) == base
    (base / WEIGHTS).write_text("other numbers")
    with pytest.raises(ArtifactError, match=r"has other weights than the model that .*tuned was"):
        find_base(tuned)


def test_weights_of_several_parts_are_known_by_all_of_them(tmp_path: Path) -> None:
    names = {"a": "one.safetensors", "b": "two.safetensors"}
    index = json.dumps({"weight_map": names})
    files = {f"{WEIGHTS}.index.json": index, **dict.fromkeys(names.values(), "numbers")}
    base = make(tmp_path / "parts", **files)
    tuned = make(tmp_path / "tuned")
    note_base(tuned, base)
    assert find_base(tuned) == base
    (base / "two.safetensors").write_text("other numbers")
    with pytest.raises(ArtifactError, match="has other weights"):
        find_base(tuned)
    (base / "two.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"there is no .*two\.safetensors; fetch the folder"):
        find_base(tuned)


def test_a_base_may_stand_on_another_and_is_then_known_by_both(
    tuned: Path, base: Path, tmp_path: Path
) -> None:
    third = make(tmp_path / "third")
    note_base(third, tuned)
    assert find_base(third) == tuned
    (base / WEIGHTS).write_text("other numbers")
    note_base(tuned, base)  # the same difference, of another model
    with pytest.raises(ArtifactError, match=r"has other weights than the model that .*third was"):
        find_base(third)


def test_a_base_that_came_with_the_package_is_found_by_its_name_alone(
    base: Path, tmp_path: Path, ship
) -> None:
    seal(base, "model", Origin())
    own = ship(base, "little-en")
    tuned = make(tmp_path / "far" / "tuned")
    note_base(tuned, own)
    assert json.loads((tuned / NOTE).read_text()).keys() == {"name", "sha256"}
    assert find_base(tuned) == own
    shutil.rmtree(own)
    with pytest.raises(ArtifactError, match=r"the model little-en that comes with .* install one"):
        find_base(tuned)


def test_weights_in_int8_are_known_too(tmp_path: Path) -> None:
    base = make(tmp_path / "small", **{INT8_WEIGHTS: "small numbers"})
    tuned = make(tmp_path / "tuned")
    note_base(tuned, base)
    assert find_base(tuned) == base


@pytest.mark.parametrize("told", [{}, {"name": 3}, {"place": "/somewhere"}, {"place": None}])
def test_a_note_that_names_no_model_is_refused(tuned: Path, told: dict[str, object]) -> None:
    (tuned / NOTE).write_text(json.dumps({**told, "sha256": "0"}))
    with pytest.raises(ArtifactError, match=r"base\.json names no model; make or fetch"):
        find_base(tuned)


def test_a_base_that_is_gone_is_asked_for_in_its_place(tuned: Path, base: Path) -> None:
    shutil.rmtree(base)
    with pytest.raises(ArtifactError, match=r"/base, which is not there; put it there, or fetch"):
        find_base(tuned)
