"""Settings of the commands that answer: what embed asks is what a predictor knows."""

from dataclasses import fields

from bertworks.serving.vectors import VectorShape
from bertworks.stages.answer_settings import EmbedSettings, PredictSettings
from bertworks.stages.setting_groups import VectorSettings


def test_every_setting_of_vectors_is_known_to_the_predictor() -> None:
    asked = {field.name for field in fields(VectorSettings)} | {"prompt"}
    assert asked <= VectorShape.__annotations__.keys()


def test_both_commands_read_and_go_on_alike() -> None:
    shared = {"model", "data", "out", "columns", "resume", "machine"}
    for kind in (PredictSettings, EmbedSettings):
        assert shared <= {field.name for field in fields(kind)}
