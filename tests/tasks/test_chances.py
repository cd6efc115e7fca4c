"""Scores as chances."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bertworks.tasks.chances import likeliest_label, log_softmax, softmax

scores = arrays(np.float64, st.integers(1, 7), elements=st.floats(-1e4, 1e4))


@given(scores)
def test_chances_are_those_of_torch(drawn: np.ndarray) -> None:
    wanted = torch.from_numpy(drawn)
    np.testing.assert_allclose(softmax(drawn), wanted.softmax(0).numpy(), atol=1e-12)
    found = log_softmax(np.stack([drawn, -drawn]))
    np.testing.assert_allclose(found[0], wanted.log_softmax(0).numpy(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], (-wanted).log_softmax(0).numpy(), rtol=1e-9, atol=1e-9)


def test_the_likeliest_label_is_named_with_all_chances() -> None:
    found = likeliest_label(("a", "b"), np.array([0.0, np.log(3.0)]))
    assert (found["label"], found["probability"]) == ("b", pytest.approx(0.75))
    assert found["probabilities"] == {"a": pytest.approx(0.25), "b": found["probability"]}
