"""One run of the demo over DDS, as a user's program: robot, planner, optimizer, and a listener to what comes back."""

from __future__ import annotations

import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import Rejection

from ..client import ORDERS, IntegratorClient, JointMotion, Refused, Trajectories, set_stamp
from ..kernels.types import ControlSpace
from ..tools.command_line import ToolFailure
from ..tools.progress import Progress
from ..tools.replay import due_samples
from .motion import Motion
from .optimizer import Result, minimize, problems_of
from .windows import cut_window, horizon_of

NODE_WITHIN_S, STATE_WITHIN_S, ANSWERS_WITHIN_S = 30.0, 5.0, 5.0
RATE = 20.0
"""Sequences per second."""
BLOCK_S = 0.4
"""Time for which windows of one control space are sent, s."""
MOST_IN_FLIGHT = 6
"""Unanswered sequences of the last seconds with which the planner waits: the node's queue would drop further ones."""
IN_FLIGHT_S = 2.0
SHOWN_CANDIDATES = 8


@dataclass
class Sent:
    """A sequence: its control space, where it begins in the motion, s, when it was sent, s; and its answer."""

    space: ControlSpace
    time: float
    at: float
    latency_s: float = 0.0
    answer: Trajectories | None = None
    """The first candidates."""


@dataclass
class Traffic:
    """Sequences that were sent, by their stamps, and the answers."""

    sent: dict[int, Sent] = field(default_factory=dict)
    motions: list[JointMotion] = field(default_factory=list)
    """The trajectories for the controller."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Sequences without any trajectory, by reason."""
    not_commanded: Counter[str] = field(default_factory=Counter)
    """Sequences that were answered, but not for the controller: a newer one came, for example."""

    def on_batch(self, batch: Trajectories) -> None:
        """Take an answer."""
        sent = self.sent.get(batch.stamp_ns)
        if sent is not None and sent.answer is None:
            sent.latency_s = time.monotonic() - sent.at
            shown = {name: getattr(batch, name)[:SHOWN_CANDIDATES].copy() for name in ORDERS}
            sent.answer = replace(batch, **shown)

    def on_rejection(self, rejection: Rejection) -> None:
        """Count a rejection."""
        counts = self.not_commanded if rejection.output == "joint_trajectory" else self.rejected
        counts[rejection.reason] += rejection.count

    @property
    def answered(self) -> list[Sent]:
        """Those with an answer, in the order of sending."""
        return [sent for sent in list(self.sent.values()) if sent.answer is not None]

    @property
    def lost(self) -> int:
        """How many were neither answered nor rejected."""
        return max(0, len(self.sent) - len(self.answered) - self.rejected.total())

    @property
    def in_flight(self) -> int:
        """How many of the last seconds are not answered."""
        return sum(one.answer is None and time.monotonic() - one.at < IN_FLIGHT_S for one in self.sent.values())


class Session:
    """Robot and planner beside one node, which `check` looks at again and again. Raises ToolFailure if it fails."""

    def __init__(self, client: IntegratorClient, recording: Motion, planned: Motion, check: Callable[[], None]) -> None:
        self.traffic = Traffic()
        self._client, self._recording, self._planned, self._check = client, recording, planned, check
        self._pass_s = recording.duration + recording.step
        self._states = client.node.create_publisher(JointState, "joint_states", 10)
        client.on_batch(self.traffic.on_batch, depth=1000)
        client.on_trajectory(self.traffic.motions.append, depth=1000)
        client.on_rejection(self.traffic.on_rejection, depth=1000)

    def wait_for_node(self) -> None:
        """Wait until the node is active, and knows where the robot is."""
        node, deadline = self._client.integrator, time.monotonic() + NODE_WITHIN_S
        while True:
            self._check()
            with suppress(TimeoutError):
                self._client.wait_until_active(2.0)
                break
            if time.monotonic() > deadline:
                raise ToolFailure(f"no active node {node} within {NODE_WITHIN_S:.0f} s in this ROS domain")
        deadline = time.monotonic() + STATE_WITHIN_S
        while True:
            self._publish_state(0)
            try:
                self._client.committed(1)
                return
            except (Refused, TimeoutError) as error:
                if time.monotonic() > deadline:
                    joints = ", ".join(self._recording.joint_names)
                    raise ToolFailure(f"{node} does not hear the robot; are its joints {joints}? {error}") from None
            time.sleep(0.05)

    def play_and_plan(self, passes: int, batch: int, progress: Progress) -> None:
        """Play the recording, and send windows that start where the robot is, while it moves."""
        progress.stage("Playing and planning", passes * self._pass_s)
        over = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            playing = threads.submit(self._play, passes, over)
            try:
                self._plan(batch, playing.done, progress)
            finally:
                over.set()
            playing.result()

    def optimize(self) -> list[Result]:
        """Find the motions of least jerk; and take the last answers to what was sent before."""
        try:
            results = [minimize(problem, self._client) for problem in problems_of(self._planned)]
        except (Refused, TimeoutError) as error:
            self._check()
            raise ToolFailure(f"optimizer: {error}") from None
        deadline = time.monotonic() + ANSWERS_WITHIN_S
        while self.traffic.lost and time.monotonic() < deadline:
            time.sleep(0.05)
        return results

    def _play(self, passes: int, over: threading.Event) -> None:
        for _, k, due in due_samples(self._recording.time, passes):
            if over.wait(max(0.0, due - time.monotonic())):
                return
            self._publish_state(k)

    def _publish_state(self, k: int) -> None:
        message = JointState(name=list(self._recording.joint_names))
        message.position = array("d", self._recording.position[k].tobytes())
        message.velocity = array("d", self._recording.velocity[k].tobytes())
        set_stamp(message, time.time_ns())
        self._states.publish(message)

    def _plan(self, batch: int, is_over: Callable[[], bool], progress: Progress) -> None:
        """Send windows of each control space for a while."""
        planned, traffic, random = self._planned, self.traffic, np.random.default_rng(1)
        last = planned.samples - 1 - horizon_of(planned)
        begin = due = time.monotonic()
        while not is_over():
            self._check()
            elapsed = time.monotonic() - begin
            first = int(np.searchsorted(planned.time, elapsed % self._pass_s + 1e-9, side="right")) - 1
            if first <= last and traffic.in_flight < MOST_IN_FLIGHT:  # else not enough future is left, or it is busy
                space = list(ControlSpace)[int(elapsed / BLOCK_S) % len(ControlSpace)]
                actions, fields = cut_window(space, planned, first, batch, random)
                stamp_ns = time.time_ns()
                traffic.sent[stamp_ns] = Sent(space, float(planned.time[first]), time.monotonic())
                self._client.publish(actions, stamp_ns=stamp_ns, **fields)
            progress.update(elapsed, f"{len(traffic.sent)} sequences, {len(traffic.answered)} answered")
            due = max(due + 1 / RATE, time.monotonic() - 1 / RATE)
            time.sleep(max(0.0, due - time.monotonic()))
