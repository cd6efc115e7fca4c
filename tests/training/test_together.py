"""Several processes begin the same run and write one folder, or none of them does."""

from pathlib import Path
from typing import Any

import torch

from bertworks.core.artifact import Origin, open_artifact
from bertworks.core.crew import Crew
from bertworks.model.weights import write_tensors
from bertworks.training.sharding import part_name, read_parts
from bertworks.training.together import refuse_strangers, saving_together


def write(crew: Crew, folder: str, refused: int | None = None) -> list[str]:
    """Write a file in each process; the disk refuses one of them."""
    path = Path(folder)
    with saving_together(path, crew, kind="checkpoint", origin=Origin()) as temporary:
        if crew.rank == refused:
            raise OSError(28, "No space left on device")
        name = part_name("model", crew)
        write_tensors(temporary / f"{name}.safetensors", {"rows": torch.full((2, 3), crew.rank)})
    return sorted(open_artifact(path, "checkpoint")["files"])  # in its place, as soon as it goes on


def compare(crew: Crew, settings: dict[str, list[Any]], file: str) -> None:
    """Begin with settings of one's own."""
    own = {name: values[crew.rank] for name, values in settings.items()}
    refuse_strangers(crew, Origin(settings=own, inputs={"shards": Path(file)}))


def test_one_alone_writes_a_folder_as_ever(tmp_path: Path) -> None:
    assert write(Crew(), str(tmp_path / "alone")) == ["model.safetensors"]


def test_all_write_into_the_folder_of_the_first(crews: Any, tmp_path: Path) -> None:
    members = crews.run(write, str(tmp_path / "all"), size=3)
    names = [f"model-0000{rank}-of-00003.safetensors" for rank in range(3)]
    assert [member.result for member in members] == [names] * 3
    assert read_parts(tmp_path / "all", "model")["rows"][:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["all"]


def test_where_one_is_refused_nothing_appears(crews: Any, tmp_path: Path) -> None:
    for refused in (0, 1):
        for member in crews.run(write, str(tmp_path / "all"), refused, size=2):
            assert member.result.startswith(f"ArtifactError: process {refused} cannot write")
            assert "No space left on device; free some space" in member.result
        assert not list(tmp_path.iterdir())


def test_processes_with_other_settings_or_inputs_are_refused(crews: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("the same for all")
    alike = {"lr": [0.1, 0.1], "threads": [1, 2]}
    assert [m.result for m in crews.run(compare, alike, str(file), size=2)] == [None, None]
    other = {"lr": [0.1, 0.2]}
    first, second = (m.result for m in crews.run(compare, other, str(file), size=2))
    assert first.startswith("UsageError: process 1 has lr = 0.2, process 0 has 0.1; start all")
    assert second.startswith("UsageError: process 0 has lr = 0.1, process 1 has 0.2; start all")
