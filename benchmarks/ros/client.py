"""The processes of the ROS benchmark: the node and the echo, and a client that sends to both and times the answers."""

from __future__ import annotations

import os
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import yaml
from rclpy.client import Client
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
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

from ..problems import DOF, DT, HORIZON

OURS, ECHO = "/traj_integrator", "/echo"
JOINTS = [f"panda_joint{i + 1}" for i in range(DOF)]
START = np.array([0.0, -0.5, 0.0, -1.8, 0.0, 1.6, 0.8], np.float32)
LARGE = 1000
"""Trajectories in a batch of 3.6 MB."""
PARAMETERS = {
    "joint_names": JOINTS,
    "dt": DT,
    "max_batch": LARGE,
    "start_from": "previous",
    "state_timeout": 0.0,
    "supervision.deviation": 0.0,
    "publish.start_moving": True,
    "limits.start_deviation": 0.0,
}
"""The robot is not simulated: nothing publishes its state."""
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

    The motion swings to one side of `START`, candidates leave it smoothly: row 0 of the `batch` is the motion.
    """

    batch: int = 1

    def at(self, time_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions `[B, H, D]` of the steps after a time, and the start state `[3, D]` then: rad, rad/s, rad/s^2."""
        rate = 2 * np.pi / _PERIOD_S
        phase = rate * (time_s % _PERIOD_S + DT * np.arange(HORIZON + 1))
        rows = START + _SWING_RAD * (1 - np.cos(phase))[:, None] * np.ones(DOF)
        motion = _SWING_RAD * np.array([rate * np.sin(phase[0]), rate**2 * np.cos(phase[0])])
        start = np.stack([rows[0], *(value * np.ones(DOF) for value in motion)])
        goals = _SPREAD_RAD * np.random.default_rng(self.batch).standard_normal((self.batch, 1, DOF))
        goals[0] = 0.0
        share = (np.arange(1, HORIZON + 1) / HORIZON)[:, None] ** 4
        return (rows[1:] + goals * share).astype(np.float32), start.astype(np.float32)


class Exchange(NamedTuple):
    """A sequence and its answers: the time until they had arrived, s, stamp, actions, start state, and messages."""

    seconds: float
    stamp_ns: int
    actions: np.ndarray
    start: np.ndarray
    batch: bytes
    trajectory: bytes = b""


class TimingClient(Participant):
    """A participant that waits for one thing at a time, with a wait set for it alone and messages left serialized.

    Raises:
        TimeoutError: something did not come.

    """

    def __init__(self) -> None:
        super().__init__(OURS, name="bench_client")
        names = (OURS, ECHO)
        self._sequences = {name: self.publisher(ActionSequence, f"{name}/action_sequence", DEPTH) for name in names}
        self._batches = {name: self._listen(TrajectoryBatch, f"{name}/trajectory_batch") for name in names}
        self._trajectories = self._listen(JointTrajectory, f"{OURS}/joint_trajectory")
        topics = {OURS: "/joint_states", ECHO: f"{ECHO}/joint_states"}
        self._states = {name: self.publisher(JointState, topic, DEPTH) for name, topic in topics.items()}
        types, quality = {"integrate": Integrate, "compute_gradient": ComputeGradient}, QoSProfile(depth=DEPTH)
        self._services = {  # clients whose answers nobody else takes
            f"{name}/{kind}": self.node.create_client(types[kind], f"{name}/{kind}", qos_profile=quality)
            for name in names
            for kind in types
        }
        self.plan = RecedingPlan()
        """What both nodes are sent."""
        self.requests: dict[str, object] = {}
        """Requests to both nodes, by the kind of service."""

    def wait_until_connected(self) -> None:
        """Wait until the node is active and everything has found its other end; tell the node where the robot is."""
        self.wait_until_active(START_TIMEOUT_S)
        self.wait_for(self._all_matched, "node, echo and client connected", START_TIMEOUT_S)
        time.sleep(0.5)  # the other side may find this one later
        self.send("state", OURS)
        time.sleep(0.2)

    def exchange(self, name: str, *, with_trajectory: bool = False) -> Exchange:
        """Send the plan to a node, and wait for its batch, and maybe for the controller's message."""
        time.sleep(PAUSE_S)
        for subscription in (self._batches[name], self._trajectories):  # leftovers of an earlier message
            while self._take(subscription) is not None:
                pass
        message, *sent = self._sequence()
        begin = time.perf_counter()
        self._sequences[name].publish(message)
        answers = []
        for subscription in (self._batches[name], *[self._trajectories] * with_trajectory):
            self._wait(subscription.topic_name, subscription=subscription)
            answers.append(self._take(subscription)[0])
        return Exchange(time.perf_counter() - begin, *sent, *answers)

    def call_service(self, service: str) -> tuple[float, object]:
        """Call a service; returns the time until its answer, s, and the answer."""
        client, request = self._services[service], self.requests[service.rpartition("/")[2]]
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

    def send(self, kind: str, name: str) -> None:
        """Send a state, a sequence, a request to a service, or nothing to a node, and wait for no answer."""
        if kind == "state":
            rest = array("d", bytes(8 * DOF))
            state = JointState(name=JOINTS, position=array("d", START), velocity=rest, effort=rest)
            set_stamp(state, time.time_ns())
            self._states[name].publish(state)
        elif kind == "sequence":
            self._sequences[name].publish(self._sequence()[0])
        elif kind:
            client = self._services[f"{name}/{kind}"]
            with client.handle:
                while client.handle.take_response(client.srv_type.Response)[0] is not None:
                    pass
                client.handle.send_request(self.requests[kind])

    def _sequence(self) -> tuple[bytes, int, np.ndarray, np.ndarray]:
        """The message of the plan from now on, its stamp, its actions and its start state."""
        stamp_ns = time.time_ns()
        actions, start = self.plan.at(stamp_ns * 1e-9)
        message = sequence(actions, **dict(zip(("position", "velocity", "acceleration"), start, strict=True)))
        set_stamp(message, stamp_ns)
        return serialize_message(message), stamp_ns, actions, start

    def _listen(self, message_type: type, topic: str) -> Subscription:
        return self.subscribe(message_type, topic, lambda message: None, DEPTH, raw=True)

    def _take(self, subscription: Subscription) -> tuple[bytes, object] | None:
        with subscription.handle:
            return subscription.handle.take_message(subscription.msg_type, True)

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


@contextmanager
def running(*warmup: int) -> Iterator[tuple[TimingClient, dict[str, int]]]:
    """Yield a client of the node and the echo, and their process ids, in a ROS domain and on a machine of their own.

    All have the transports of shared memory. `warmup` are the batches that the node prepares. Raises TimeoutError if
    they do not find each other.
    """
    parameters = yaml.safe_load(config_file("franka.yaml").read_text(encoding="utf-8"))["/**"]["ros__parameters"]
    parameters |= PARAMETERS | {"warmup": [f"{batch}x{HORIZON}" for batch in warmup]}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.dict(os.environ))
        isolate()
        os.environ[LIMIT_VARIABLE] = "0"  # the node prepares no transports of its own
        node = NodeProcess(folder, parameters)
        stack.callback(node.stop)
        echo = PythonProcess(["-m", "benchmarks.ros.echo"], folder / "echo.log", name="echo")
        stack.callback(echo.stop)
        client = stack.enter_context(TimingClient())
        try:
            client.wait_until_connected()
        except TimeoutError as error:
            node.check()
            echo.check()
            raise TimeoutError(f"{error}; the node said:\n{node.output}") from None
        yield client, {OURS: node.pid, ECHO: echo.pid}
