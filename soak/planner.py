"""A sampling planner: batches of accelerations from the robot's present state, and the trajectories that come back."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.wire.sequence_gaps import SequenceGaps

from .client import Row
from .motion import Swing
from .template import Template

BATCH, HORIZON, DT_S = 16, 32, 0.02
ACCELERATION_RAD_S2 = 0.3
VARIANTS = 16
_DEPTH = 1000


class Planner:
    """Publishes action sequences and checks that every answer is one to a sequence of ours, finite, and comes once."""

    name = "planner"

    def __init__(self, node: Node, swing: Swing, rate_hz: float) -> None:
        self.period_s = 1 / rate_hz
        dof = len(swing.joint_names)
        generator = np.random.default_rng(1)
        self._actions = generator.uniform(-1, 1, (VARIANTS, BATCH, HORIZON, dof)).astype(np.float32)
        self._actions *= ACCELERATION_RAD_S2
        self._templates = [Template(_sequence(swing.joint_names, actions)) for actions in self._actions]
        self._publisher = node.create_publisher(
            ActionSequence, "traj_integrator/action_sequence", QoSProfile(depth=_DEPTH)
        )
        node.create_subscription(
            TrajectoryBatch, "traj_integrator/trajectory_batch", self._on_answer, QoSProfile(depth=_DEPTH)
        )
        self._gaps = SequenceGaps()
        self._greeted = False
        self._number = 0
        self._open: dict[int, int] = {}
        self._row = _empty()

    def greet(self) -> bool:
        """Send sequences until one is answered; what is sent from then on cannot be missed unnoticed."""
        if not self._greeted:
            self.send()
        return self._greeted

    def begin(self) -> None:
        """Count from here."""
        self._open.clear()
        self._row = _empty()

    def send(self) -> None:
        """Publish the next sequence; its stamp is the time of sending, and its name."""
        variant = self._number % VARIANTS
        self._number += 1
        stamp_ns = time.time_ns()
        self._open[stamp_ns] = variant
        self._row["sent"] += 1
        self._publisher.publish(self._templates[variant].stamped(stamp_ns))

    def take(self) -> Row:
        """Sequences sent and answered, answers that were lost on their way or are wrong, latencies."""
        row, self._row = self._row, _empty()
        return {**row, "open": len(self._open)}

    def _on_answer(self, message: TrajectoryBatch, info: Mapping[str, object]) -> None:
        self._row["missed"] += self._gaps.missed_before(info)
        stamp_ns = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        variant = self._open.pop(stamp_ns, None)
        if variant is None:
            self._row["unknown"] += self._greeted
            return
        self._greeted = True
        self._row["answered"] += 1
        self._row["latencies_ms"].append((info["received_timestamp"] - stamp_ns) * 1e-6)
        fault = _fault(message, self._actions[variant])
        if fault:
            self._row["faults"].append(fault)


def _sequence(joint_names: tuple[str, ...], actions: np.ndarray) -> ActionSequence:
    return ActionSequence(
        joint_names=list(joint_names),
        control_space=ActionSequence.ACCELERATION,
        batch=actions.shape[0],
        horizon=actions.shape[1],
        dt=array("f", [DT_S]),
        data=array("f", actions.tobytes()),
    )


def _fault(message: TrajectoryBatch, actions: np.ndarray) -> str:
    """What is wrong with an answer; "" where nothing is. Held accelerations come back unchanged, a step later."""
    for name in ("position", "velocity", "acceleration", "jerk"):
        values = np.frombuffer(getattr(message, name), np.float32)
        if values.size != actions.size:
            return f"trajectory_batch: expected {actions.size} values in {name}, got {values.size}"
        if not np.isfinite(values).all():
            return f"trajectory_batch: expected finite numbers in {name}"
        moved = values.reshape(actions.shape)[:, 1:]
        if name == "acceleration" and not np.array_equal(moved, actions[:, :-1]):
            return "trajectory_batch: expected the accelerations that were sent, got others"
    return ""


def _empty() -> Row:
    return {"sent": 0, "answered": 0, "missed": 0, "unknown": 0, "latencies_ms": [], "faults": []}
