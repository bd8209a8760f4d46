"""Who works with a node: a driver; planner and controller, which account for all that passes; and what it reports."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.client.requests import SECOND_NS, stamp_of
from traj_integrator_ros.motions.trajectories import planned_trajectory
from traj_integrator_ros.tools.checker import Expectation, check
from traj_integrator_ros.wire.readers import SequenceGaps

from .ledger import Ledger, NodeCounts
from .messages import Template
from .participant import Participant, received_ns

DEPTH = 1000
"""Depth of our queues: answers that displace each other in them would not be losses of the node."""
_STABLE_FOR = 3
"""Statuses in a row with the same counts: nothing is on its way any more."""
About = TypeVar("About")


class StatePublisher:
    """The robot's driver: publishes where the joints are, with the least work for each message."""

    def __init__(self, participant: Participant, joint_names: tuple[str, ...]) -> None:
        self.messages = 0
        """Joint states published so far."""
        self.publisher = participant.publisher(JointState, "joint_states", depth=10)
        fields = np.random.default_rng(0).random((2, len(joint_names)))
        position, velocity = (array("d", values.tobytes()) for values in fields)
        self._template = Template(JointState(name=list(joint_names), position=position, velocity=velocity), *fields)

    def publish(self, position: np.ndarray, velocity: np.ndarray, stamp_ns: int) -> None:
        """Publish a joint state `[dof]`, float64; rad and rad/s."""
        self.publisher.publish(self._template.stamped(stamp_ns, position, velocity))
        self.messages += 1


class Planner(Generic[About]):
    """Sends action sequences, each with a unique stamp, the time of sending, which identifies its answer.

    `check` is called with what a sequence is about, and with the answer; it returns what is wrong with it, or "".
    """

    def __init__(self, participant: Participant, check: Callable[[About, TrajectoryBatch], str]) -> None:
        self.ledger: Ledger[About] = Ledger()
        self.faults: Counter[str] = Counter()
        self.missed = 0
        """Answers that were lost on their way to us."""
        self._check = check
        self._gaps = SequenceGaps()
        self._last_stamp_ns = 0
        self.publisher = participant.publisher(ActionSequence, "~/action_sequence", DEPTH)
        self.subscription = participant.subscribe(TrajectoryBatch, "~/trajectory_batch", self._on_batch, DEPTH)

    def send(self, message: Template, about: About, observed_ns: int = 0) -> None:
        """Publish a sequence; `observed_ns` is its stamp, where that is another time than the sending."""
        now_ns = time.time_ns()
        stamp_ns = self._last_stamp_ns = max(observed_ns or now_ns, self._last_stamp_ns + 1)
        self.ledger.send(stamp_ns, about, now_ns / SECOND_NS)
        self.publisher.publish(message.stamped(stamp_ns))

    def counts(self) -> dict[str, int]:
        """Sequences sent and answered, answers that were lost on their way, and that answer nothing."""
        ledger = self.ledger
        counts = {"sent": ledger.sent, "answered": ledger.answered}
        return {**counts, "missed": self.missed, "unknown": ledger.unknown_answers}

    def _on_batch(self, message: TrajectoryBatch, info: Mapping[str, object]) -> None:
        self.missed += self._gaps.missed_before(info)
        about = self.ledger.answer(stamp_of(message), received_ns(info) / SECOND_NS)
        if about is not None and (fault := self._check(about, message)):
            self.faults[fault] += 1


class Controller:
    """Checks every joint trajectory as joint_trajectory_controller does, and beyond.

    `expectation` returns the rules for a trajectory that arrived at a time, ns since the epoch.
    """

    def __init__(self, participant: Participant, expectation: Callable[[int], Expectation]) -> None:
        self.received = self.missed = self.unfit = 0
        self.faults: Counter[str] = Counter()
        self._expectation, self._gaps = expectation, SequenceGaps()
        self.subscription = participant.subscribe(JointTrajectory, "~/joint_trajectory", self._on_trajectory, DEPTH)

    def _on_trajectory(self, message: JointTrajectory, info: Mapping[str, object]) -> None:
        self.missed += self._gaps.missed_before(info)
        self.received += 1
        findings = check(planned_trajectory(message), self._expectation(received_ns(info)))
        self.unfit += bool(findings)
        self.faults.update(f"joint_trajectory: {finding}" for finding in findings)


class NodeStatus:
    """Listens to the diagnostics of a participant's integrator node."""

    def __init__(self, participant: Participant) -> None:
        self.message = ""
        """The latest status in words."""
        self.counts = NodeCounts()
        self._same = 0
        self._name = f"{participant.node_name}: integrator"
        participant.subscribe(DiagnosticArray, "/diagnostics", self._on_diagnostics)

    @property
    def is_settled(self) -> bool:
        """Whether the counts have stopped changing since the start, or since `unsettle`."""
        return self._same >= _STABLE_FOR

    def unsettle(self) -> None:
        """From here on, wait anew for counts that do not change."""
        self._same = 0

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name != self._name:
                continue
            counts = NodeCounts.of_values({entry.key: entry.value for entry in status.values})
            self._same = self._same + 1 if counts == self.counts else 0
            self.counts, self.message = counts, status.message
