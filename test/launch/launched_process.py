"""The integrator node as a bare process, for machines without ROS 2 launch."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scenarios import Scenario


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code, time from the signal in s, and all that it wrote."""

    code: int
    seconds: float
    output: str


class NodeProcess:
    """`python -m traj_integrator_ros` with the arguments of a scenario; its output goes to a file."""

    def __init__(self, scenario: Scenario, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "traj_integrator_ros", *scenario.process_arguments()]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def end(self, number: signal.Signals, again_s: float = 20.0) -> Ended:
        """Send the signal until the process ends, the second time after `again_s`; after 20 s it is killed."""
        begin = time.monotonic()
        code = None
        while code is None and time.monotonic() < begin + 20.0:
            self._process.send_signal(number)
            try:
                code = self._process.wait(again_s)
            except subprocess.TimeoutExpired:
                continue
        if code is None:
            self._process.kill()
            code = self._process.wait()
        return Ended(code, time.monotonic() - begin, self._log.read_text(encoding="utf-8", errors="replace"))

    def close(self) -> None:
        """Make sure that the process is gone, in good order: what is killed leaves its shared memory behind."""
        if self._process.poll() is None:
            self.end(signal.SIGINT)
