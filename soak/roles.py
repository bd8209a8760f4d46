"""Roles of the clients: controller, planner and optimizer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from kit.messages import Template
from kit.participant import Participant, received_ns
from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.client import ORDERS, gradient_request, sequence
from traj_integrator_ros.client.requests import SECOND_NS, stamp_of
from traj_integrator_ros.motions.trajectories import planned_trajectory
from traj_integrator_ros.tools.checker import Expectation, check
from traj_integrator_ros.wire.readers import SequenceGaps

from .beside import Swing
from .records import Client

BUSY = "busy: "
"""Beginning of the refusal of a call that waited for too long."""
DEPTH = 1000
"""Depth of the clients' queues, messages: answers lost there would look like losses of the node."""
BATCH = 16
HORIZON = 32
DT_S = 0.02
NOISE_RAD = 5e-4
"""Standard deviation of the actions of a sampling planner, rad."""
SEQUENCES = 16
"""Number of different noises that are sent in turn."""
REQUESTS = 4
"""Number of different gradient requests that are sent in turn."""


class Role(NamedTuple):
    """The work of a client, and what is measured of it."""

    client: Client
    send: Callable[[], None] = lambda: None
    """Sends the next message."""
    take: Callable[[], None] = lambda: None
    """Takes the answers that have arrived, if the executor does not."""


def planner(participant: Participant, swing: Swing) -> Role:
    """A sampling planner: sends batches of noisy positions, around where the robot swings, and checks the answers.

    The stamp of a sequence, the time of sending, identifies its answer.
    """
    shape, space = (SEQUENCES, BATCH, HORIZON, len(swing.joint_names)), ActionSequence.POSITION
    noise = NOISE_RAD * np.random.default_rng(1).standard_normal(shape, np.float32)
    template = Template(sequence(noise[0], dt=[DT_S], control_space=space, joint_names=swing.joint_names), noise[0])
    ahead_ns = (DT_S * SECOND_NS * np.arange(1, HORIZON + 1)).astype(np.int64)
    client, gaps = Client("sent", "answered", "missed", "unknown"), SequenceGaps()
    publisher = participant.publisher(ActionSequence, "~/action_sequence", DEPTH)

    def actions(variant: int, stamp_ns: int) -> np.ndarray:
        return swing.at(stamp_ns + ahead_ns)[0].astype(np.float32) + noise[variant]

    def on_batch(message: TrajectoryBatch, info: Mapping[str, object]) -> None:
        client.counts["missed"] += gaps.missed_before(info)
        stamp_ns = stamp_of(message)
        variant = client.answer(stamp_ns, received_ns(info) / SECOND_NS)
        if variant is not None and (fault := fault_of_batch(actions(variant, stamp_ns), message)):
            client.faults[fault] += 1

    def send() -> None:
        variant, now_ns = client.counts["sent"] % SEQUENCES, time.time_ns()
        # Under overload, the planner's own middleware may wait in vain for a lock; then nothing is sent.
        with suppress(rclpy_implementation.RCLError):
            publisher.publish(template.stamped(now_ns, actions(variant, now_ns)))
            client.send(now_ns, variant, now_ns / SECOND_NS)

    participant.subscribe(TrajectoryBatch, "~/trajectory_batch", on_batch, DEPTH)
    return Role(client, send)


def fault_of_batch(actions: np.ndarray, message: TrajectoryBatch) -> str:
    """Return the fault of an answer, or "": its positions must be those that were sent, a step later."""
    for name in ORDERS:
        values = np.frombuffer(getattr(message, name), np.float32)
        if values.size != actions.size:
            return f"trajectory_batch: expected {actions.size} values in {name}, got {values.size}"
        if not np.isfinite(values).all():
            return f"trajectory_batch: expected finite numbers in {name}"
        if name == "position" and not np.array_equal(values.reshape(actions.shape)[:, 1:], actions[:, :-1]):
            return "trajectory_batch: expected the positions that were sent, got others"
    return ""


def controller(participant: Participant, swing: Swing) -> Role:
    """Check every joint trajectory as joint_trajectory_controller does, and more strictly.

    Limits are checked at the points only, since the robot swings by itself and trajectories do not begin at it. What
    counts as latency is the time since the trajectory before: under any load, the newest sequence becomes a motion.
    """
    expected = partial(Expectation, swing.joint_names, limits=swing.limits, between_points=False)
    client, gaps, last_s = Client("received", "missed", "unfit"), SequenceGaps(), None

    def on_trajectory(message: JointTrajectory, info: Mapping[str, object]) -> None:
        nonlocal last_s
        # Not the time of receipt: this client may wait for a processor, too.
        sent_ns = info.get("source_timestamp") or received_ns(info)
        findings = check(planned_trajectory(message), expected(now_ns=sent_ns))
        if last_s is not None:
            client.take(sent_ns / SECOND_NS - last_s)
        last_s = sent_ns / SECOND_NS
        client.counts.update(received=1, missed=gaps.missed_before(info), unfit=bool(findings))
        client.faults.update(f"joint_trajectory: {finding}" for finding in findings)

    participant.subscribe(JointTrajectory, "~/joint_trajectory", on_trajectory, DEPTH)
    return Role(client)


class _Unserved(MutuallyExclusiveCallbackGroup):
    """Keeps the executor from taking a client's answers, which would seem late because of its other messages."""

    def can_execute(self, entity: object) -> bool:
        """Return False."""
        return False


def optimizer(participant: Participant, swing: Swing) -> Role:
    """Calls for gradients without waiting for earlier answers; equal requests must have equal answers."""
    requests = [gradient_request(*_gradient_request(swing, seed)) for seed in range(REQUESTS)]
    caller = participant.node.create_client(
        ComputeGradient, participant.topic("~/compute_gradient"),
        qos_profile=QoSProfile(depth=DEPTH), callback_group=_Unserved(),
    )  # fmt: skip
    client, expected = Client("sent", "answered", "refused"), {}

    def take() -> None:
        while True:
            with caller.handle:
                header, response = caller.handle.take_response(ComputeGradient.Response)
            if header is None:
                return
            variant = client.answer(header.request_id.sequence_number, header.received_timestamp / SECOND_NS)
            if not response.success:
                client.counts.update(refused=1, answered=-1)
                if not response.message.startswith(BUSY):
                    client.faults[f"compute_gradient: {response.message}"] += 1
                continue
            gradient = np.asarray(response.grad_action)
            right = expected.setdefault(variant, gradient.tobytes())
            if not np.isfinite(gradient).all() or gradient.tobytes() != right:
                client.faults["compute_gradient: expected the finite gradient of the first answer"] += 1

    def send() -> None:
        variant = client.counts["sent"] % REQUESTS
        if caller.service_is_ready():
            sent_s = time.time_ns() / SECOND_NS
            with caller.handle:
                client.send(caller.handle.send_request(requests[variant]), variant, sent_s)

    return Role(client, send, take)


def _gradient_request(swing: Swing, seed: int) -> tuple[ActionSequence, dict[str, np.ndarray]]:
    generator = np.random.default_rng(seed)
    shape = (BATCH, HORIZON, len(swing.joint_names))
    actions, *upstream = (generator.standard_normal(shape, np.float32) for _ in range(5))
    message = sequence(actions, dt=DT_S, control_space="jerk", joint_names=swing.joint_names, position=swing.middle)
    return message, dict(zip(ORDERS, upstream, strict=True))


ROLES = {"controller": controller, "planner": planner, "optimizer": optimizer}
