"""One soak: the node, its robot and its clients work for some time."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray

from kit.node_process import NodeProcess, ProcessEnded
from kit.participant import Participant
from traj_integrator_ros.node.shared_memory import remove_abandoned_segments
from traj_integrator_ros.tools.progress import Progress
from traj_integrator_ros.tools.robot import load_robot

from .beside import Driver, Neighbour, Operator, Swing
from .records import Client, NodeCounts, NodeSample, Record
from .roles import ROLES

READY_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 5.0
SETTLED_WITHIN_S = 15.0
STOPPED_WITHIN_S = 60.0
SAMPLE_S = 1.0
GREETING_S = 0.2
_SPIN_S = 0.02
_MOST_AT_ONCE = 8
"""Number of messages of one role that are sent between two looks at what has come."""
BURST = 900
"""Number of calls that are made at once before the warm-up: the middleware keeps the memory in which calls
have waited, so that what a stall needs does not look like a leak. Its queue holds 1,000.
"""
_SAME_MIB = 0.5
"""Growth of memory, MiB, below which a burst counts as one that needed no more: statuses and logs take as much."""
_FULL_AFTER = 5
"""Number of such bursts in a row after which the queue has been full: how many calls wait at once is left to chance."""
_BETWEEN_BURSTS_S = 2.0
"""Time, s, in which the node answers or refuses the calls of a burst."""
_STABLE_FOR = 3
"""Number of statuses in a row with equal counts, after which nothing is in transit any more."""


def run_soak(record: Record, params_file: Path, out: Path, progress: Progress) -> None:
    """Run the node with its parameters, the robot and the clients; fill in the record, and leave logs in a folder."""
    progress.stage("Starting the node and its clients")
    remove_abandoned_segments()  # of killed nodes: with too little shared memory, other transports are used
    node = NodeProcess(out, params_file)
    try:
        swing = Swing(load_robot(params_file, None).limits)
        with ExitStack() as stack:
            if record.beside:
                stack.callback(Neighbour(node.pid, out / "neighbour.log").close)
            robot = Driver(swing, record.rates_hz["robot"], out / "robot.log")
            stack.callback(robot.close)
            operator = Operator(out / "operator.log")
            stack.callback(operator.close)
            participant = stack.enter_context(Participant(name="soak"))
            try:
                _Session(record, node, robot, operator, participant, swing, progress).run()
            except (OSError, RuntimeError, ProcessEnded) as failure:
                record.end = " ".join(str(failure).split())
    finally:
        record.exit_code = node.stop().code


class _Session:
    """A soak from the first greeting to the last answer."""

    def __init__(
        self, record: Record, node: NodeProcess, robot: Driver, operator: Operator, participant: Participant,
        swing: Swing, progress: Progress,
    ) -> None:  # fmt: skip
        self._record, self._node, self._robot, self._progress = record, node, robot, progress
        self._operator = operator
        self._participant = participant
        participant.check = self._check
        self._roles = {name: role(participant, swing) for name, role in ROLES.items()}
        record.clients = {"robot": Client("sent"), **{name: role.client for name, role in self._roles.items()}}
        self._driven = 0
        """Number of joint states that were sent before."""
        participant.subscribe(DiagnosticArray, "/diagnostics", self._on_diagnostics)
        self._counts, self._message = NodeCounts(), "nothing"
        self._same = 0
        """Number of statuses in a row whose counts equal those before."""

    def run(self) -> None:
        """Discover, send, wait for open answers, and take the node's counts before and after."""
        self._greet()
        before, clients = self._settled(), self._record.clients
        self._record.priority = os.sched_getscheduler(self._node.pid) == os.SCHED_RR
        self._take()
        self._driven = self._robot.sent
        for client in clients.values():
            client.reset()
        self._fill()
        self._send()
        self._progress.stage("Closing the books")
        self._drain()
        self._record.counts = self._settled().since(before)
        self._take()
        self._record.clients = {name: copy.copy(client) for name, client in clients.items()}
        for client in clients.values():
            client.reset()
        self._stop()

    def _drain(self) -> None:
        """Take answers until none is open or, since refused sequences never get one, none comes any more.

        Clients that were short of cores have whole queues to read.
        """
        before = None
        while (come := sum(client.counts.total() for client in self._record.clients.values())) != before:
            before = come
            self._participant.spin_until(self._is_answered, ANSWERS_WITHIN_S)

    def _is_answered(self) -> bool:
        self._take()
        return not any(client.open for client in self._record.clients.values())

    def _greet(self) -> None:
        """Send until each client and the node have discovered each other: answers may be lost until then."""
        end, roles = time.monotonic() + READY_WITHIN_S, self._roles.values()
        while not all(role.client.counts["answered"] or role.client.counts["received"] for role in roles):
            if time.monotonic() > end:
                raise TimeoutError(f"answers: not within {READY_WITHIN_S:g} s; the node says: {self._message}")
            for role in roles:
                role.send()
            self._participant.spin(GREETING_S)
            self._take()

    def _fill(self) -> None:
        """Make calls in bursts until these need no more memory of the node, at most for the time of a warm-up."""
        most, same, end_s = 0.0, 0, time.monotonic() + self._record.warmup_s
        while same < _FULL_AFTER and time.monotonic() < end_s:
            for _ in range(BURST):
                self._roles["optimizer"].send()
            again_s = time.monotonic() + _BETWEEN_BURSTS_S
            while time.monotonic() < again_s:
                self._participant.spin_once(_SPIN_S)
                self._take()  # The client's queue must not overflow, which would look like lost answers.
            resident = self._node.memory_bytes("VmRSS") / 2**20
            same = same + 1 if resident - most < _SAME_MIB else 0
            most = max(most, resident)

    def _send(self) -> None:
        total_s, sample_s = self._record.warmup_s + self._record.duration_s, 0.0
        self._progress.stage("Soaking", total_s)
        for now_s in self._paced():
            if now_s >= total_s:
                break
            if now_s >= sample_s:
                with suppress(OSError):  # the node has just ended; the next tick reports it
                    self._note(now_s)
                sample_s += SAMPLE_S
        self._note(total_s)

    def _stop(self) -> None:
        """Let the operator call ~/stop under the same load, which does not change the counts any more."""
        self._progress.stage("Stopping")
        self._operator.begin()
        for now_s in self._paced():
            if self._operator.is_over or now_s > STOPPED_WITHIN_S:
                break
        self._record.stops_s = self._operator.stops_s

    def _paced(self) -> Iterator[float]:
        """Send what is due and take what has come, as long as it is iterated; yields the time since the beginning, s.

        A client that is too slow sends what is due later, a few messages of each role in each turn.
        """
        rates = {name: rate for name, rate in self._record.rates_hz.items() if name in self._roles}
        begin, sent = time.monotonic(), dict.fromkeys(rates, 0)
        while True:
            now_s = time.monotonic() - begin
            yield now_s
            for name, rate in rates.items():
                for _ in range(min(_MOST_AT_ONCE, int(now_s * rate) + 1 - sent[name])):
                    self._roles[name].send()
                    sent[name] += 1
            self._take()
            due_s = min(sent[name] / rate for name, rate in rates.items()) - (time.monotonic() - begin)
            self._participant.spin_once(min(max(due_s, 0.0), _SPIN_S))

    def _take(self) -> None:
        for role in self._roles.values():
            role.take()

    def _note(self, at_s: float) -> None:
        """Record the measurements until a time since the beginning, s."""
        record, node = self._record, self._node
        record.samples.append(NodeSample(at_s, node.memory_bytes("VmRSS"), node.cpu_s()))
        record.clients["robot"].counts["sent"] = self._robot.sent - self._driven
        for client in record.clients.values():
            client.at_s = at_s
        self._progress.update(at_s, self._state())

    def _settled(self) -> NodeCounts:
        self._same = 0
        what = f"counts that stand still; the node says: {self._message}"
        self._participant.wait_for(lambda: self._same >= _STABLE_FOR, what, SETTLED_WITHIN_S)
        return self._counts

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == f"{self._participant.node_name}: integrator":
                counts = NodeCounts.of_values({entry.key: entry.value for entry in status.values})
                self._same = self._same + 1 if counts == self._counts else 0
                self._counts, self._message = counts, status.message

    def _check(self) -> None:
        """End the waiting if any process has ended."""
        self._node.check()
        self._robot.check()

    def _state(self) -> str:
        planner, optimizer = (self._record.clients[name].counts for name in ("planner", "optimizer"))
        return (
            f"{planner['answered']} of {planner['sent']} sequences and {optimizer['answered']} of "
            f"{optimizer['sent']} calls answered, {self._counts.rejected} refused, "
            f"{self._record.samples[-1].resident / 2**20:.0f} MiB"
        )
