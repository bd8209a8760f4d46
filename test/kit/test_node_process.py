"""A program that the kit has started ends with its caller, however that ends."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from kit.node_process import PythonProcess

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit('told'))
print('runs', flush=True)
time.sleep(60)
"""
CALLER = """
import sys, time
from pathlib import Path
from kit.node_process import PythonProcess
PythonProcess(["-c", sys.argv[1]], Path(sys.argv[2])).wait_for_output("runs")
print("started", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_ends_when_its_caller_does(tmp_path: Path, number: signal.Signals) -> None:
    program = tmp_path / "program.log"
    caller = PythonProcess(["-c", CALLER, PROGRAM, program], tmp_path / "caller.log")
    caller.wait_for_output("started")
    assert caller.stop(number).code == -number
    deadline = time.monotonic() + 10.0
    while "told" not in program.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "told" in program.read_text()
