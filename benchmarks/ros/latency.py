"""Through ROS: from a sequence published in one process to the trajectory that arrives back there.

Peer: a plain rclpy node that echoes a message of the output's size, with services that take and give messages of the
same type and size without computing anything, on the same transport. Each round sends one message to each,
so what disturbs the machine disturbs both; the difference of the medians is what the node adds. All input checks are
on, and both outputs are subscribed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.client import ORDERS, gradient_request, sequence
from traj_integrator_ros.kernels import clique_step

from ..problems import DOF, DT, HORIZON, is_close_to
from ..registry import Case, Check, Contender
from .client import ECHO, OURS, Processes, RecedingPlan, TimingClient, running

JOINTS = tuple(f"panda_joint{i + 1}" for i in range(DOF))
START = np.array([0.0, -0.5, 0.0, -1.8, 0.0, 1.6, 0.8], np.float32)
LARGE = 1000
"""Trajectories in a batch of 3.6 MB."""
DEFAULT = "default transports"
PROFILES = {DEFAULT: None, "shared memory": "fastdds_localhost.xml"}
"""All processes have the same profile of config/, or none."""
ADDED_TARGETS_US = {1: 300.0}
LARGE_TARGET = 1 / 1.2
PARAMETERS = {
    "dt": DT,
    "max_batch": LARGE,
    "start_from": "previous",
    "state_timeout": 0.0,
    "supervision.deviation": 0.0,
    "publish.start_moving": True,
    "limits.start_deviation": 0.0,
}
"""The robot is not simulated: nothing publishes its state."""
SERVICE_TARGET = 0.85
"""Least ratio of the time of the same messages in plain rclpy to that of a service."""
"""Least ratio of the time of two calls to that of one that does the same."""
CATCHING_UP = 200
"""Number of sequences until the motion is back on a plan that it had left because none came for too long."""
ROWS_LIMIT = 1e-5
"""Largest distance of the motion from the rows of a plan, rad."""
ECHO_NAME = "rclpy echo of the output's size"
SAME_MESSAGES_NAME = "rclpy, same messages, no computing"


def ros_latency(quick: bool) -> Iterator[Case]:
    """From a sequence published in one process to the trajectory that arrives back there, and calls of services."""
    parameters = {**PARAMETERS, "warmup": [f"{batch}x{HORIZON}" for batch in (1, 64, LARGE)]}
    for transport, profile in PROFILES.items():
        with running(JOINTS, parameters, profile) as processes:
            for batch in (1, 64, LARGE):
                least = LARGE_TARGET if batch == LARGE and transport != DEFAULT else None
                yield sequences(processes, transport, batch, rounds(quick, batch), least)
            yield controller_trajectories(processes, transport, rounds(quick, 1))
            yield gradients(processes, transport, rounds(quick, 1))
            yield integrations(processes, transport, rounds(quick, 1))


def rounds(quick: bool, batch: int) -> int:
    few, many = (40, 200) if batch == LARGE else (150, 1000)
    return few if quick else many


def case(name: str, batch: int, rounds: int, ours: Contender, *peers: Contender, **options: object) -> Case:
    return Case(name, batch, HORIZON, DOF, ours, peers, rounds=rounds, **options)


# Topics


def sequences(processes: Processes, transport: str, batch: int, rounds: int, least_ratio: float | None) -> Case:
    """A sequence in, all its trajectories out; `least_ratio` is the target against the echo."""
    client = follow(processes, batch)

    def check(received: tuple) -> None:
        actions, start, answer, _ = received
        check_batch(answer, actions, start)

    ours = Contender("ours", partial(client.received, OURS), check, partial(client.latency, OURS))
    ratio = {} if least_ratio is None else {ECHO_NAME: least_ratio}
    added = {ECHO_NAME: ADDED_TARGETS_US[batch]} if batch in ADDED_TARGETS_US else {}
    peer = echoed(processes, batch)
    return case(f"sequence to batch, {transport}", batch, rounds, ours, peer, targets=ratio, added_targets_us=added)


def controller_trajectories(processes: Processes, transport: str, rounds: int) -> Case:
    """A sequence in, both outputs out: the message for the controller comes second."""
    client = follow(processes, 1)

    def check(received: tuple) -> None:
        """Check that the controller is at the end of the last actions, before the brake."""
        actions, _, _, trajectory = received
        points = np.array([point.positions for point in trajectory.points])
        apart = np.abs(points - actions[0, HORIZON // 2 : -1, None]).max(axis=2).min(axis=1).max()
        assert apart <= ROWS_LIMIT, f"off by {apart:.1e} rad"

    both = partial(client.latency, OURS, with_trajectory=True)
    ours = Contender("ours", partial(client.received, OURS), check, both)
    return case(f"sequence to both, {transport}", 1, rounds, ours, echoed(processes, 1))


def follow(processes: Processes, batch: int) -> TimingClient:
    """The client, once the motion is on the plan that it sends."""
    client = processes.client
    client.follow(RecedingPlan(START, batch, HORIZON, DT))
    for _ in range(CATCHING_UP if batch < LARGE else 0):
        client.latency(OURS)
    return client


def echoed(processes: Processes, batch: int) -> Contender:
    """The same sequence sent to the echo, which computes nothing that could be wrong."""

    def check(received: tuple) -> None:
        sizes = [len(getattr(received[2], name)) for name in ORDERS]
        assert sizes == [batch * HORIZON * DOF] * 4, f"results of {sizes} values"

    client = processes.client
    return Contender(ECHO_NAME, partial(client.received, ECHO), check, partial(client.latency, ECHO))


def check_batch(answer: TrajectoryBatch, actions: np.ndarray, start: np.ndarray, limit: float = 5e-6) -> None:
    """Compare trajectories from a start of one to three rows with the reference in float64.

    Positions in float32 carry an error that every derivative divides by dt, so it is measured in units of that.
    """
    rows = [torch.from_numpy(row).double()[None] for row in start]
    outputs = clique_step(torch.from_numpy(actions).double(), *rows, dt=DT, backend="reference")
    scale = float(outputs[0].abs().max())
    for order, (name, expected) in enumerate(zip(ORDERS, outputs, strict=True)):
        error = np.abs(np.asarray(getattr(answer, name)) - expected.numpy().ravel()).max() * (DT / 2) ** order / scale
        assert error <= limit, f"{name} is off by {error:.1e}"


# Services


def called(processes: Processes, service: str, check: Check) -> Contender:
    """A service call to our node."""
    client, name = processes.client, f"{OURS}/{service}"

    def right(response: object) -> None:
        assert response.success, response.message
        check(response)

    return Contender("ours", partial(client.response, name), right, partial(client.call_latency, name))


def unchecked(name: str, clock: object) -> Contender:
    """A peer without results to check."""
    return Contender(name, list, lambda _: None, clock)


def same_messages(processes: Processes, service: str) -> Contender:
    """The same request to a service of plain rclpy with an answer of the same size."""
    return unchecked(SAME_MESSAGES_NAME, partial(processes.client.call_latency, f"{ECHO}/{service}"))


def gradients(processes: Processes, transport: str, rounds: int) -> Case:
    """One vector-Jacobian product over the service."""
    upstream = np.random.default_rng(0).standard_normal((4, 1, HORIZON, DOF)).astype(np.float32)
    request = gradient_request(ActionSequence(batch=1, horizon=HORIZON), dict(zip(ORDERS, upstream, strict=True)))
    processes.client.prepare("compute_gradient", request)
    leaf = torch.zeros(1, HORIZON, DOF, dtype=torch.float64, requires_grad=True)
    outputs = clique_step(leaf, torch.zeros(1, DOF, dtype=torch.float64), dt=DT, backend="reference")
    close = is_close_to(*torch.autograd.grad(outputs, leaf, list(torch.from_numpy(upstream).double())))
    ours = called(processes, "compute_gradient", lambda response: close(np.array(response.grad_action)))
    targets = {SAME_MESSAGES_NAME: SERVICE_TARGET}
    peer = same_messages(processes, "compute_gradient")
    return case(f"compute_gradient, {transport}", 1, rounds, ours, peer, targets=targets)


def integrations(processes: Processes, transport: str, rounds: int) -> Case:
    """One forward call over the service."""
    share = np.linspace(0, 1, HORIZON) ** 4 * (5 - 4 * np.linspace(0, 1, HORIZON))
    actions = (START + 0.1 * share[None, :, None]).astype(np.float32)
    processes.client.prepare("integrate", Integrate.Request(actions=sequence(actions, position=START)))
    ours = called(processes, "integrate", lambda response: check_batch(response.trajectory, actions, START[None]))
    targets = {SAME_MESSAGES_NAME: SERVICE_TARGET}
    return case(f"integrate, {transport}", 1, rounds, ours, same_messages(processes, "integrate"), targets=targets)
