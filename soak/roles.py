"""The clients: `python -m soak.roles ROLE RATE_HZ ROBOT` runs one of them; the soak starts them."""

from __future__ import annotations

import sys
import time

import numpy as np

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.tools.checker import Expectation
from traj_integrator_ros.traffic import controller, optimizer, planner
from traj_integrator_ros.traffic.messages import ORDERS, Template, gradient_request, sequence
from traj_integrator_ros.traffic.participant import Participant
from traj_integrator_ros.traffic.player import StatePublisher

from .chunk_roles import Follower, Policy
from .client import Role, run_client
from .motion import Swing

BATCH, HORIZON, DT_S = 16, 32, 0.02
ACCELERATION_RAD_S2 = 0.3
SEQUENCES, REQUESTS = 16, 4
"""Number of different messages that are sent in turn."""


def main() -> int:
    """Run a client process; returns the exit code."""
    name, rate, robot = sys.argv[1:]
    swing = Swing.of_json(robot)
    return run_client(name, lambda participant: ROLES[name](participant, swing, float(rate)))


class Robot(Role):
    """The robot's driver: publishes joint states."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        super().__init__(rate_hz)
        self._swing = swing
        self._states = StatePublisher(participant, swing.joint_names)

    def greet(self) -> bool:
        """Wait for the node's subscription."""
        self.send()
        return self._states.publisher.get_subscription_count() > 0

    def send(self) -> None:
        """Publish a joint state of now."""
        now_ns = time.time_ns()
        self._states.publish(*self._swing.at(now_ns), now_ns)

    def counts(self) -> dict[str, int]:
        """Joint states sent."""
        return {"sent": self._states.messages}


class Planner(Role):
    """A sampling planner: sends batches of accelerations from the robot's present state, and checks the answers."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        shape = (SEQUENCES, BATCH, HORIZON, len(swing.joint_names))
        self._actions = ACCELERATION_RAD_S2 * np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
        self._templates = [
            Template(
                sequence(actions, dt=[DT_S], control_space=ActionSequence.ACCELERATION, joint_names=swing.joint_names)
            )
            for actions in self._actions
        ]
        self._planner: planner.Planner[int] = planner.Planner(participant, self._fault)
        super().__init__(rate_hz, self._planner.ledger, self._planner.faults)

    def greet(self) -> bool:
        """Send sequences until one is answered; from then on, losses are noticed."""
        self.send()
        return self.ledger.answered > 0

    def send(self) -> None:
        """Publish the next sequence."""
        variant = self.ledger.sent % SEQUENCES
        self._planner.send(self._templates[variant], variant)

    def counts(self) -> dict[str, int]:
        """Numbers of sequences sent and answered, of lost answers, and of answers to no sequence."""
        return self._planner.counts()

    def _fault(self, variant: int, message: TrajectoryBatch) -> str:
        """The fault of an answer; held accelerations must be returned unchanged, a step later."""
        actions = self._actions[variant]
        for name in ORDERS:
            values = np.frombuffer(getattr(message, name), np.float32)
            if values.size != actions.size:
                return f"trajectory_batch: expected {actions.size} values in {name}, got {values.size}"
            if not np.isfinite(values).all():
                return f"trajectory_batch: expected finite numbers in {name}"
            moved = values.reshape(actions.shape)[:, 1:]
            if name == "acceleration" and not np.array_equal(moved, actions[:, :-1]):
                return "trajectory_batch: expected the accelerations that were sent, got others"
        return ""


class Controller(Role):
    """Checks what the node publishes for controllers; the robot swings by itself, so they start elsewhere."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        self._swing = swing
        self._controller = controller.Controller(participant, self._expectation)
        super().__init__(faults=self._controller.faults)

    def greet(self) -> bool:
        """Wait for a trajectory that answers the planner's greeting."""
        return self._controller.received > 0

    def counts(self) -> dict[str, int]:
        """Trajectories received, lost on their way, unfit."""
        return {name: getattr(self._controller, name) for name in ("received", "missed", "unfit")}

    def _expectation(self, now_ns: int) -> Expectation:
        swing = self._swing
        return Expectation(swing.joint_names, complete=True, now_ns=now_ns, limits=swing.limits)


class Optimizer(Role):
    """Calls for gradients without waiting for earlier answers; equal requests must have equal answers."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        self._optimizer: optimizer.Optimizer[int] = optimizer.Optimizer(participant)
        super().__init__(rate_hz, self._optimizer.ledger)
        self._requests = [_gradient_request(swing, seed) for seed in range(REQUESTS)]
        self._expected: dict[int, bytes] = {}
        self._refused = 0

    def greet(self) -> bool:
        """Call repeatedly: the answer to a first call is lost if the node has not discovered us yet."""
        if self._optimizer.is_connected:
            self.send()
        return self.ledger.answered > 0

    def send(self) -> None:
        """Call once more, and do not wait."""
        variant = self.ledger.sent % REQUESTS
        self._optimizer.send(self._requests[variant], variant, self._on_answer)

    def counts(self) -> dict[str, int]:
        """Numbers of calls, of answers, and of answers without success."""
        answered = self.ledger.answered - self._refused
        return {"called": self.ledger.sent, "answered": answered, "refused": self._refused}

    def _on_answer(self, variant: int, response: ComputeGradient.Response) -> None:
        if not response.success:
            self._refused += 1
            self.faults[f"compute_gradient: {response.message}"] += 1
            return
        gradient = np.frombuffer(response.grad_action, np.float32)
        expected = self._expected.setdefault(variant, gradient.tobytes())
        if not gradient.size or not np.isfinite(gradient).all() or gradient.tobytes() != expected:
            self.faults["compute_gradient: expected the finite gradient of the first answer"] += 1


class ChunkController(Controller):
    """Checks what the node publishes for a robot that executes it: limits must hold between the points, too."""

    def _expectation(self, now_ns: int) -> Expectation:
        swing = self._swing
        return Expectation(swing.joint_names, complete=True, now_ns=now_ns, limits=swing.limits, between_points=True)


ROLES = {
    "robot": Robot, "controller": Controller, "planner": Planner, "optimizer": Optimizer,
    "follower": Follower, "chunk_controller": ChunkController, "policy": Policy,
}  # fmt: skip


def _gradient_request(swing: Swing, seed: int) -> ComputeGradient.Request:
    generator = np.random.default_rng(seed)
    shape = (BATCH, HORIZON, len(swing.joint_names))
    actions, *upstream = (generator.standard_normal(shape, np.float32) for _ in range(5))
    message = sequence(
        actions, dt=[DT_S], control_space=ActionSequence.JERK, joint_names=swing.joint_names, position=swing.middle
    )
    return gradient_request(message, dict(zip(ORDERS, upstream, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
