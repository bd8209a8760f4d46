"""The processes of the ROS benchmark: the node, the echo, and a client that sends to both and times the answers."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import yaml
from rclpy.client import Client
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from kit.local_dds import config_file, isolate
from kit.node_process import NodeProcess, PythonProcess
from kit.participant import Participant
from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Integrate
from traj_integrator_ros.client import sequence, set_stamp
from traj_integrator_ros.wire.transport import LIMIT_VARIABLE

OURS, ECHO = "/traj_integrator", "/echo"
DEPTH = 10
PAUSE_S = 0.002
"""Pause before each message, s, so that all processes have finished with the previous one: robots do not send back to
back.
"""
WITHIN_S = 5.0
START_TIMEOUT_S = 60.0
_SWING_RAD, _PERIOD_S = 0.05, 4.0
_SPREAD_RAD = 0.1
"""Standard deviation, rad, of the distance of other candidates' ends from the motion."""


@dataclass(frozen=True)
class RecedingPlan:
    """Sequences of a planner for a moving robot: the next steps of one motion, each time from now on.

    The motion swings to one side of a position, candidates leave it smoothly: row 0 is the motion.
    """

    position: np.ndarray
    """The position, rad, `[D]`."""
    batch: int
    horizon: int
    dt: float
    """Length of a step, s."""

    def at(self, time_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions `[B, H, D]` of the steps after a time, and the start state `[3, D]` then: rad, rad/s, rad/s^2."""
        rate = 2 * np.pi / _PERIOD_S
        phase = rate * (time_s % _PERIOD_S + self.dt * np.arange(self.horizon + 1))
        dof = len(self.position)
        rows = self.position + _SWING_RAD * (1 - np.cos(phase))[:, None] * np.ones(dof)
        motion = _SWING_RAD * np.array([rate * np.sin(phase[0]), rate**2 * np.cos(phase[0])])
        start = np.stack([rows[0], *(value * np.ones(dof) for value in motion)])
        goals = _SPREAD_RAD * np.random.default_rng(self.batch).standard_normal((self.batch, 1, dof))
        goals[0] = 0.0
        share = (np.arange(1, self.horizon + 1) / self.horizon)[:, None] ** 4
        return (rows[1:] + goals * share).astype(np.float32), start.astype(np.float32)


class TimingClient(Participant):
    """A participant that waits for one thing at a time, with a wait set for it alone and messages left serialized.

    Raises:
        TimeoutError: something did not come.

    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        """Connect to a node with these joints."""
        super().__init__(OURS, name="bench_client")
        self._joint_names = list(joint_names)
        names = (OURS, ECHO)
        self._sequences = {name: self.publisher(ActionSequence, f"{name}/action_sequence", DEPTH) for name in names}
        self._batches = {name: self._listen(TrajectoryBatch, f"{name}/trajectory_batch") for name in names}
        self._trajectories = self._listen(JointTrajectory, f"{OURS}/joint_trajectory")
        topics = {OURS: "/joint_states", ECHO: f"{ECHO}/joint_states"}
        self._states = {name: self.publisher(JointState, topic, DEPTH) for name, topic in topics.items()}
        types = {"integrate": Integrate, "compute_gradient": ComputeGradient}
        self._services = {
            f"{name}/{kind}": self._own_client(types[kind], f"{name}/{kind}") for name in names for kind in types
        }
        self._requests: dict[str, object] = {}
        self._plan: RecedingPlan | None = None

    def wait_until_connected(self, timeout_s: float) -> None:
        """Wait until the node is active and everything has found its other end."""
        self.wait_until_active(timeout_s)
        self.wait_for(self._all_matched, "node, echo and client connected", timeout_s)
        time.sleep(0.5)  # the other side may find this one later

    # Topics

    def follow(self, plan: RecedingPlan) -> None:
        """Take the plan that both nodes are sent from now on, and tell our node the robot's position."""
        self._plan = plan
        state = JointState(name=self._joint_names, position=array("d", plan.position))
        state.velocity = array("d", bytes(8 * len(plan.position)))
        self._states[OURS].publish(state)
        time.sleep(0.2)

    def received(self, name: str) -> tuple[np.ndarray, np.ndarray, TrajectoryBatch, JointTrajectory | None]:
        """Send the plan to a node; returns actions, start state, and the answer."""
        _, actions, start, batch, trajectory = self._exchange(name, with_trajectory=name == OURS)
        decoded = None if trajectory is None else deserialize_message(trajectory, JointTrajectory)
        return actions, start, deserialize_message(batch, TrajectoryBatch), decoded

    def latency(self, name: str, *, with_trajectory: bool = False) -> float:
        """Time from publishing the sequence until the batch, and maybe the controller's message, has arrived, s."""
        return self._exchange(name, with_trajectory=with_trajectory)[0]

    def _exchange(self, name: str, *, with_trajectory: bool) -> tuple[float, np.ndarray, np.ndarray, bytes, object]:
        expected = [self._batches[name], *[self._trajectories] * with_trajectory]
        time.sleep(PAUSE_S)
        for subscription in (self._batches[name], self._trajectories):  # leftovers of an earlier message
            with subscription.handle:
                while subscription.handle.take_message(subscription.msg_type, True) is not None:
                    pass
        begin, actions, start = self._send_sequence(name, time.time_ns())
        batch, *trajectory = map(self._take, expected)
        return time.perf_counter() - begin, actions, start, batch, (*trajectory, None)[0]

    def _send_sequence(self, name: str, stamp_ns: int) -> tuple[float, np.ndarray, np.ndarray]:
        """Send the plan from a time on; returns when it was published, actions and start state."""
        actions, start = self._plan.at(stamp_ns * 1e-9)
        message = sequence(actions, **dict(zip(("position", "velocity", "acceleration"), start, strict=True)))
        set_stamp(message, stamp_ns)
        message = serialize_message(message)
        begin = time.perf_counter()
        self._sequences[name].publish(message)
        return begin, actions, start

    def _take(self, subscription: Subscription) -> bytes:
        self._wait(subscription.topic_name, subscription=subscription)
        with subscription.handle:
            return subscription.handle.take_message(subscription.msg_type, True)[0]

    # Services

    def prepare(self, kind: str, request: object) -> None:
        """Take the request of one kind that both nodes are sent from now on."""
        self._requests[f"{OURS}/{kind}"] = self._requests[f"{ECHO}/{kind}"] = request

    def response(self, service: str) -> object:
        """The answer to a call."""
        return self._call(service)[1]

    def call_latency(self, service: str) -> float:
        """Time from a request to its answer, s."""
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

    # Costs

    def cpu_per_message(
        self, kind: str, name: str, pid: int, rate_hz: float, duration_s: float, rest_s: float = 0.0
    ) -> float:
        """CPU time of process `pid`, s, for each message that is sent to a node at this rate.

        `kind` is "state", "sequence", a service that `prepare` knows, or nothing. It begins after `rest_s`.
        """
        time.sleep(rest_s)
        clock = (~pid << 3) | 2  # the CPU clock of another process, numbered by Linux's rule
        send, count = self._sender(kind, name), int(rate_hz * duration_s)
        begin, cpu = time.monotonic(), time.clock_gettime(clock)
        for i in range(count):
            send()
            time.sleep(max(0.0, begin + (i + 1) / rate_hz - time.monotonic()))
        return (time.clock_gettime(clock) - cpu) / count

    def _sender(self, kind: str, name: str) -> Callable[[], object]:
        """A function that sends a message to a node."""
        if not kind:
            return lambda: None
        if kind == "state":
            state = JointState(name=self._joint_names)
            state.position = array("d", self._plan.position)
            state.velocity = state.effort = array("d", bytes(8 * len(self._joint_names)))

            def send() -> None:
                set_stamp(state, time.time_ns())
                self._states[name].publish(state)

            return send
        if kind == "sequence":
            return lambda: self._send_sequence(name, time.time_ns())
        return lambda: self._send_call(f"{name}/{kind}")

    def _send_call(self, service: str) -> None:
        """Call a service, and drop the answers to earlier calls."""
        client = self._services[service]
        with client.handle:
            while client.handle.take_response(client.srv_type.Response)[0] is not None:
                pass
            client.handle.send_request(self._requests[service])

    # Entities

    def _listen(self, message_type: type, topic: str) -> Subscription:
        return self.subscribe(message_type, topic, lambda message: None, DEPTH, raw=True)

    def _own_client(self, service: type, name: str) -> Client:
        """A client of a service whose answers nobody else takes."""
        return self.node.create_client(service, name, qos_profile=QoSProfile(depth=DEPTH))

    def _all_matched(self) -> bool:
        publishers = [*self._sequences.values(), *self._states.values()]
        subscriptions = [*self._batches.values(), self._trajectories]
        return (
            all(publisher.get_subscription_count() for publisher in publishers)
            and all(subscription.get_publisher_count() for subscription in subscriptions)
            and all(client.service_is_ready() for client in self._services.values())
        )

    def _wait(self, what: str, *, subscription: Subscription | None = None, client: Client | None = None) -> None:
        with self._context.handle:
            counts = (subscription is not None, 0, 0, client is not None, 0, 0)
            wait_set = rclpy_implementation.WaitSet(*map(int, counts), self._context.handle)
            wait_set.clear_entities()
            if subscription is not None:
                wait_set.add_subscription(subscription.handle)
            if client is not None:
                wait_set.add_client(client.handle)
            wait_set.wait(int(WITHIN_S * 1e9))
            if not wait_set.get_ready_entities("client" if subscription is None else "subscription"):
                raise TimeoutError(f"{what}: nothing came within {WITHIN_S:g} s")


class Processes(NamedTuple):
    """Node, echo and client, running and connected."""

    client: TimingClient
    """A proxy of the client."""
    node_pid: int
    echo_pid: int


class _Manager(BaseManager):
    """Runs the client in a process that reads its profile when it starts."""


_Manager.register("TimingClient", TimingClient)


@contextmanager
def running(
    joint_names: Sequence[str], overrides: dict[str, object], profile: str | None = None
) -> Iterator[Processes]:
    """Node, echo and client in a ROS domain of their own, on this machine only.

    Args:
        joint_names: names of the node's joints.
        overrides: parameters that differ from config/franka.yaml.
        profile: file name in config/ for the transports of all of them; None for the middleware's own.

    Raises:
        TimeoutError: they do not find each other.

    """
    parameters = yaml.safe_load(config_file("franka.yaml").read_text(encoding="utf-8"))
    parameters = {**parameters["/**"]["ros__parameters"], "joint_names": list(joint_names), **overrides}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.dict(os.environ))
        isolate(profile)
        os.environ[LIMIT_VARIABLE] = "0"  # the node prepares no transports of its own
        node = NodeProcess(folder, parameters)
        stack.callback(node.stop)
        echo = PythonProcess(["-m", "benchmarks.ros.echo"], folder / "echo.log", name="echo")
        stack.callback(echo.stop)
        manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        manager.start()
        stack.callback(manager.shutdown)
        client = manager.TimingClient(list(joint_names))
        stack.callback(client.close)
        try:
            client.wait_until_connected(START_TIMEOUT_S)
        except TimeoutError as error:
            node.check()
            echo.check()
            raise TimeoutError(f"{error}; the node said:\n{node.output}") from None
        yield Processes(client, node.pid, echo.pid)
