"""Nodes that start in a moment: forked by a process that has imported all that a node imports.

That takes 2 s of a core, and many tests want a node of their own. From the fork on it is the node as ever, a process
with its own entry point, arguments, environment and DDS. What is about the start itself, or about memory, of which it
shares a part with others, takes `NodeProcess`.

Run as a program, it is the process that forks: a line of JSON for each node, until standard input ends.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

from traj_integrator_ros.traffic.node_process import NodeProcess, source_environment

_NODE = ["-m", "traj_integrator_ros"]


class PreloadedNode(NodeProcess):
    """The integrator node, or a file with a program that stands in for it; code of `-c` is started as usual."""

    def start(self) -> None:
        """Start it again; the output of the run before is overwritten."""
        if self.command[1:3] == _NODE:
            self._process = Forked(self.command[3:], self.log, {**os.environ, **source_environment()})
            return
        if self.command[1].endswith(".py"):
            from preloaded_python import preloaded_python  # in the process of the tests

            self.command[0] = preloaded_python()
        super().start()


class Forked:
    """What `subprocess.Popen` is for a child, for a process that another one has forked."""

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str]) -> None:
        self.returncode: int | None = None
        self._code = log.with_name("exit_code")
        self._code.unlink(missing_ok=True)
        log.write_bytes(b"")
        forker = _forker()
        job = {"arguments": arguments, "log": str(log), "code": str(self._code), "environment": environment}
        print(json.dumps(job), file=forker.stdin, flush=True)
        self.pid = int(forker.stdout.readline())

    def poll(self) -> int | None:
        """Exit code, None while it runs."""
        if self.returncode is None and self._code.exists():
            self.returncode = int(self._code.read_text())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired."""
        begin = time.monotonic()
        while self.poll() is None:
            if timeout is not None and time.monotonic() > begin + timeout:
                raise subprocess.TimeoutExpired("integrator node", timeout)
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens where it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _forker() -> subprocess.Popen[str]:
    """The process that forks nodes for this one."""
    environment = {**os.environ, **source_environment()}
    forker = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    atexit.register(forker.communicate)
    return forker


def serve() -> None:
    """Import what a node needs, and fork one for each line."""
    for name in ("node", "executor", "main"):
        importlib.import_module(f"traj_integrator_ros.node.{name}")
    importlib.import_module("traj_integrator_ros.kernels").backend_info()  # loads the C++ kernels
    for line in sys.stdin:
        if os.fork() == 0:
            _keep(json.loads(line))


def _keep(job: dict) -> NoReturn:
    """Fork the node, tell its process id, wait for its end, and tell that."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    node = os.fork()
    if node == 0:
        _run(job)
    os.write(1, f"{node}\n".encode())
    os.close(1)
    _, status = os.waitpid(node, 0)
    code = Path(job["code"])
    part = code.with_suffix(".part")
    part.write_text(str(os.waitstatus_to_exitcode(status)))
    os.replace(part, code)
    os._exit(0)


def _run(job: dict) -> NoReturn:
    """Be the node."""
    from traj_integrator_ros.node.main import main

    os.setsid()
    os.environ.clear()
    os.environ.update(job["environment"])
    null, log = os.open(os.devnull, os.O_RDONLY), os.open(job["log"], os.O_WRONLY | os.O_APPEND)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    sys.argv[1:] = job["arguments"]
    code = 1
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for those that wait for the nodes
    serve()
