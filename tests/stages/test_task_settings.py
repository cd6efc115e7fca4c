"""The settings of single tasks: only what is given is told."""

from bertworks.stages.task_settings import TaskSettings, WritingSettings


def test_only_what_is_given_is_asked_for() -> None:
    assert WritingSettings().asked == {}
    assert WritingSettings(beams=4, begin="").asked == {"beams": 4, "begin": ""}


def test_no_task_is_told_anything_by_itself() -> None:
    assert {*vars(TaskSettings()).values()} == {None}
