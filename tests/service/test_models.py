"""Served models: opened and tried, found by name, exchanged while they work."""

import gc
import shutil
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.core.errors import ArtifactError, UsageError
from bertworks.interop.onnx import FILE, REPORT, OnnxPlan, owner_of, write_onnx
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.service.batcher import BatchLimits
from bertworks.service.failures import Failure
from bertworks.service.jobs import Job
from bertworks.service.metrics import Metrics
from bertworks.service.models import Models, ServedModel, named_folders, revision_of
from bertworks.serving import model_folder as model_folder_module
from bertworks.serving.model_folder import open_folder
from bertworks.serving.predictor import load

TEXTS = ["The cat sat on the mat.", "北京", "dog", "Die Katze läuft über den Hügel!"]


def ask(model: ServedModel, ability: str, inputs: list[Any], **options: Any) -> list[Any]:
    """Let a model answer as a request does."""
    items = model.prepare(ability, inputs, options)
    jobs = [Job(item, time.monotonic() + 20) for item in items]
    model.batcher.submit(jobs)
    return [job.answer.result(timeout=20) for job in jobs]


@pytest.fixture(scope="module")
def folder(model_folder) -> Path:
    return model_folder("classify")


@pytest.fixture(scope="module")
def models(folder, model_folder) -> Iterator[Models]:
    models = Models.open([str(folder), f"fill={model_folder('fill_mask')}"])
    yield models
    models.stop(1.0)


@pytest.fixture
def swapped(folder) -> Iterator[Models]:
    """Serve one model, which a test may exchange."""
    models = Models.open([f"a={folder}"], drain=5.0)
    yield models
    models.stop(1.0)


def test_a_served_model_answers_as_its_folder_does(models, folder) -> None:
    predictor = load(folder)
    vectors = ask(models.get(), "embed", TEXTS)
    np.testing.assert_allclose(np.stack(vectors), predictor.embed(TEXTS), atol=1e-5)
    answers = ask(models.get("classify"), "classify", TEXTS)
    for answer, expected in zip(answers, predictor.predict(TEXTS), strict=True):
        assert answer["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)
    assert models.is_ready


def test_models_are_found_by_their_names_and_the_first_without_one(models) -> None:
    assert models.names == ("classify", "fill")
    assert [model.name for model in models] == ["classify", "fill"]
    assert models.get() is models.get("classify")
    with pytest.raises(Failure, match="there is no model 'x'; there is classify, fill") as failed:
        models.get("x")
    assert failed.value.code == "unknown_model"


def test_a_model_tells_what_it_is(models, folder) -> None:
    info = models.get().info()
    assert info["revision"] == revision_of(folder) == models.get().revision
    assert info["abilities"] == sorted(models.get().abilities)
    assert info["labels"] == {"classify": ["animal", "place"]}
    assert (info["dims"], info["longest"], info["backend"]) == (21, 67, "torch")
    assert "fill_mask" in models.get("fill").info()["abilities"]


def test_pieces_are_told_without_the_queue(models) -> None:
    before = models.get().batcher.num_submitted
    assert [piece.text for piece in models.get().tokenize(["cat"])[0]] == ["[CLS]", "cat", "[SEP]"]
    assert models.get().batcher.num_submitted == before


def test_folders_are_named_by_themselves_or_by_what_is_said(tmp_path: Path) -> None:
    odd = tmp_path / "odd=name"
    odd.mkdir()
    found = named_folders([f"{tmp_path}/model", "b=some/where", "org/c=d=e"])
    assert found == {
        "model": tmp_path / "model",
        "b": Path("some/where"),
        "org/c": Path("d=e"),
    }
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "model")
    assert list(named_folders([str(link)])) == ["link"]
    assert list(named_folders([f"{odd}/.."])) == [tmp_path.name]
    with pytest.raises(UsageError, match=r"no name that clients can give; say NAME=.*odd=name"):
        named_folders([str(odd)])
    with pytest.raises(UsageError, match="two models are called b; name one of them"):
        named_folders(["b=x", "y/b"])
    with pytest.raises(UsageError, match="no model is given"):
        named_folders([])


def test_models_are_there_once_they_are_loaded(folder) -> None:
    models = Models({"a": folder, "b": folder}, load)
    assert models.names == ("a", "b")
    assert not models.is_ready
    for ask_for in (models.get, models.require_loaded):
        with pytest.raises(Failure, match="0 of 2 models are opened") as failed:
            ask_for()
        assert failed.value.code == "loading"
    models.load()
    assert models.is_ready
    assert [model.name for model in models] == ["a", "b"]
    models.stop(0.0)


def test_a_model_that_cannot_be_opened_stops_the_others(folder, tmp_path: Path) -> None:
    models = Models({"a": folder, "b": tmp_path}, load)
    with pytest.raises(ArtifactError):
        models.load()
    assert not models.is_loaded
    assert not any(model.batcher.is_ready for model in models)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_folder_is_compared_with_its_manifest_before_anything_in_it_is_read(
    folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    copy, opened = tmp_path / "copy", list[Path]()

    def note(path: Path, **how: Any) -> Any:
        opened.append(path)
        return open_folder(path, **how)

    monkeypatch.setattr(model_folder_module, "open_folder", note)
    shutil.copytree(folder, copy)
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=f"{name} is damaged .its sha256 differs"):
        Models.open([f"a={copy}"])
    assert not opened
    Models.open([f"a={folder}"]).stop(0.0)
    assert opened == [folder]


def test_a_model_says_what_computes_it_and_how(folder, tmp_path: Path) -> None:
    both = tmp_path / "both"
    shutil.copytree(folder, both)
    write_onnx(both / FILE, load(folder).model.encoder, OnnxPlan(), owner=owner_of(both))
    found = {}
    for report in ("fp32", "int8"):
        (both / REPORT).write_text(f'{{"precision": "{report}"}}')
        for backend in ("torch", "onnx"):
            info = ServedModel("a", load(both, backend=backend)).info()
            found[report, backend] = info["backend"], info["precision"]
    assert found == {
        ("fp32", "torch"): ("torch", "fp32"),
        ("fp32", "onnx"): ("onnx", "fp32"),
        ("int8", "torch"): ("torch", "fp32"),
        ("int8", "onnx"): ("onnx", "int8"),
    }


def test_an_onnx_file_is_a_part_of_what_a_revision_tells(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = revision_of(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"others")
    assert revision_of(tmp_path) != before


def test_a_revision_tells_weights_apart(folder, model_folder, tmp_path: Path) -> None:
    assert revision_of(folder) != revision_of(model_folder("classify", seed=5))
    plain = [tmp_path / name for name in "ab"]
    for number, path in enumerate(plain):
        path.mkdir()
        write_tensors(path / "model.safetensors", {"a": torch.full((3,), float(number))})
    assert revision_of(plain[0]) != revision_of(plain[1])
    assert revision_of(plain[0]) == revision_of(plain[0])


@pytest.mark.parametrize("name", ["1_Pooling/config.json", "vocab.txt", "spiece.model"])
def test_the_same_weights_that_are_read_otherwise_are_another_revision(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("one")
    before = revision_of(tmp_path)
    (tmp_path / "README.md").write_text("Words about it.")
    assert revision_of(tmp_path) == before
    file.write_text("two")
    after = revision_of(tmp_path)
    file.rename(file.with_name("moved.json"))
    assert len({before, after, revision_of(tmp_path)}) == 3


def test_an_exchanged_model_answers_from_then_on(swapped, folder, model_folder) -> None:
    other = model_folder("classify", "tag", seed=5)
    old = swapped.get()
    new = swapped.swap("a", other)
    assert swapped.get("a") is new is not old
    assert new.revision == revision_of(other) != old.revision
    assert "tag" in new.abilities
    (vector,) = ask(new, "embed", TEXTS[:1])
    np.testing.assert_allclose(vector, load(other).embed(TEXTS[:1])[0], atol=1e-5)
    with pytest.raises(Failure) as failed:
        swapped.swap("b", other)
    assert failed.value.code == "unknown_model"


def test_counts_go_on_when_models_are_exchanged_and_old_weights_are_let_go(swapped, folder) -> None:
    replaced = []
    for _ in range(3):
        ask(swapped.get(), "embed", TEXTS)
        replaced.append(weakref.ref(swapped.get()))
        swapped.swap("a", folder)
    ask(swapped.get(), "embed", TEXTS)
    assert swapped.get().count("num_computed") == 4 * len(TEXTS)
    assert swapped.get().count("num_batches") >= 4
    end = time.monotonic() + 20
    while any(old() is not None for old in replaced) and time.monotonic() < end:
        gc.collect()
        time.sleep(0.05)
    assert [old() for old in replaced] == [None] * 3
    assert swapped.get().count("num_computed") == 4 * len(TEXTS)
    told = f'bertworks_submitted_total{{model="a"}} {4 * len(TEXTS)}\n'
    assert told in Metrics().text([swapped.get()])


def test_a_model_that_outlives_the_one_in_its_place_is_counted_to_its_end(folder) -> None:
    first, second, third = (ServedModel(name, load(folder)) for name in "abc")
    first.start()
    second.start()
    gate, compute = Event(), first.batcher._compute
    begun = Event()

    def slow(key: Any, contents: list[Any]) -> list[Any]:
        begun.set()
        assert gate.wait(20)
        return list(compute(key, contents))

    assert first.batcher._worker is not None
    first.batcher._worker._compute = slow
    (item,) = first.prepare("embed", TEXTS[:1], {})
    job = Job(item, time.monotonic() + 20)
    first.batcher.submit([job])
    assert begun.wait(20)
    second.follow(first)
    third.follow(second)
    leaving = [
        Thread(target=new.let_go, args=(old, 20.0))
        for new, old in [(third, second), (second, first)]
    ]
    for thread in leaving:
        thread.start()
    leaving[0].join(0.5)
    gate.set()
    for thread in leaving:
        thread.join(20)
    assert job.answer.done()
    assert third.count("num_computed") == 1


def _copy(folder: Path, copy: Path) -> Path:
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


@pytest.mark.parametrize("fault", ["flipped", "torn", "missing", "nan", "nowhere"])
def test_a_folder_that_cannot_be_used_is_refused_and_the_old_model_stays(
    fault: str, swapped, folder, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    if fault != "nowhere":
        weights = _copy(folder, broken) / "model.safetensors"
        data = weights.read_bytes()
        changed = {
            "flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
            "torn": data[: len(data) // 2],
        }
        weights.write_bytes(changed.get(fault, data))
        if fault == "missing":
            weights.unlink()
        if fault == "nan":
            (broken / "manifest.json").unlink()
            tensors = {
                name: torch.full_like(t, torch.nan) for name, t in read_tensors(weights).items()
            }
            write_tensors(weights, tensors)
    old = swapped.get()
    with pytest.raises(Failure, match=r"^a stays as it was, for ") as failed:
        swapped.swap("a", broken)
    assert failed.value.code == "bad_value"
    assert swapped.get() is old
    assert swapped.is_ready
    assert len(ask(old, "classify", TEXTS)) == len(TEXTS)


def test_a_broken_model_is_refused_at_the_start_and_none_is_left_at_work(
    folder, tmp_path: Path
) -> None:
    broken = _copy(folder, tmp_path / "broken")
    (broken / "config.json").write_bytes(b"{")
    before = set(threading.enumerate())
    with pytest.raises(ArtifactError):
        Models.open([f"a={folder}", f"b={broken}"])
    for thread in set(threading.enumerate()) - before:
        thread.join(5.0)
        assert not thread.is_alive()


class Client:
    """Asks for vectors again and again, and keeps what was wrong."""

    def __init__(self, models: Models, expected: dict[str, np.ndarray]) -> None:
        self.wrong: list[Any] = []
        self.seen: set[str] = set()
        self.is_done = False
        self._models = models
        self._expected = expected
        self._thread = Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self.is_done = True
        self._thread.join()

    def _run(self) -> None:
        while not self.is_done:
            model = self._models.get("a")
            try:
                found = np.stack(ask(model, "embed", TEXTS))
            except Failure as failure:
                if failure.code != "stopping" or self._models.get("a") is model:
                    self.wrong.append(failure)
                continue  # it is the new one's
            self.seen.add(model.revision)
            if np.abs(found - self._expected[model.revision]).max() > 1e-5:
                self.wrong.append(model.revision)


def test_no_request_fails_while_models_are_exchanged(swapped, folder, model_folder) -> None:
    folders = [model_folder("classify", seed=5), folder]
    expected = {revision_of(path): load(path).embed(TEXTS) for path in folders}
    clients = [Client(swapped, expected) for _ in range(3)]
    try:
        for number in range(6):
            swapped.swap("a", folders[number % 2])
    finally:
        for client in clients:
            client.join()
    assert [client.wrong for client in clients] == [[], [], []]
    assert set.union(*(client.seen for client in clients)) == set(expected)


def test_a_service_that_stops_is_not_ready_and_answers_what_waits(folder) -> None:
    models = Models.open([f"a={folder}"])
    models.refuse_new()
    assert not models.is_ready
    assert len(ask(models.get(), "embed", TEXTS)) == len(TEXTS)
    models.stop(5.0)
    with pytest.raises(Failure) as failed:
        ask(models.get(), "embed", TEXTS)
    assert failed.value.code == "stopping"


def test_a_worker_that_is_lost_for_good_is_told(predictor_of) -> None:
    told = Event()
    limits = BatchLimits(restarts=0)
    models = Models({"a": Path()}, lambda _: predictor_of("classify", seed=3), limits=limits)
    models.load()
    models.on_give_up = told.set
    try:
        model = models.get()

        def die(*_: Any) -> None:
            raise SystemExit

        model.predictor.model.encoder.forward = die
        with pytest.raises(Failure):
            ask(model, "embed", TEXTS[:1])
        assert told.wait(5.0)
        assert not models.is_ready
    finally:
        models.stop(0.0)
