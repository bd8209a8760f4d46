"""The integrator node as a bare process, for machines without ROS 2 launch."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code, time from the signal in s, and all that it wrote."""

    code: int
    seconds: float
    output: str


class NodeProcess:
    """`python -m traj_integrator_ros` with arguments; its output goes to a file."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "traj_integrator_ros", *arguments]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    @property
    def output(self) -> str:
        """All that it has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> int:
        """Wait until it ends by itself; return the exit code."""
        return self._process.wait(timeout_s)

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
        return Ended(code, time.monotonic() - begin, self.output)

    def close(self) -> None:
        """Make sure that the process is gone, in good order: what is killed leaves its shared memory behind."""
        if self.is_running():
            self.end(signal.SIGINT)
