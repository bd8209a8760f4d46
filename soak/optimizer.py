"""An optimizer: calls for gradients at a fixed rate, whether or not the one before has been answered."""

from __future__ import annotations

import time
from array import array
from functools import partial

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future

from traj_integrator_interfaces.msg import ActionSequence, StartState
from traj_integrator_interfaces.srv import ComputeGradient

from .client import Row
from .motion import Swing

BATCH, HORIZON, DT_S = 16, 32, 0.02
VARIANTS = 4
_DEPTH = 1000


class Optimizer:
    """Calls ~/compute_gradient; the same question must get the same answer, to the last bit."""

    name = "optimizer"

    def __init__(self, node: Node, swing: Swing, rate_hz: float) -> None:
        self.period_s = 1 / rate_hz
        # Answers that wait for us must not push each other out of our queue: that would be no loss of the node.
        self._client = node.create_client(
            ComputeGradient, "traj_integrator/compute_gradient", qos_profile=QoSProfile(depth=_DEPTH)
        )
        self._requests = [_request(swing, seed) for seed in range(VARIANTS)]
        self._expected: dict[int, bytes] = {}
        self._greeting: Future | None = None
        self._number = self._open = 0
        self._row = _empty()

    def greet(self) -> bool:
        """Call until one call is answered."""
        if self._greeting is None and self._client.service_is_ready():
            self._greeting = self._client.call_async(self._requests[0])
        return self._greeting is not None and self._greeting.done()

    def begin(self) -> None:
        """Count from here."""
        self._row = _empty()

    def send(self) -> None:
        """Call once more, and do not wait."""
        variant = self._number % VARIANTS
        self._number += 1
        self._open += 1
        self._row["called"] += 1
        sent_at = time.monotonic()
        future = self._client.call_async(self._requests[variant])
        future.add_done_callback(partial(self._on_answer, variant, sent_at))

    def take(self) -> Row:
        """Calls, answers, answers that are no success or wrong, latencies."""
        row, self._row = self._row, _empty()
        return {**row, "open": self._open}

    def _on_answer(self, variant: int, sent_at: float, future: Future) -> None:
        self._row["latencies_ms"].append((time.monotonic() - sent_at) * 1e3)
        self._open -= 1
        response = future.result()
        if not response.success:
            self._row["refused"] += 1
            self._row["faults"].append(f"compute_gradient: {response.message}")
            return
        self._row["answered"] += 1
        gradient = np.frombuffer(response.grad_action, np.float32)
        expected = self._expected.setdefault(variant, gradient.tobytes())
        if not gradient.size or not np.isfinite(gradient).all() or gradient.tobytes() != expected:
            self._row["faults"].append("compute_gradient: expected the finite gradient of the first answer")


def _request(swing: Swing, seed: int) -> ComputeGradient.Request:
    generator = np.random.default_rng(seed)
    shape = (BATCH, HORIZON, len(swing.joint_names))

    def values() -> array:
        return array("f", generator.standard_normal(shape, np.float32).tobytes())

    start = array("f", swing.middle.astype(np.float32).tobytes())
    actions = ActionSequence(
        joint_names=list(swing.joint_names),
        control_space=ActionSequence.JERK,
        batch=BATCH,
        horizon=HORIZON,
        dt=array("f", [DT_S]),
        start=StartState(position=start),
        data=values(),
    )
    upstream = {f"grad_{name}": values() for name in ("position", "velocity", "acceleration", "jerk")}
    return ComputeGradient.Request(actions=actions, **upstream)


def _empty() -> Row:
    return {"called": 0, "answered": 0, "refused": 0, "latencies_ms": [], "faults": []}
