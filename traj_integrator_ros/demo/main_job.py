"""The main job: a robot that plays a motion, a planner beside it, and what the node makes of its plans."""

import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import NamedTuple

import numpy as np
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import Rejection

from ..client import ORDERS, IntegratorClient, JointMotion, Trajectories, set_stamp
from ..kernels.types import ControlSpace
from ..motions.samples import Samples
from ..tools.replay import due_samples
from .recording import mean_step
from .windows import cut_window, horizon_of

PERIOD_S = 0.05
"""Time between two sequences, s."""
BLOCK_S = 0.4
"""Time for which the control space stays the same, s."""
MOST_IN_FLIGHT = 6
"""Largest number of sequences without an answer: the node's queue drops some if there are more than ten."""
SHOWN = 8
"""Number of candidates of each answer that are kept for the figures."""


class Answer(NamedTuple):
    """The answer to a sequence; `time` is when the sequence begins, s of the motion."""

    space: ControlSpace
    time: float
    latency_s: float
    batch: Trajectories


class MainJob:
    """Robot, planner and listener: collects motions for the controller, answers by stamp, and refusals by reason."""

    def __init__(self, client: IntegratorClient, recording: Samples, planned: Samples) -> None:
        self.client, self.recording, self.planned = client, recording, planned
        self.sent: dict[int, tuple[ControlSpace, float]] = {}
        self.answers: dict[int, Answer] = {}
        self.motions: list[JointMotion] = []
        self.rejected, self.not_commanded = Counter[str](), Counter[str]()
        self.states = client.node.create_publisher(JointState, "joint_states", 10)
        client.on_batch(self.receive, depth=1000)
        client.on_trajectory(self.motions.append, depth=1000)
        client.on_rejection(self.refused, depth=1000)

    def play(self, passes: int, over: Event) -> None:
        """Publish the recording's joint states at their times, until all passes are over or the event is set."""
        for _, k, due in due_samples(self.recording.time, passes):
            if over.wait(max(0.0, due - time.monotonic())):
                return
            self.tell(k)

    def tell(self, k: int) -> None:
        """Publish a joint state of the recording."""
        message = JointState(name=list(self.recording.joint_names))
        message.position = array("d", self.recording.position[k].tobytes())
        message.velocity = array("d", self.recording.velocity[k].tobytes())
        set_stamp(message, time.time_ns())
        self.states.publish(message)

    def plan(self, elapsed: float, random: np.random.Generator) -> None:
        """Send candidates that start from the robot's state at a time of playing, s, while the robot moves."""
        motion, pass_s = self.planned, self.recording.duration + mean_step(self.recording)
        first = int(np.searchsorted(motion.time, elapsed % pass_s + 1e-9, side="right")) - 1
        if first >= len(motion.time) - horizon_of(motion) or self.lost >= MOST_IN_FLIGHT:
            return  # too little of the motion is left, or the node is busy
        space = list(ControlSpace)[int(elapsed / BLOCK_S) % len(ControlSpace)]
        actions, fields = cut_window(space, motion, first, random)
        stamp_ns = time.time_ns()
        self.sent[stamp_ns] = space, float(motion.time[first])
        self.client.publish(actions, stamp_ns=stamp_ns, **fields)

    def receive(self, batch: Trajectories) -> None:
        """Record the trajectories that answer a sequence."""
        if batch.stamp_ns in self.sent and batch.stamp_ns not in self.answers:
            latency_s = 1e-9 * (time.time_ns() - batch.stamp_ns)
            shown = replace(batch, **{name: getattr(batch, name)[:SHOWN].copy() for name in ORDERS})
            self.answers[batch.stamp_ns] = Answer(*self.sent[batch.stamp_ns], latency_s, shown)

    def refused(self, rejection: Rejection) -> None:
        """Count refusals: of whole sequences, and of motions that a newer sequence replaced before they began."""
        counts = self.not_commanded if rejection.output == "joint_trajectory" else self.rejected
        counts[rejection.reason] += rejection.count

    def run(self, is_over: Callable[[], bool], on_progress: Callable[[float, str], None]) -> None:
        """Plan every `PERIOD_S` until playing is over."""
        random, begin = np.random.default_rng(1), time.monotonic()
        while not is_over():
            self.plan(elapsed := time.monotonic() - begin, random)
            on_progress(elapsed, f"{len(self.sent)} sequences, {len(self.answers)} answered")
            time.sleep(PERIOD_S - (time.monotonic() - begin) % PERIOD_S)

    @property
    def lost(self) -> int:
        """Number of sequences that have been neither answered nor rejected."""
        return max(0, len(self.sent) - len(self.answers) - self.rejected.total())
