"""What the client processes have in common: commands on standard input, work at a rate, a report every second.

The soak writes `go`, `stop` (send no more) and `end`, one a line. A client writes JSON, one object a line:
`{"ready": true}` once it and the node have found each other, `{"begun": true}` on `go`, then what happened in each
second, and `sending_s`, the part of it in which messages were sent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

REPORT_S = 1.0
GREETING_S = 0.2
Row = dict[str, "int | float | list"]


class Role(Protocol):
    """What a client does."""

    name: str
    period_s: float
    """Between two calls of `send`; 0 for a role that only listens."""

    def greet(self) -> bool:
        """Say hello to the node; return whether it and we have found each other. Called until that is so."""

    def begin(self) -> None:
        """Forget everything so far: from now on it counts."""

    def send(self) -> None:
        """Send the next message."""

    def take(self) -> Row:
        """Numbers (counts) and lists (latencies in ms, faults in words) since the call before."""


def run_client(role_of: Callable[[Node], Role], arguments: list[str]) -> int:
    """Run a client process until it is told to end, or until its standard input does; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the soak, which then ends us
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(f"soak_client_{os.getpid()}")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    commands = _Commands()
    try:
        role = role_of(node)
        _find(role, executor, commands)
        _work(role, executor, commands)
    finally:
        executor.shutdown(timeout_sec=0)
        node.destroy_node()
        rclpy.try_shutdown()
    return 0


class _Commands:
    """The last command; `end` when standard input has ended."""

    def __init__(self) -> None:
        self.last = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.last = line.strip()
        self.last = "end"


def _find(role: Role, executor: SingleThreadedExecutor, commands: _Commands) -> None:
    while commands.last != "end" and not role.greet():
        _spin(executor, time.monotonic() + GREETING_S)
    _write({"ready": True})
    while commands.last == "":
        _spin(executor, time.monotonic() + 0.01)


def _work(role: Role, executor: SingleThreadedExecutor, commands: _Commands) -> None:
    role.begin()
    _write({"begun": True})
    begin = due = now = time.monotonic()
    sent, reports, sending_s = 0, 0, 0.0
    while commands.last != "end":
        before, now = now, time.monotonic()
        sends = commands.last == "go" and role.period_s > 0
        if sends:
            sending_s += now - before
        if sends and now >= due:
            role.send()
            sent += 1
            due = begin + sent * role.period_s
        if now >= begin + (reports + 1) * REPORT_S:
            reports += 1
            _write({**role.take(), "sending_s": sending_s})
            sending_s = 0.0
        _spin(executor, min(due, now + 0.02) if sends else now + 0.02)
    _write({**role.take(), "sending_s": sending_s, "ended": True})


def _spin(executor: SingleThreadedExecutor, until: float) -> None:
    """Do what has come, and wait for more until then."""
    while True:
        left = until - time.monotonic()
        executor.spin_once(timeout_sec=max(0.0, left))
        if left <= 0:
            return


def _write(row: Row) -> None:
    print(json.dumps(row), flush=True)
