"""One soak: the node, its clients, and the time in which they work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray

from kit.ledger import NodeCounts
from kit.node_process import NodeProcess, ProcessEnded
from kit.participant import Participant
from traj_integrator_ros.tools.progress import Progress
from traj_integrator_ros.tools.robot import load_robot

from .client import ClientProcess
from .records import Record, sample_node
from .roles import ROLES, Swing, run_role

READY_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 5.0
SETTLED_WITHIN_S = 15.0
SAMPLE_S = 1.0
_STABLE_FOR = 3
"""Statuses in a row with the same counts, when nothing is on its way any more."""


class SoakFailed(Exception):
    """The soak cannot go on; the message is one line."""


def run_soak(record: Record, params_file: Path, out: Path, progress: Progress) -> None:
    """Run the node and its clients; fills in the record.

    Args:
        record: has duration and rates; the measurements are written into it.
        params_file: parameters of the node.
        out: folder for the logs.
        progress: shows the progress.

    """
    progress.stage("Starting the node and its clients")
    node = NodeProcess(out, params_file)
    try:
        with _clients(record, params_file, out) as clients:
            try:
                _Session(record, node, clients, progress).run()
            except (SoakFailed, ProcessEnded) as failure:
                record.end = " ".join(str(failure).split())
    finally:
        record.exit_code = node.stop().code


@contextmanager
def _clients(record: Record, params_file: Path, out: Path) -> Iterator[dict[str, ClientProcess]]:
    # Read before the clients are forked: it loads torch.
    swing, started = Swing(load_robot(params_file, None).limits), {}
    try:
        for name, role in ROLES.items():
            run = partial(run_role, name, role, swing, record.rates_hz.get(name, 0.0))
            started[name] = ClientProcess(name, run, out / f"{name}.log")
            record.clients[name] = started[name].record
        yield started
    finally:
        for client in started.values():
            client.close()


class _Session:
    """From the first greeting to the last answer."""

    def __init__(
        self, record: Record, node: NodeProcess, clients: dict[str, ClientProcess], progress: Progress
    ) -> None:
        self._record, self._node, self._clients, self._progress = record, node, clients, progress
        self._participant = Participant(name="soak")
        self._participant.check = self._check
        self._participant.subscribe(DiagnosticArray, "/diagnostics", self._on_diagnostics)
        self._counts, self._message, self._begin = NodeCounts(), "nothing", 0.0
        self._same = 0
        """Statuses in a row whose counts were those of the one before."""

    def run(self) -> None:
        """Discover, send, wait for open answers, and take the node's counts before and after."""
        try:
            self._await("ready", "the node to hear the robot", "robot")
            self._tell("go", "robot")
            self._await("ready", "answers")
            self._tell("stop", "planner", "optimizer")  # greeting
            before = self._settled()
            # First those that only listen, so that they count everything that is sent.
            self._tell("go", "controller")
            self._await("begun", "the controller", "controller")
            self._begin = time.monotonic()
            self._tell("go", "robot", "planner", "optimizer")  # the robot counts anew
            self._send()
            self._tell("stop", "planner", "optimizer")
            self._drain()
            self._record.counts = self._settled().since(before)
            self._tell("end", *self._clients)
            self._await("ended", "the end")
        finally:
            self._participant.close()

    def _send(self) -> None:
        total_s = self._record.warmup_s + self._record.duration_s
        self._progress.stage("Soaking", total_s)
        next_sample_s = 0.0
        while (now_s := time.monotonic() - self._begin) < total_s:
            self._participant.spin_once(0.05)
            if now_s >= next_sample_s:
                try:
                    self._record.samples.append(sample_node(self._node, now_s))
                except OSError:  # it has just ended, which the next tick reports
                    continue
                next_sample_s += SAMPLE_S
                self._progress.update(now_s, self._state())

    def _drain(self) -> None:
        """Wait for the answers to everything sent; rejected sequences never get one."""
        self._progress.stage("Closing the books")
        waiting = [self._record.clients[name] for name in ("planner", "optimizer")]
        end = time.monotonic() + ANSWERS_WITHIN_S
        for client in waiting:
            client.open = -1  # until a row says
        while time.monotonic() < end and any(client.open for client in waiting):
            self._participant.spin_once(0.05)

    def _settled(self) -> NodeCounts:
        self._same = 0
        self._wait(lambda: self._same >= _STABLE_FOR, SETTLED_WITHIN_S, "counts that stand still")
        return self._counts

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == f"{self._participant.node_name}: integrator":
                counts = NodeCounts.of_values({entry.key: entry.value for entry in status.values})
                self._same = self._same + 1 if counts == self._counts else 0
                self._counts, self._message = counts, status.message

    def _await(self, state: str, what: str, *names: str) -> None:
        """Wait until these clients, or all, are ready, have begun or have ended."""
        clients = [self._clients[name] for name in names or self._clients]
        self._wait(lambda: all(state in client.told for client in clients), READY_WITHIN_S, what)

    def _wait(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        try:
            self._participant.wait_for(done, what, timeout_s)
        except TimeoutError as error:
            raise SoakFailed(f"{error}; the node says: {self._message}") from None

    def _check(self) -> None:
        """Take what clients tell, and end the waiting if any process has ended."""
        self._node.check()
        for client in self._clients.values():
            if failure := client.look(time.monotonic() - self._begin):
                raise SoakFailed(failure)

    def _tell(self, command: str, *names: str) -> None:
        for name in names:
            self._clients[name].tell(command)

    def _state(self) -> str:
        planner, optimizer = (self._record.clients[name].counts for name in ("planner", "optimizer"))
        return (
            f"{planner.get('answered', 0)} of {planner.get('sent', 0)} sequences and "
            f"{optimizer.get('answered', 0)} of {optimizer.get('called', 0)} calls answered, "
            f"{self._counts.rejected} refused, {self._record.samples[-1].resident / 2**20:.0f} MiB"
        )
