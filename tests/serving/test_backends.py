"""One call opens a folder with torch or with its ONNX file, whichever can be."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bertworks
from bertworks.core.artifact import Origin
from bertworks.core.errors import ArtifactError, MissingPackageError, UsageError
from bertworks.interop.onnx import FILE, REPORT, OnnxPlan, owner_of, write_onnx
from bertworks.serving import backends, predictor
from bertworks.serving.model_folder import save_model
from bertworks.serving.onnx_encoder import OnnxEncoder

TEXTS = ["The cat sat on the mat.", "北京", "", "a " * 90]


@pytest.fixture
def save(tmp_path: Path, make_model, tokenizer) -> Callable[..., Path]:
    """Save a model with an ONNX file in its folder."""

    def saved(*tasks: str, seed: int = 1) -> Path:
        folder = tmp_path / f"model-{seed}"
        model = make_model(*tasks, seed=seed)
        save_model(folder, model, tokenizer, origin=Origin())
        write_onnx(folder / FILE, model.encoder, OnnxPlan(), owner=owner_of(folder))
        return folder

    return saved


@pytest.mark.parametrize("task", ["classify", "tag", "answer", "fill_mask"])
def test_answers_and_vectors_are_the_same(save, task: str) -> None:
    folder = save(task)
    torch, onnx = (bertworks.load(folder, backend=name) for name in ("torch", "onnx"))
    assert isinstance(onnx.model.encoder, OnnxEncoder)
    assert onnx.model.encoder.precision == "fp32"
    assert not isinstance(torch.model.encoder, OnnxEncoder)
    np.testing.assert_allclose(onnx.embed(TEXTS), torch.embed(TEXTS), atol=1e-5)
    inputs = {
        "answer": [("Who sat?", "The cat sat on the mat.")],
        "fill_mask": ["the [MASK] sat"],
        "tag": [{"tokens": ["the", "cat", "sat"]}],
    }.get(task, [text for text in TEXTS if text])
    for one, other in zip(torch.predict(inputs), onnx.predict(inputs), strict=True):
        assert numbers(one) == pytest.approx(numbers(other), abs=1e-5)
        assert words(one) == words(other)


def numbers(answer: object) -> list[float]:
    """Return the numbers of an answer."""
    if isinstance(answer, dict | list):
        parts = answer.values() if isinstance(answer, dict) else answer
        return [number for part in parts for number in numbers(part)]
    return [answer] if isinstance(answer, float) else []


def words(answer: object) -> list[str]:
    """Return the words of an answer."""
    if isinstance(answer, dict | list):
        parts = answer.values() if isinstance(answer, dict) else answer
        return [word for part in parts for word in words(part)]
    return [answer] if isinstance(answer, str) else []


def test_auto_takes_the_file_where_there_is_one(save, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save("classify")
    assert isinstance(bertworks.load(folder).model.encoder, OnnxEncoder)
    assert bertworks.load(folder).machine.cuts_batches
    assert not bertworks.load(folder, backend="torch").machine.cuts_batches
    monkeypatch.setattr(backends, "is_installed", lambda _: False)
    assert not isinstance(bertworks.load(folder).model.encoder, OnnxEncoder)
    shutil.rmtree(folder / "onnx")
    monkeypatch.undo()
    assert not isinstance(bertworks.load(folder).model.encoder, OnnxEncoder)
    with pytest.raises(ArtifactError, match=r"there is no .*model.onnx; write it with"):
        bertworks.load(folder, backend="onnx")


@pytest.mark.parametrize("backend", ["auto", "onnx"])
def test_the_file_of_another_model_is_refused(save, backend: str) -> None:
    first, second = save("classify", seed=1), save("classify", seed=2)
    shutil.copy(first / FILE, second / FILE)
    with pytest.raises(ArtifactError, match="an ONNX file for another model"):
        bertworks.load(second, backend=backend)
    bertworks.load(second, backend="torch")


def test_a_cpu_without_int8_computes_in_torch_and_says_so(
    save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save("classify")
    monkeypatch.setattr(backends, "begin_int8_trial", lambda: None)
    monkeypatch.setattr(backends, "cpu_runs_int8", lambda: False)
    assert isinstance(bertworks.load(folder).model.encoder, OnnxEncoder)
    (folder / REPORT).write_text('{"precision": "int8"}')
    assert not isinstance(bertworks.load(folder).model.encoder, OnnxEncoder)
    assert "torch computes in fp32 instead" in capsys.readouterr().err


def test_a_file_from_elsewhere_is_left_alone_unless_asked_for(
    save, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save("classify")
    for content in (b"", b"from elsewhere" * 999):
        (folder / FILE).write_bytes(content)
        assert not isinstance(bertworks.load(folder).model.encoder, OnnxEncoder)
        assert "is not used, for it does not tell whose weights it holds" in capsys.readouterr().err
        with pytest.raises(ArtifactError, match=r"ONNX Runtime cannot open .*; export it again"):
            bertworks.load(folder, backend="onnx")


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_a_missing_package_is_not_taken_for_a_weak_cpu(
    save, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save("classify")
    (folder / REPORT).write_text('{"precision": "int8"}')
    monkeypatch.setattr(backends, "is_installed", lambda name: name != missing)
    monkeypatch.setattr(backends, "begin_int8_trial", lambda: None)
    monkeypatch.setattr(backends, "cpu_runs_int8", lambda: False)
    assert not isinstance(bertworks.load(folder).model.encoder, OnnxEncoder)
    said = capsys.readouterr().err
    assert "is not used, for that needs: pip install 'bertworks[onnx]'" in said
    assert "CPU" not in said
    with pytest.raises(MissingPackageError, match=r"the backend onnx needs: pip install"):
        bertworks.load(folder, backend="onnx")


def test_what_only_torch_can_give_is_one_sentence(save) -> None:
    model = bertworks.load(save("classify"), backend="onnx")
    for asked in ({"layers": -2}, {"layers": (-1, 1)}, {"layers": 0}):
        with pytest.raises(UsageError, match=r"gives the last layer alone; .* the backend torch"):
            model.embed(TEXTS, **asked)
    with pytest.raises(UsageError, match="gives the last layer alone"):
        model.embed_tokens(TEXTS, layers=1)
    with pytest.raises(UsageError, match=r"gives no attention weights; .* the backend torch"):
        model.attention("the cat", "a dog")
    with pytest.raises(UsageError, match=r"has no gradients; .* the backend torch"):
        model.attribute("the cat")
    assert model.embed(TEXTS, layers=(-1,)).shape == model.embed(TEXTS).shape


def test_int8_is_tried_while_the_model_is_read(save, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, begun = save("classify"), []
    monkeypatch.setattr(backends, "begin_int8_trial", lambda: begun.append("trial"))
    monkeypatch.setattr(predictor, "open_model", lambda path: begun.append("model"))
    for backend, expected in (("auto", ["trial", "model"]), ("torch", ["model"])):
        (folder / REPORT).write_text('{"precision": "int8"}')
        with pytest.raises(AttributeError):  # there is no model
            bertworks.load(folder, backend=backend)
        assert begun == expected
        begun.clear()


def test_an_unknown_backend_is_refused(save) -> None:
    with pytest.raises(UsageError, match="backend is 'tpu', but it must be auto or torch or onnx"):
        bertworks.load(save("classify"), backend="tpu")
