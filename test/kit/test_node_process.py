"""Programs are started, watched and interrupted; none is left behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kit.node_process import ProcessEnded, PythonProcess

STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
OBEDIENT = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("bye")
"""


def test_a_program_that_ends_is_reported_with_the_end_of_its_output(tmp_path: Path) -> None:
    process = PythonProcess(["-c", "print('reason'); raise SystemExit(3)"], tmp_path / "log", name="robot")
    assert process.wait() == 3
    with pytest.raises(ProcessEnded, match=r"the robot ended with exit code 3; the end of .*log:\nreason"):
        process.check()
    with pytest.raises(ProcessEnded):
        process.wait_for_output("more")
    process.wait_for_output("reason")
    with pytest.raises(OSError):
        process.memory_bytes("VmRSS")


def test_a_program_is_interrupted_and_can_be_started_again(tmp_path: Path) -> None:
    process = PythonProcess(["-c", OBEDIENT], tmp_path / "log")
    for _ in range(2):
        process.wait_for_output("up\n")
        assert process.is_running() and process.cpu_s() >= 0
        assert 0 < process.memory_bytes("VmRSS") <= process.memory_bytes("VmHWM")
        ended = process.stop()
        assert ended.code == 0 and ended.seconds < 5 and process.output == "up\nbye\n"
        process.stop()
        process.start()
    process.stop()


def test_a_program_that_does_not_obey_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.node_process.KILL_AFTER_S", 0.5)
    process = PythonProcess(["-c", STUBBORN], tmp_path / "log")
    process.wait_for_output("up")
    ended = process.stop(signal.SIGINT, again_s=0.1)
    assert ended.code == -signal.SIGKILL and ended.seconds < 5
