"""The operator, a process of its own that only calls ~/stop, and a process that keeps a core busy."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

from kit.participant import Participant
from traj_integrator_interfaces.srv import Stop

STOPS = 20
"""Number of stops."""
EVERY_S = 0.15
"""Time between two stops, s."""
WITHIN_S = 10.0
"""Longest wait for an answer, s."""


class Operator:
    """Calls ~/stop `STOPS` times after `begin`; `stops_s` then has the times until the answers, s."""

    def __init__(self, log: Path) -> None:
        fork = multiprocessing.get_context("fork")
        self._log, self._begin, self._results = log, fork.Event(), fork.SimpleQueue()
        self._process = fork.Process(target=self._work, daemon=True)
        self._process.start()
        self.stops_s: list[float] = []

    def begin(self) -> None:
        """Let the operator call."""
        self._begin.set()

    @property
    def is_over(self) -> bool:
        """Return whether the operator has made its calls, or cannot make them."""
        if not self._results.empty():
            self.stops_s = self._results.get()
        return bool(self.stops_s) or not self._process.is_alive()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def _work(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        with Participant(name="soak_operator") as participant:
            client = participant.node.create_client(Stop, participant.topic("~/stop"))
            client.wait_for_service(60.0)
            self._begin.wait()
            took_s = []
            for _ in range(STOPS):
                time.sleep(EVERY_S)
                begun_s, answer = time.monotonic(), client.call_async(Stop.Request())
                participant.spin_until(answer.done, WITHIN_S)
                took_s.append(time.monotonic() - begun_s if answer.done() else float("inf"))
            self._results.put(took_s)


class Neighbour:
    """A process that keeps a core busy, to which the node is bound."""

    def __init__(self, node_pid: int) -> None:
        core = max(os.sched_getaffinity(node_pid))
        for thread in os.listdir(f"/proc/{node_pid}/task"):
            os.sched_setaffinity(int(thread), {core})
        self._process = multiprocessing.get_context("fork").Process(target=self._work, args=(core,), daemon=True)
        self._process.start()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def _work(self, core: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.sched_setaffinity(0, {core})
        while True:
            pass
