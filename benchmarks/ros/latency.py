"""Through ROS: from a sequence published in one process to the trajectory that arrives back there.

Peer: a plain rclpy node that echoes a message of the output's size, with services that take and give messages of the
same type and size without computing anything, on the same transport. Each round sends one message to each,
so what disturbs the machine disturbs both; the difference of the medians is what the node adds. All input checks are
on, and both outputs are subscribed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from rclpy.serialization import deserialize_message
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.client import ORDERS, SECOND_NS, gradient_request, sequence, stamp_of
from traj_integrator_ros.kernels import clique_step
from traj_integrator_ros.motions.trajectories import planned_trajectory
from traj_integrator_ros.tools.checker import motion_between

from ..problems import DOF, DT, HORIZON, is_close_to
from ..registry import Case, Contender
from .client import ECHO, LARGE, OURS, START, Exchange, RecedingPlan, TimingClient, running

ADDED_TARGETS_US = {1: 300.0}
LARGE_TARGET = 1 / 1.2
SERVICE_TARGET = 0.85
"""Least ratio of the time of the same messages in plain rclpy to that of a service."""
CATCHING_UP = 200
"""Number of sequences until the motion is back on a plan that it had left because none came for too long."""
ROWS_LIMIT = 1e-5
"""Largest distance of the motion from the rows of a plan, rad."""
ECHO_NAME = "rclpy echo of the output's size"
SAME_MESSAGES_NAME = "rclpy, same messages, no computing"
TRANSPORT = "shared memory"


def ros_latency(quick: bool) -> Iterator[Case]:
    """From a sequence published in one process to the trajectory that arrives back there, and calls of services."""
    rounds = 150 if quick else 1000
    with running(1, 64, LARGE) as (client, _):
        for batch in (1, 64, LARGE):
            most = ADDED_TARGETS_US.get(batch)
            options = {"added_targets_us": {ECHO_NAME: most}} if most else {}
            if batch == LARGE:
                options = {"targets": {ECHO_NAME: LARGE_TARGET}}
            taken = rounds // 4 if batch == LARGE else rounds
            yield sequences(client, batch, "batch", check_batch, rounds=taken, **options)
        yield sequences(client, 1, "both", check_trajectory, rounds=rounds)
        for kind, case in (("compute_gradient", gradients), ("integrate", integrations)):
            request, check = case()
            client.requests[kind] = request
            ours = timed("ours", partial(client.call_service, f"{OURS}/{kind}"), partial(check_response, check))
            peer = timed(SAME_MESSAGES_NAME, partial(client.call_service, f"{ECHO}/{kind}"), lambda _: None)
            targets = {peer.name: SERVICE_TARGET}
            name = f"{kind}, {TRANSPORT}"
            yield Case(name, 1, HORIZON, DOF, ours, (peer,), rounds=rounds, targets=targets)


def timed(name: str, run: Callable[[], tuple], check: Callable[[tuple], None]) -> Contender:
    """A contender whose result begins with the time that it took, s."""
    return Contender(name, run, check, clock=lambda: run()[0])


def sequences(
    client: TimingClient, batch: int, what: str, check: Callable[[Exchange], None], **options: object
) -> Case:
    """A sequence in, its trajectories out, or both outputs: the message for the controller comes second."""
    client.plan = RecedingPlan(batch)
    for _ in range(CATCHING_UP if batch < LARGE else 0):
        client.exchange(OURS)

    def check_echo(received: Exchange) -> None:
        answer = deserialize_message(received.batch, TrajectoryBatch)
        sizes = [len(getattr(answer, name)) for name in ORDERS]
        assert sizes == [batch * HORIZON * DOF] * 4, f"results of {sizes} values"

    ours = timed("ours", partial(client.exchange, OURS, with_trajectory=what == "both"), check)
    echo = timed(ECHO_NAME, partial(client.exchange, ECHO), check_echo)
    return Case(f"sequence to {what}, {TRANSPORT}", batch, HORIZON, DOF, ours, (echo,), **options)


def check_batch(received: Exchange) -> None:
    """Check that trajectories are those of the actions."""
    check_trajectories(deserialize_message(received.batch, TrajectoryBatch), received.actions, received.start)


def check_trajectory(received: Exchange) -> None:
    """Check that the controller is at the last actions at their times, before the brake."""
    trajectory = deserialize_message(received.trajectory, JointTrajectory)
    rows = np.arange(HORIZON // 2, HORIZON - 1)
    times = (received.stamp_ns - stamp_of(trajectory)) / SECOND_NS + DT * (rows + 1)
    commanded = motion_between(planned_trajectory(trajectory)).states_at(times, orders=1)[0]
    apart = np.abs(commanded - received.actions[0, rows]).max()
    assert apart <= ROWS_LIMIT, f"off by {apart:.1e} rad"


def check_trajectories(answer: TrajectoryBatch, actions: np.ndarray, start: np.ndarray, limit: float = 5e-6) -> None:
    """Compare trajectories from a start of one to three rows with the reference in float64.

    Positions in float32 carry an error that every derivative divides by dt, so it is measured in units of that.
    """
    rows = [torch.from_numpy(row).double()[None] for row in start]
    outputs = clique_step(torch.from_numpy(actions).double(), *rows, dt=DT, backend="reference")
    scale = float(outputs[0].abs().max())
    for order, (name, expected) in enumerate(zip(ORDERS, outputs, strict=True)):
        error = np.abs(np.asarray(getattr(answer, name)) - expected.numpy().ravel()).max() * (DT / 2) ** order / scale
        assert error <= limit, f"{name} is off by {error:.1e}"


def check_response(check: Callable[[object], None], answered: tuple[float, object]) -> None:
    """Check the answer to a call."""
    response = answered[1]
    assert response.success, response.message
    check(response)


def gradients() -> tuple[object, Callable[[object], None]]:
    """The request of one vector-Jacobian product, and the check of its answer."""
    upstream = np.random.default_rng(0).standard_normal((4, 1, HORIZON, DOF)).astype(np.float32)
    request = gradient_request(ActionSequence(batch=1, horizon=HORIZON), dict(zip(ORDERS, upstream, strict=True)))
    leaf = torch.zeros(1, HORIZON, DOF, dtype=torch.float64, requires_grad=True)
    outputs = clique_step(leaf, torch.zeros(1, DOF, dtype=torch.float64), dt=DT, backend="reference")
    close = is_close_to(*torch.autograd.grad(outputs, leaf, list(torch.from_numpy(upstream).double())))
    return request, lambda response: close(np.array(response.grad_action))


def integrations() -> tuple[object, Callable[[object], None]]:
    """The request of one forward call, and the check of its answer."""
    share = np.linspace(0, 1, HORIZON) ** 4 * (5 - 4 * np.linspace(0, 1, HORIZON))
    actions = (START + 0.1 * share[None, :, None]).astype(np.float32)
    request = Integrate.Request(actions=sequence(actions, position=START))
    return request, lambda response: check_trajectories(response.trajectory, actions, START[None])
