"""Processes of the traffic kit that start in a moment: forked from one that has imported what most programs use.

Importing torch and rclpy takes 2 s of a core, and the tests start hundreds of programs. Modules of this project are
imported by each program itself; arguments, environment, folder, output, signals and exit codes are those of a Python of
its own. What is about memory, of which a fork shares a part with others, takes the processes of the kit.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

from kit.node_process import NodeProcess, PythonProcess, source_environment

_PRELOADED = (
    "numpy", "torch", "yaml", "rclpy", "rclpy.node", "rclpy.executors", "matplotlib.figure",
    "matplotlib.backends.backend_agg", "rosbags.highlevel", "rosbags.rosbag2",
)  # fmt: skip
_HELD = ("OMP_NUM_THREADS", "LD_LIBRARY_PATH", "TRITON_INTERPRET", "PYTHONFAULTHANDLER", "COVERAGE_PROCESS_START")
"""Variables that count while libraries are imported or Python starts: if they differ, a new Python runs."""
_ENDS_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


class PreloadedProcess(PythonProcess):
    """A Python program."""

    def start(self) -> None:
        """Start it again; the output of the run before is overwritten."""
        server, held = _server()
        environment = {**os.environ, **source_environment(), **self._environment}
        if {name: environment.get(name) for name in _HELD} != held:
            super().start()
            return
        self.log.write_bytes(b"")
        self._process = _Forked(server, (self.command[1:], self.log, environment, self._cwd or Path.cwd()))


class PreloadedNode(PreloadedProcess, NodeProcess):
    """The integrator node, or a program that stands in for it."""


class _Forked:
    """Stands in for a `subprocess.Popen`."""

    def __init__(self, server: ForkServerContext, job: tuple[object, ...]) -> None:
        self._process = server.Process(target=_run, args=job, daemon=True)
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Exit code, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked program", timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens if the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _server() -> tuple[ForkServerContext, dict[str, str | None]]:
    """The process that forks, and the variables that it has been started with."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*_PRELOADED])
    return server, {name: os.environ.get(name) for name in _HELD}


def _run(arguments: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path) -> None:
    """Do in a fork what `python` would do with these arguments."""
    multiprocessing.current_process().daemon = False  # it may have children
    ctypes.CDLL(None).prctl(_ENDS_WITH_PARENT, signal.SIGKILL)
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    first, *rest = arguments
    named = first in ("-c", "-m")
    sys.argv[:] = [first, *rest[1:]] if named else [first, *rest]
    own = {"-c": "", "-m": str(folder)}.get(first, str(Path(first).absolute().parent))
    sys.path[:0] = [own, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    try:
        if first == "-m":
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(rest[0], "<string>", "exec"), vars(sys.modules["__main__"]))
        else:
            runpy.run_path(first, run_name="__main__")
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()


def process_with(argument: str) -> int:
    """The id of the process that has this argument on its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if argument in file.read_text().split("\0"):
                return int(file.parent.name)
    raise AssertionError(f"no process with {argument}")
