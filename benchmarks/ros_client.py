"""Sends to the node and to the echo with the same code, and times the answers; runs in a process of its own."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np
from lifecycle_msgs.srv import GetState
from rclpy.client import Client
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.traffic.messages import ORDERS, floats, gradient_request, sequence, set_stamp
from traj_integrator_ros.traffic.participant import Participant

from .receding_plan import RecedingPlan

OURS, ECHO = "/traj_integrator", "/echo"
DEPTH = 10
PAUSE_S = 0.002
"""Before each message, so that all processes have finished with the one before: robots do not send back to back."""


class TimingClient(Participant):
    """One participant that waits for one thing at a time, with a wait set for that alone and messages left serialized.

    Raises:
        TimeoutError: something did not come.

    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        super().__init__(OURS, name="bench_client")
        self._joint_names = list(joint_names)
        names = (OURS, ECHO)
        self._sequences = {name: self.publisher(ActionSequence, f"{name}/action_sequence", DEPTH) for name in names}
        self._batches = {name: self._serialized(TrajectoryBatch, f"{name}/trajectory_batch") for name in names}
        self._trajectories = self._serialized(JointTrajectory, f"{OURS}/joint_trajectory")
        self._states = {
            OURS: self.publisher(JointState, "/joint_states", DEPTH),
            ECHO: self.publisher(JointState, f"{ECHO}/joint_states", DEPTH),
        }
        self._services = {
            "integrate": self.client(Integrate, "integrate"),
            "compute_gradient": self.client(ComputeGradient, "compute_gradient"),
            "evaluate": self.client(Evaluate, "evaluate"),
            "echoed integrate": self.client(Integrate, f"{ECHO}/integrate"),
            "echoed compute_gradient": self.client(ComputeGradient, f"{ECHO}/compute_gradient"),
            "echoed evaluate": self.client(Evaluate, f"{ECHO}/evaluate"),
            "empty": self.client(GetState, f"{ECHO}/empty"),
        }
        self._requests: dict[str, object] = {"empty": GetState.Request()}
        self._plan: RecedingPlan | None = None
        self._planned: tuple[np.ndarray, np.ndarray] | None = None

    def wait_until_connected(self, timeout_s: float) -> None:
        """Wait until the node is active and everything has found its other end."""
        self.wait_until_active(timeout_s)
        self.wait_for(self._all_matched, "node, echo and client connected", timeout_s)
        time.sleep(0.5)  # the other side may find us later than we find it

    # Topics

    def prepare(self, actions: np.ndarray, start: np.ndarray) -> None:
        """Take the sequence `[batch, horizon, dof]` that services are sent from now on."""
        message = sequence(actions, position=start)
        self._requests["integrate"] = self._requests["echoed integrate"] = Integrate.Request(actions=message)

    def follow(self, plan: RecedingPlan) -> None:
        """Take the plan that nodes are sent from now on, and tell ours where the robot is."""
        self._plan = plan
        state = JointState(name=self._joint_names, position=array("d", plan.position))
        state.velocity = array("d", bytes(8 * len(plan.position)))
        self._states[OURS].publish(state)
        time.sleep(0.2)

    def planned(self) -> tuple[np.ndarray, np.ndarray]:
        """What was sent last: positions `[batch, horizon, dof]`, and the start state `[3, dof]`."""
        return self._planned

    def batch(self, name: str) -> list[np.ndarray]:
        """Send the sequence to a node; return the four arrays that come back, flat."""
        self._exchange(name)
        answer = deserialize_message(self._answer, TrajectoryBatch)
        return [np.array(getattr(answer, field)) for field in ORDERS]

    def points(self) -> list[np.ndarray]:
        """Send the sequence to our node; return positions, velocities and accelerations for the controller, flat."""
        self._exchange(OURS)
        answer = deserialize_message(self._controller_answer, JointTrajectory)
        fields = ("positions", "velocities", "accelerations")
        return [np.concatenate([getattr(point, field) for point in answer.points]) for field in fields]

    def batch_latency(self, name: str) -> float:
        """Time from publishing the sequence until the batch is here, s."""
        return self._exchange(name)[0]

    def trajectory_latency(self) -> float:
        """Time from publishing the sequence until our node's message for the controller is here too, s."""
        return self._exchange(OURS)[1]

    def _exchange(self, name: str) -> tuple[float, float]:
        subscription = self._batches[name]
        publisher = self._sequences[name]
        _drain(subscription)
        _drain(self._trajectories)
        time.sleep(PAUSE_S)
        stamp_ns = time.time_ns()
        self._planned = actions, start = self._plan.at(stamp_ns * 1e-9)
        message = sequence(actions, **dict(zip(("position", "velocity", "acceleration"), start, strict=True)))
        set_stamp(message, stamp_ns)
        message = serialize_message(message)
        begin = time.perf_counter()
        publisher.publish(message)
        self._answer = self._take(subscription)
        latency = time.perf_counter() - begin
        if name != OURS:
            return latency, latency
        self._controller_answer = self._take(self._trajectories)
        return latency, time.perf_counter() - begin

    def _take(self, subscription: Subscription) -> bytes:
        self._wait(subscription.topic_name, subscription=subscription)
        with subscription.handle:
            return subscription.handle.take_message(subscription.msg_type, True)[0]

    # Services

    def prepare_gradient(self, shape: Sequence[int], upstream: Sequence[np.ndarray]) -> None:
        """Take the upstream gradients that are sent from now on."""
        actions = ActionSequence(batch=shape[0], horizon=shape[1])
        request = gradient_request(actions, dict(zip(ORDERS, upstream, strict=True)))
        self._requests["compute_gradient"] = self._requests["echoed compute_gradient"] = request

    def prepare_evaluation(
        self, actions: np.ndarray, start: np.ndarray, terms: Mapping[str, Mapping[str, np.ndarray]]
    ) -> None:
        """Take the sequence whose cost is asked for from now on; terms by output, their arrays by field."""
        request = Evaluate.Request(actions=sequence(actions, position=start))
        for output, fields in terms.items():
            for name, values in fields.items():
                setattr(getattr(request.cost, output), name, floats(values))
        self._requests["evaluate"] = self._requests["echoed evaluate"] = request

    def answer(self, service: str, *fields: str) -> list[np.ndarray]:
        """Arrays of the answer to a call, flat; dots lead into its messages."""
        response = self._call(service)[1]
        assert response.success, response.message
        return [np.array(attrgetter(field)(response)) for field in fields]

    def call_latency(self, service: str) -> float:
        """Time from a request until its answer is here, s."""
        return self._call(service)[0]

    def _call(self, service: str) -> tuple[float, object]:
        client, request = self._services[service], self._requests[service]
        time.sleep(PAUSE_S)
        begin = time.perf_counter()
        with client.handle:
            number = client.handle.send_request(request)
        while True:
            self._wait(service, client=client)
            with client.handle:
                header, response = client.handle.take_response(client.srv_type.Response)
            if header is not None and header.request_id.sequence_number == number:
                return time.perf_counter() - begin, response

    # Joint states

    def cpu_per_joint_state(self, name: str, pid: int, rate_hz: float, duration_s: float) -> float:
        """CPU time of process `pid` for each joint state that a node gets at this rate, s."""
        clock = (~pid << 3) | 2  # the CPU clock of another process, by Linux's own rule
        state = JointState(name=self._joint_names)
        state.position = state.velocity = state.effort = array("d", bytes(8 * len(self._joint_names)))
        publisher = self._states[name]
        count = int(rate_hz * duration_s)
        begin, cpu = time.monotonic(), time.clock_gettime(clock)
        for i in range(count):
            set_stamp(state, time.time_ns())
            publisher.publish(state)
            time.sleep(max(0.0, begin + (i + 1) / rate_hz - time.monotonic()))
        return (time.clock_gettime(clock) - cpu) / count

    # Entities

    def _serialized(self, message_type: type, topic: str) -> Subscription:
        return self.subscribe(message_type, topic, lambda message: None, DEPTH, raw=True)

    def _all_matched(self) -> bool:
        publishers = [*self._sequences.values(), *self._states.values()]
        subscriptions = [*self._batches.values(), self._trajectories]
        return (
            all(publisher.get_subscription_count() for publisher in publishers)
            and all(subscription.get_publisher_count() for subscription in subscriptions)
            and all(client.service_is_ready() for client in self._services.values())
        )

    def _wait(
        self,
        what: str,
        timeout_s: float = 5.0,
        *,
        subscription: Subscription | None = None,
        client: Client | None = None,
    ) -> None:
        with self._context.handle:
            counts = (subscription is not None, 0, 0, client is not None, 0, 0)
            wait_set = rclpy_implementation.WaitSet(*map(int, counts), self._context.handle)
            wait_set.clear_entities()
            if subscription is not None:
                wait_set.add_subscription(subscription.handle)
            if client is not None:
                wait_set.add_client(client.handle)
            wait_set.wait(int(timeout_s * 1e9))
            kind = "client" if subscription is None else "subscription"
            if not wait_set.get_ready_entities(kind):
                raise TimeoutError(f"{what}: nothing came within {timeout_s:g} s")


def _drain(subscription: Subscription) -> None:
    """Drop what is left of an earlier message."""
    with subscription.handle:
        while subscription.handle.take_message(subscription.msg_type, True) is not None:
            pass
