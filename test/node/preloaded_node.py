"""Nodes that start in a moment: forked by a process that has imported all that a node imports.

That takes 2 s of a core, and many tests want a node of their own. From the fork on it is the node as ever, a process
with its own entry point, arguments, environment and DDS. What is about the start itself, or about memory, of which it
shares a part with others, takes `NodeProcess`.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NoReturn

from traj_integrator_ros.traffic.node_process import NodeProcess, source_environment

_NODE = ["-m", "traj_integrator_ros"]


class PreloadedNode(NodeProcess):
    """The integrator node, or a file with a program that stands in for it; code of `-c` is started as usual."""

    def start(self) -> None:
        """Start it again; the output of the run before is overwritten."""
        if self.command[1:3] == _NODE:
            self.log.write_bytes(b"")
            self._process = Forked(self.command[3:], self.log, {**os.environ, **source_environment()})
            return
        if self.command[1].endswith(".py"):
            from preloaded_python import preloaded_python  # in the process of the tests

            self.command[0] = preloaded_python()
        super().start()


class Forked:
    """What `subprocess.Popen` is for a child, for a node that the fork server has forked."""

    def __init__(self, *job: object) -> None:
        self._process = _fork_server().Process(target=_run, args=job, daemon=True)
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("integrator node", timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens where it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _fork_server() -> ForkServerContext:
    """What forks nodes for this process, and starts with the first one."""
    context = multiprocessing.get_context("forkserver")
    names = ("node.node", "node.executor", "node.main", "kernels.native.extension")
    context.set_forkserver_preload([f"traj_integrator_ros.{name}" for name in names])
    return context


def _run(arguments: list[str], log: Path, environment: dict[str, str]) -> NoReturn:
    """Be the node."""
    from traj_integrator_ros.node.main import main

    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    null, output = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    sys.argv[1:] = arguments
    code = 1
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
