"""The demo's own node: a process that ends with the demo; its log says why it ended early, if it did."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ..tools.command_line import ToolFailure

STOPS_WITHIN_S = 20.0
SHOWN_LINES = 15


class NodeProcess(AbstractContextManager):
    """`python -m traj_integrator_ros` with a parameter file and other ROS arguments; its output goes to `log`."""

    def __init__(self, parameters: Path, ros_arguments: Sequence[str], log: Path) -> None:
        self._log = log
        given = ["--ros-args", *ros_arguments, "--params-file", parameters]
        command = [sys.executable, "-m", "traj_integrator_ros", *given]
        # In a process session of its own: Ctrl-C in the terminal goes to the demo, which then ends the node.
        with log.open("wb") as to:
            self._process = subprocess.Popen(command, stdout=to, stderr=subprocess.STDOUT, start_new_session=True)

    def __exit__(self, *error: object) -> None:
        """Interrupt the process, and kill it if it does not end; `code` is its exit code."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.code = self._process.wait()

    def check(self) -> None:
        """Raise ToolFailure if the process has ended."""
        if (code := self._process.poll()) is not None:
            print(*self._log.read_text(errors="replace").splitlines()[-SHOWN_LINES:], sep="\n", file=sys.stderr)
            raise ToolFailure(f"the integrator node ended with exit code {code}; the end of {self._log} is above")
