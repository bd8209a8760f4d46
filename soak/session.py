"""One soak: the node, its clients, and the time in which they work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from traj_integrator_ros.tools.progress import Progress
from traj_integrator_ros.traffic.ledger import NodeCounts
from traj_integrator_ros.traffic.node_process import NodeProcess, ProcessEnded
from traj_integrator_ros.traffic.participant import Participant
from traj_integrator_ros.traffic.roles import NodeStatus

from .processes import ClientProcess, sample_node
from .records import ClientRecord, Record

READY_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 5.0
SETTLED_WITHIN_S = 15.0
SAMPLE_S = 1.0
CHUNK_ROLES = {"robot": "follower", "controller": "chunk_controller", "planner": "policy"}


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
    started: dict[str, ClientProcess] = {}
    try:
        for name in ("robot", "controller", "planner", "optimizer"):
            rate_hz = record.rates_hz.get(name, 0.0)
            role = CHUNK_ROLES.get(name, name) if record.chunks else name
            started[name] = ClientProcess(name, role, rate_hz, params_file, out / f"{name}.log")
            record.clients[name] = ClientRecord()
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
        self._status = NodeStatus(self._participant)
        self._begin = 0.0

    def run(self) -> None:
        """Discover, send, wait for open answers, and take the node's counts before and after."""
        try:
            robot = self._clients["robot"]
            self._wait(lambda: robot.is_ready, READY_WITHIN_S, "the node to hear the robot")
            robot.tell("go")
            self._wait(lambda: all(client.is_ready for client in self._clients.values()), READY_WITHIN_S, "answers")
            self._tell("stop", "planner", "optimizer")  # greeting
            before = self._settled()
            # First those that only listen, so that they count everything that is sent.
            self._tell("go", "controller")
            self._wait(lambda: self._clients["controller"].has_begun, READY_WITHIN_S, "the controller")
            for client in self._clients.values():
                client.rows()  # rows of the time before
            self._begin = time.monotonic()
            self._tell("go", "planner", "optimizer")
            self._send()
            self._tell("stop", "planner", "optimizer")
            self._drain()
            self._record.counts = self._settled().since(before)
            for client in self._clients.values():
                client.tell("end")
            self._wait(lambda: all(client.has_ended for client in self._clients.values()), READY_WITHIN_S, "the end")
            self._take_rows()
        finally:
            self._participant.close()

    def _send(self) -> None:
        total_s = self._record.warmup_s + self._record.duration_s
        self._progress.stage("Soaking", total_s)
        next_sample_s = 0.0
        while (now_s := time.monotonic() - self._begin) < total_s:
            self._participant.spin_once(0.05)
            self._take_rows()
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
            self._take_rows()

    def _settled(self) -> NodeCounts:
        self._status.unsettle()
        self._wait(lambda: self._status.is_settled, SETTLED_WITHIN_S, "counts that stand still")
        return self._status.counts

    def _wait(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        try:
            self._participant.wait_for(done, what, timeout_s)
        except TimeoutError as error:
            raise SoakFailed(f"{error}; the node says: {self._status.message or 'nothing'}") from None

    def _check(self) -> None:
        self._node.check()
        for client in self._clients.values():
            if failure := client.failure():
                raise SoakFailed(failure)

    def _tell(self, command: str, *names: str) -> None:
        for name in names:
            self._clients[name].tell(command)

    def _take_rows(self) -> None:
        at_s = time.monotonic() - self._begin
        for name, client in self._clients.items():
            for row in client.rows():
                self._record.clients[name].add(row, at_s)

    def _state(self) -> str:
        planner, optimizer = (self._record.clients[name].counts for name in ("planner", "optimizer"))
        rejected = self._status.counts.rejected
        return (
            f"{planner.get('answered', 0)} of {planner.get('sent', 0)} sequences and "
            f"{optimizer.get('answered', 0)} of {optimizer.get('called', 0)} calls answered, {rejected} refused, "
            f"{self._record.samples[-1].resident / 2**20:.0f} MiB"
        )
