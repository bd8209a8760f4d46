"""Processes that run Python programs, in particular the integrator node; without ROS."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

KILL_AFTER_S = 20.0
_ROOT = Path(__file__).resolve().parents[1]
_SETPRIV = shutil.which("setpriv")
_ENDS_WITH_CALLER = [_SETPRIV, "--pdeathsig", "TERM"] if _SETPRIV else []
"""Has the kernel signal a program when its caller ends, however that ends: nothing else would tell it."""


class ProcessEnded(Exception):
    """A process has ended by itself; the message carries the end of its output."""


class Ended(NamedTuple):
    """End of a process: exit code, and time from the signal until then, s."""

    code: int
    seconds: float


class PythonProcess:
    """A Python program, which starts at once; standard output and error go to the file `log`.

    `arguments` are those of the interpreter, e.g. `["-m", "package", "argument"]`, `environment` the variables that
    differ from those of this process.
    """

    def __init__(
        self,
        arguments: Sequence[object],
        log: Path,
        *,
        name: str = "process",
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name, self.log = name, log
        self.command = [sys.executable, *map(str, arguments)]
        self._environment, self._cwd = dict(environment or {}), cwd
        self.start()

    def start(self) -> None:
        """Start it again; the output of the run before is overwritten."""
        # The kernel takes the end of the thread that starts it for the end of the caller.
        is_main = threading.current_thread() is threading.main_thread()
        with self.log.open("wb") as output:
            # In a process session of its own: Ctrl-C in the terminal goes to the caller, which then interrupts the
            # program.
            self._process = subprocess.Popen(
                [*_ENDS_WITH_CALLER * is_main, *self.command],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **source_environment(), **self._environment},
                cwd=self._cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything that the process has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def is_running(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise ProcessEnded if the process has ended."""
        code = self._process.poll()
        if code is not None:
            last = "\n".join(self.output.splitlines()[-15:]) or "(nothing)"
            raise ProcessEnded(f"the {self.name} ended with exit code {code}; the end of {self.log}:\n{last}")

    def wait_for_output(self, text: str, timeout_s: float = 60.0) -> None:
        """Wait until the process has written `text`. Raises TimeoutError, or ProcessEnded if it ends before that."""
        deadline = time.monotonic() + timeout_s
        while True:
            runs = self.is_running()
            if text in self.output:
                return
            if not runs:
                self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} not in the output within {timeout_s:g} s:\n{self.output}")
            time.sleep(0.02)

    def wait(self, timeout_s: float = 30.0) -> int:
        """Wait for the process to end by itself; return the exit code."""
        return self._process.wait(timeout_s)

    def stop(self, number: signal.Signals = signal.SIGINT, again_s: float = KILL_AFTER_S) -> Ended:
        """Send a signal, repeat it every `again_s`, and kill after 20 s; returns how the process ended.

        A process that is killed leaves shared memory behind, which fills up the machine.
        """
        begin = time.monotonic()
        while self.is_running() and time.monotonic() < begin + KILL_AFTER_S:
            self._process.send_signal(number)
            try:
                self._process.wait(again_s)
            except subprocess.TimeoutExpired:
                continue
        self.kill()
        return Ended(self._process.returncode, time.monotonic() - begin)

    def kill(self) -> None:
        """Kill the process if it runs."""
        if self.is_running():
            self._process.kill()
        self._process.wait()

    def memory_bytes(self, kind: str) -> int:
        """Memory as in /proc/<pid>/status: VmRSS, VmHWM, RssAnon, ... Raises OSError once it has ended."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name == kind:
                return int(value.split()[0]) * 1024
        raise ProcessLookupError(f"process {self.pid} has ended")

    def cpu_s(self) -> float:
        """Time that its threads have computed, s."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class NodeProcess(PythonProcess):
    """The integrator node, `python -m traj_integrator_ros`; its output goes to node.log in a folder.

    Parameters by name go to parameters.yaml beside it; None: the defaults. `program` are the arguments of the
    interpreter that start the node; a variant of the node may stand in for it.
    """

    def __init__(
        self,
        folder: Path,
        parameters: Mapping[str, object] | Path | None = None,
        arguments: Sequence[str] = (),
        program: Sequence[str] = ("-m", "traj_integrator_ros"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(parameters, Mapping):
            parameters = write_parameters(folder / "parameters.yaml", parameters)
        file = [] if parameters is None else ["--params-file", parameters]
        command = [*program, "--ros-args", *arguments, *file]
        super().__init__(command, folder / "node.log", name="integrator node", environment=environment)


def write_parameters(file: Path, parameters: Mapping[str, object]) -> Path:
    """Write a parameter file for any node; returns its path."""
    import yaml

    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(parameters)}}), encoding="utf-8")
    return file


def source_environment() -> dict[str, str]:
    """The path of the source tree, with which programs find the package and this kit from any working directory."""
    return {"PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])}
