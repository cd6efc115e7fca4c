"""A person sees a bar on a terminal and plain lines elsewhere."""

import io
import subprocess
import sys

import pytest

from bertworks.core import progress as module
from bertworks.core.progress import SilentMeter, mute, progress, say


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_short_work_ends_with_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading", total=None, unit="MB") as meter:
        for _ in range(5):
            meter.advance(3)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("reading: 15 MB, ")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith(" MB/s\n")


def test_work_that_never_advanced_still_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading", total=7, unit="files"):
        pass
    assert capsys.readouterr().err == "reading: 0/7 files, 0.0 files/s\n"


def test_long_work_shows_the_total_the_time_left_and_the_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with progress("training", total=1007, unit="steps", already=1000) as meter:
        meter.advance(3, note="loss 2.5")
        meter.advance(4)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("training: 1,003/1,007 steps, ")
    assert lines[0].endswith(" s left, loss 2.5")
    assert lines[-1].startswith("training: 1,007/1,007 steps, ")
    assert lines[-1].endswith(" steps/s, loss 2.5")


def test_plain_lines_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading", total=5, unit="files") as meter:
        meter.advance(5)
    assert all(char.isprintable() or char == "\n" for char in capsys.readouterr().err)


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("reading", total=7, unit="files", already=2) as meter:
        meter.advance(5, note="done soon")
    shown = terminal.getvalue()
    assert "reading" in shown
    assert "7/7 files" in shown


def test_a_failure_is_not_hidden_by_the_meter(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), progress("reading", total=5, unit="files"):
        raise ValueError("broken")


def test_messages_go_to_the_person_not_to_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    say("a message")
    SilentMeter().advance(3, note="unseen")
    assert capsys.readouterr() == ("", "a message\n")


def test_a_muted_process_tells_only_its_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_muted", False)
    mute()
    say("how it goes")
    with progress("reading", total=7, unit="files") as meter:
        meter.advance(7)
    say("what went wrong", is_error=True)
    assert capsys.readouterr().err == "what went wrong\n"


def test_work_goes_on_when_nobody_reads_what_it_says() -> None:
    code = (
        "import sys, time\n"
        "from bertworks.core.progress import progress, say\n"
        "say('first'); sys.stdin.readline()\n"
        "with progress('work', total=3, unit='steps') as meter:\n"
        "    say('second'); say('third'); meter.advance(3)\n"
        "print('done')\n"
    )
    pipe = subprocess.PIPE
    work = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)
    assert work.stderr is not None
    assert work.stderr.readline() == b"first\n"
    work.stderr.close()
    assert work.stdin is not None
    assert work.stdout is not None
    work.stdin.write(b"\n")
    work.stdin.close()
    assert work.stdout.read() == b"done\n"
    work.stdout.close()
    assert work.wait() == 0
