"""A client of one integrator node with all of its topics and services, which remembers what it receives."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from kit.participant import (
    ANSWER_TIMEOUT_S,
    DEPTH,
    NODE_NAME,
    START_TIMEOUT_S,
    Participant,
    received_ns,
)
from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.client import set_stamp
from traj_integrator_ros.motions.trajectories import planned_trajectory
from traj_integrator_ros.node.intake import take_waiting
from traj_integrator_ros.tools.checker import Expectation, check


class RosClient(Participant):
    """Checks every joint trajectory that it receives as a controller would; its waiting raises AssertionError."""

    def __init__(
        self, joint_names: Sequence[str], integrator: str = f"/{NODE_NAME}", ros_arguments: Sequence[str] = ()
    ) -> None:
        super().__init__(integrator, ros_arguments=ros_arguments)
        self.joint_names = list(joint_names)
        self.expects_rest = True
        """True if every trajectory must end at rest."""
        self.batches: list[TrajectoryBatch] = []
        self.trajectories: list[JointTrajectory] = []
        self.rejections: list[Rejection] = []
        self.statuses: list[DiagnosticStatus] = []
        """Statuses of the node since a fresh one was last asked for."""
        self._since_ns = 0
        self.states = self.publisher(JointState, "joint_states")
        self.sequences = self.publisher(ActionSequence, "~/action_sequence")
        self.plans = self.publisher(JointTrajectory, "~/position_trajectory")
        self.batch_subscription = self.subscribe(TrajectoryBatch, "~/trajectory_batch", self.batches.append)
        self.trajectory_subscription = self.subscribe(JointTrajectory, "~/joint_trajectory", self._keep_trajectory)
        self.rejection_subscription = self.subscribe(Rejection, "~/rejections", self.rejections.append)
        self.subscribe(DiagnosticArray, "/diagnostics", self._keep_statuses)

    def wait_until_active(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the node says that it is active and all topics are connected."""
        super().wait_until_active(timeout_s)
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        """Wait until all topics are connected."""
        publishers = (self.states, self.sequences, self.plans)
        subscriptions = (self.batch_subscription, self.trajectory_subscription, self.rejection_subscription)
        self.wait_for(
            lambda: (
                all(publisher.get_subscription_count() for publisher in publishers)
                and all(self.node.count_publishers(one.topic_name) for one in subscriptions)
            ),
            f"topics of {self.node_name} connected",
        )
        self.spin(0.2)  # the node's side may find this one a moment later

    # Input

    def publish_state(self, position: Sequence[float], velocity: Sequence[float] = (), stamp_ns: int = 0) -> None:
        """Publish a joint state, rad and rad/s, with this stamp, or that of now."""
        message = JointState(name=self.joint_names, position=array("d", position), velocity=array("d", velocity))
        set_stamp(message, stamp_ns or time.time_ns())
        self.states.publish(message)

    def settle_state(self, position: Sequence[float], velocity: Sequence[float] = ()) -> None:
        """Publish a joint state and give it time to arrive."""
        self.publish_state(position, velocity)
        self.spin(0.1)

    def answer(
        self, message: ActionSequence, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> tuple[TrajectoryBatch, JointTrajectory]:
        """Publish a sequence and return both messages that come of it."""
        self.batches.clear()
        self.trajectories.clear()
        self.sequences.publish(message)
        self.wait_for(lambda: self.batches and self.trajectories, "trajectory", timeout_s)
        return self.batches[-1], self.trajectories[-1]

    def answer_plan(self, message: JointTrajectory) -> JointTrajectory:
        """Publish a position trajectory and return the joint trajectory that comes of it."""
        self.trajectories.clear()
        self.plans.publish(message)
        self.wait_for(lambda: self.trajectories, "trajectory")
        return self.trajectories[-1]

    def integrate(self, message: ActionSequence) -> Integrate.Response:
        """Call ~/integrate."""
        return self.call(Integrate, "integrate", Integrate.Request(actions=message))

    def evaluate(self, request: Evaluate.Request) -> Evaluate.Response:
        """Call ~/evaluate."""
        return self.call(Evaluate, "evaluate", request)

    def compute_gradient(self, request: ComputeGradient.Request) -> ComputeGradient.Response:
        """Call ~/compute_gradient."""
        return self.call(ComputeGradient, "compute_gradient", request)

    def read_trajectories(self) -> None:
        """Take all joint trajectories that have arrived: a client that waits handles one message at a time."""
        for message, _ in take_waiting(self.trajectory_subscription, DEPTH):
            self._keep_trajectory(message)

    @contextmanager
    def periodically(self, period_s: float, function: Callable[[], None]) -> Iterator[None]:
        """Call a function at a period while messages are handled."""
        timer = self.node.create_timer(period_s, function)
        try:
            yield
        finally:
            self.node.destroy_timer(timer)

    # Diagnostics

    def status(self, fresh: bool = True) -> DiagnosticStatus:
        """The node's latest status; with `fresh`, one that covers everything before this call."""
        if fresh:
            self._since_ns = time.time_ns()  # statuses that wait in the queue are older
            self.statuses.clear()
            self.wait_for(lambda: len(self.statuses) >= 2, "two diagnostic messages")
        return self.statuses[-1]

    def counts(self) -> dict[str, str]:
        """The values of a fresh status."""
        return {pair.key: pair.value for pair in self.status().values}

    def _keep_trajectory(self, message: JointTrajectory) -> None:
        findings = check(planned_trajectory(message), Expectation(self.joint_names, at_rest=self.expects_rest))
        assert not findings, "\n".join(map(str, findings))
        assert all(len(point.velocities) for point in message.points)
        self.trajectories.append(message)

    def _keep_statuses(self, message: DiagnosticArray, info: Mapping[str, object]) -> None:
        if received_ns(info) >= self._since_ns:
            self.statuses += [one for one in message.status if one.name == f"{self.node_name}: integrator"]
