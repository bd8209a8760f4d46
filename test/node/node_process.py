"""The node as a process of its own, started as a user would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent


class NodeProcess:
    """`python -m traj_integrator_ros` with parameters; standard output and error go to one file."""

    def __init__(
        self,
        folder: Path,
        parameters: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        program: Sequence[str] = ("-m", "traj_integrator_ros"),
    ) -> None:
        self._log = folder / "node.log"
        command = [sys.executable, *program, "--ros-args", *arguments]
        if parameters is not None:
            file = folder / "parameters.yaml"
            file.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(parameters)}}), encoding="utf-8")
            command += ["--params-file", str(file)]
        self.command = command
        self._process: subprocess.Popen | None = None
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again; the output of the run before is overwritten."""
        path = os.pathsep.join([str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")])
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self.command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path},
                cwd=self._log.parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_output(self, text: str, timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while text not in self.output:
            assert time.monotonic() < deadline, f"{text!r} not in the output within {timeout_s} s:\n{self.output}"
            time.sleep(0.02)

    def wait(self, timeout_s: float = 30.0) -> int:
        """Wait for it to end by itself; return the exit code."""
        return self._process.wait(timeout_s)

    def stop(self, number: signal.Signals = signal.SIGINT) -> tuple[int, float]:
        """Send a signal; return exit code and time until the end, s. One that does not end is killed: -SIGKILL."""
        begin = time.monotonic()
        self._process.send_signal(number)
        try:
            code = self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.returncode
        return code, time.monotonic() - begin

    def close(self) -> None:
        """End it in good order: what is killed leaves its shared memory behind, and enough of that fills a machine."""
        if self.is_running():
            self.stop()

    def kill(self) -> None:
        if self.is_running():
            self._process.kill()
        self._process.wait()

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Time that its threads have computed, s."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self) -> int:
        """Most bytes that were resident at any time."""
        [line] = [line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if "VmHWM" in line]
        return int(line.split()[1]) * 1024
