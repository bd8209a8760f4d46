"""Processes of the traffic kit that start in a moment: programs, and nodes with all that a node imports.

That takes 2 s of a core, and many tests want a node of their own. From the fork on it is the node as ever, a process
with its own entry point, arguments, environment and DDS. What is about the start itself, or about memory, of which it
shares a part with others, takes `NodeProcess`.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from preloaded_python import SHARED, preloaded_python, start_server

from kit.node_process import NodeProcess, PythonProcess, source_environment

_NODE = ["-m", "traj_integrator_ros"]
_IN_NODES = ("node.node", "node.main", "kernels.native.extension")


class PreloadedProcess(PythonProcess):
    """A Python program behind `preloaded_python`; its process id is that of the command."""

    def start(self) -> None:
        """Start it again; the output of the run before is overwritten."""
        self.command[0] = preloaded_python()
        super().start()


class PreloadedNode(NodeProcess):
    """The integrator node, or a file with a program that stands in for it; code of `-c` is started as usual."""

    def start(self) -> None:
        """Start it again; the output of the run before is overwritten."""
        if self.command[1:3] == _NODE:
            self._process = _Forked(self.command, self.log, {**os.environ, **source_environment()})
            return
        if self.command[1].endswith(".py"):
            self.command[0] = preloaded_python()
        super().start()


class _Forked:
    """Stands in for a `subprocess.Popen`: a node forked from the process that has imported it."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self.returncode: int | None = None
        self._caller = socket.socket(socket.AF_UNIX)
        self._caller.connect(_node_server(environment["PYTHONPATH"], environment.get("LD_LIBRARY_PATH")))
        job = marshal.dumps((command[0], command[1:], os.getcwd(), environment, False))
        with open(os.devnull, "rb") as null, log.open("wb") as output:
            files = [null.fileno(), output.fileno(), output.fileno()]
            socket.send_fds(self._caller, [len(job).to_bytes(8, "little")], files)
        self._caller.sendall(job)
        self.pid = int.from_bytes(self._caller.recv(8), "little")

    def poll(self) -> int | None:
        """Exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._caller], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("integrator node", timeout)
            self.returncode = os.waitstatus_to_exitcode(int.from_bytes(self._caller.recv(8), "little"))
            self._caller.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens if the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _node_server(python_path: str, libraries: str | None) -> str:
    """One for the packages that nodes find at present; of several workers, each forks its own from the shared one."""
    modules = (f"traj_integrator_ros.{name}" for name in _IN_NODES)
    return start_server(*modules, python=os.environ.get(SHARED, sys.executable), PYTHONPATH=python_path)


def process_with(argument: str) -> int:
    """The id of the process that has this argument on its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if argument in file.read_text().split("\0"):
                return int(file.parent.name)
    raise AssertionError(f"no process with {argument}")
