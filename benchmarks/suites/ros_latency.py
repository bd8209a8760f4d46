"""Through ROS: from a sequence published in one process to the trajectory that arrives back there.

Peer: a plain rclpy node that echoes a message of the output's size, an empty service, and services that take and give
messages of the same type and size without computing anything, on the same transport. Each round sends one message to
each, so what disturbs the machine disturbs both; the difference of the medians is what the node adds. All input checks
are on, and both outputs are subscribed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from traj_integrator_ros.kernels import CostTerm, QuadraticCost, Trajectory, clique_step, quadratic_cost
from traj_integrator_ros.kernels.costs.composition import cost_of

from ..checks import exactly
from ..checks import is_close_to as is_close_in_norm
from ..receding_plan import RecedingPlan
from ..registry import Case, Contender, Unmeasured, ros_is_missing, suite

HORIZON, DOF, DT = 32, 7, 0.02
JOINTS = tuple(f"panda_joint{i + 1}" for i in range(DOF))
START = np.array([0.0, -0.5, 0.0, -1.8, 0.0, 1.6, 0.8], np.float32)
LARGE = 1000
"""Trajectories in a batch that takes 3.6 MB."""
DEFAULT, SHARED_MEMORY, PREPARED = "default transports", "shared memory", "without settings"
FIXED = {DEFAULT: None, SHARED_MEMORY: "fastdds_localhost.xml"}
"""Everybody has the same profile of config/, or none."""
ADDED_TARGETS_US = {1: 300.0}
LARGE_TARGET = 1 / 1.2
PARAMETERS = {
    "dt": DT,
    "max_batch": LARGE,
    "start_from": "previous",
    "state_timeout": 0.0,
    "supervision.deviation": 0.0,
    "limits.start_deviation": 0.0,
}
"""The robot is not simulated: nobody says where it is."""
SERVICE_TARGET = 1 / 1.25
TWO_CALLS_TARGET = 1 / 0.4
"""For batches of 256 and more."""
JOINT_STATE_RATE_HZ = 1000.0
JOINT_STATE_LIMIT_US = 1e6 / JOINT_STATE_RATE_HZ / 10
"""A tenth of one core."""
ROWS_LIMIT = 1e-5
"""How far the motion may pass by the rows of a plan, rad: where an acceleration fades, it does."""
if TYPE_CHECKING:
    from ..ros_processes import Processes

OURS, ECHO = "/traj_integrator", "/echo"
TWO_CALLS_NAME = "integrate + compute_gradient"
ECHO_NAME = "rclpy echo of the output's size"
EMPTY_NAME = "empty service of rclpy"
SAME_MESSAGES_NAME = "rclpy, same messages, no computing"


@suite("ros_latency")
def ros_latency(quick: bool) -> Iterator[Case | Unmeasured]:
    if missing := ros_is_missing():
        yield Unmeasured("all cases of ros_latency", missing)
        return
    from ..ros_processes import Transports, running

    warmup = [f"{batch}x{HORIZON}" for batch in (1, 64, LARGE)]
    parameters = {**PARAMETERS, "warmup": warmup}
    for transport, profile in FIXED.items():
        with running(JOINTS, parameters, Transports(profile)) as processes:
            for batch in (1, 64, LARGE):
                least = LARGE_TARGET if batch == LARGE and profile is not None else None
                yield sequences(processes, transport, batch, rounds=rounds(quick, batch), least_ratio=least)
            yield controller_trajectories(processes, transport, rounds=rounds(quick, 1))
            yield gradients(processes, transport, rounds=rounds(quick, 1))
            yield integrations(processes, transport, rounds=rounds(quick, 1))
            for batch in (1, 256, LARGE):
                yield from evaluations(processes, transport, batch, rounds=rounds(quick, min(batch * 4, LARGE)))
            if profile is None:
                yield joint_states(processes, duration_s=0.5 if quick else 2.0)


@suite("ros_large")
def ros_large(quick: bool) -> Iterator[Case | Unmeasured]:
    """Large messages as they go without settings: 0.9 MB in and 3.6 MB out.

    The node is started as `ros2 launch` starts it and fits its transports to `max_batch` by itself; the echo does the
    same. For comparison, the middleware without any chosen transports.
    """
    if missing := ros_is_missing():
        yield Unmeasured("all cases of ros_large", missing)
        return
    from ..ros_processes import Transports, running

    shape = (LARGE, HORIZON, DOF)
    settings = {
        PREPARED: Transports(prepared_for=shape),
        "client unprepared": Transports(prepared_for=shape, client_prepares=False),
        DEFAULT: Transports(),
    }
    parameters = {**PARAMETERS, "warmup": [f"{LARGE}x{HORIZON}"]}
    for name, transports in settings.items():
        with running(JOINTS, parameters, transports) as processes:
            least = LARGE_TARGET if name == PREPARED else None
            yield sequences(processes, name, LARGE, rounds=rounds(quick, LARGE), least_ratio=least)


def rounds(quick: bool, batch: int) -> int:
    few, many = (40, 200) if batch == LARGE else (150, 1000)
    return few if quick else many


def sequences(processes: Processes, transport: str, batch: int, rounds: int, least_ratio: float | None) -> Case:
    """A sequence in, all its trajectories out; `least_ratio` is the target against the echo."""
    client = processes.client
    client.follow(plan(batch))
    ratio = {} if least_ratio is None else {ECHO_NAME: least_ratio}
    added = {ECHO_NAME: ADDED_TARGETS_US[batch]} if batch in ADDED_TARGETS_US else {}

    def check(results: list[np.ndarray]) -> None:
        is_close_to(in_double(*client.planned()))(results)

    ours = Contender("ours", partial(client.batch, OURS), check, partial(client.batch_latency, OURS))
    name = f"sequence to batch, {transport}"
    return case(name, batch, ours, echoed(processes, batch), rounds, targets=ratio, added_targets_us=added)


def controller_trajectories(processes: Processes, transport: str, rounds: int) -> Case:
    """A sequence in, both outputs out: the message for the controller comes second."""
    client = processes.client
    client.follow(plan(1))

    def check(results: list[np.ndarray]) -> None:
        """The controller is where the last actions lead, before the brake."""
        rows, points = client.planned()[0][0, HORIZON // 2 : -1], results[0].reshape(-1, DOF)
        apart = np.abs(points - rows[:, None]).max(axis=2).min(axis=1).max()
        assert apart <= ROWS_LIMIT, f"off by {apart:.1e} rad"

    ours = Contender("ours", client.points, check, client.trajectory_latency)
    return case(f"sequence to both, {transport}", 1, ours, echoed(processes, 1), rounds)


def gradients(processes: Processes, transport: str, rounds: int) -> Case:
    """One vector-Jacobian product over the service."""
    client = processes.client
    generator = np.random.default_rng(0)
    upstream = [generator.standard_normal((1, HORIZON, DOF)).astype(np.float32) for _ in range(4)]
    client.prepare_gradient((1, HORIZON), upstream)
    step = partial(clique_step, dt=DT, backend="reference")
    zeros = torch.zeros(1, HORIZON, DOF), torch.zeros(1, DOF)
    *_, gradient, _ = exactly(step, zeros, list(map(torch.from_numpy, upstream)))
    clock = partial(client.call_latency, "compute_gradient")
    called = partial(client.answer, "compute_gradient", "grad_action")
    ours = Contender("ours", called, is_close_to([gradient.numpy()]), clock)
    return service_case(processes, "compute_gradient", transport, ours, rounds)


def integrations(processes: Processes, transport: str, rounds: int) -> Case:
    """One forward call over the service."""
    client = processes.client
    actions = motions(1)
    client.prepare(actions, START)
    called = partial(client.answer, "integrate", *(f"trajectory.{name}" for name in Trajectory._fields))
    ours = Contender("ours", called, is_close_to(in_double(actions)), partial(client.call_latency, "integrate"))
    return service_case(processes, "integrate", transport, ours, rounds)


def evaluations(processes: Processes, transport: str, batch: int, rounds: int) -> Iterator[Case]:
    """Costs and their gradient in one call, against the two calls that give the same."""
    client = processes.client
    actions = motions(batch)
    terms = {
        "position": {"terminal_weight": np.full(DOF, 1e3), "target": START + 0.1},
        "velocity": {"terminal_weight": np.full(DOF, 1e2)},
        "acceleration": {"weight": np.full(DOF, 1e-2)},
        "jerk": {"weight": np.full(DOF, 1e-5)},
    }
    client.prepare(actions, START)
    client.prepare_evaluation(actions, START, terms)

    def rounded(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.float32)).double()

    exact = {
        output: CostTerm(**{name: rounded(values) for name, values in fields.items()})
        for output, fields in terms.items()
    }
    leaf = torch.from_numpy(actions).double().requires_grad_()
    start = torch.from_numpy(START).double()[None]
    trajectory = [x.detach().requires_grad_() for x in clique_step(leaf, start, dt=DT, backend="reference")]
    upstream_of = torch.autograd.grad(cost_of(trajectory, tuple(exact.values())).sum(), trajectory)
    client.prepare_gradient((batch, HORIZON), [gradient.numpy() for gradient in upstream_of])
    cost = QuadraticCost(**exact)
    values = quadratic_cost(leaf, start, cost=cost, control_map="clique", dt=DT, backend="reference")
    exact_values = values.detach(), torch.autograd.grad(values.sum(), leaf)[0]
    check = is_close_in_norm(*exact_values, limit=2e-6)
    called = partial(client.answer, "evaluate", "cost", "grad_action")
    ours = Contender("ours", called, check, partial(client.call_latency, "evaluate"))

    def integrate_and_differentiate() -> float:  # what an optimizer does between them is left out
        return client.call_latency("integrate") + client.call_latency("compute_gradient")

    two_calls = Contender(TWO_CALLS_NAME, list, has_sizes([]), integrate_and_differentiate)
    peers = (empty_service(processes), two_calls)
    name = f"evaluate, {transport}"
    yield Case(
        name,
        batch,
        HORIZON,
        DOF,
        ours,
        peers,
        rounds=rounds,
        targets={TWO_CALLS_NAME: TWO_CALLS_TARGET} if batch > 1 else {},
    )
    yield service_case(processes, "evaluate", transport, ours, rounds, batch)


def joint_states(processes: Processes, duration_s: float) -> Case:
    """CPU time that the node takes for a joint state at 1 kHz, its diagnostics included."""

    def cpu(name: str, pid: int) -> float:
        return processes.client.cpu_per_joint_state(name, pid, JOINT_STATE_RATE_HZ, duration_s)

    ours = Contender("ours", list, has_sizes([]), partial(cpu, OURS, processes.node_pid))
    peer = Contender("rclpy node that ignores them", list, has_sizes([]), partial(cpu, ECHO, processes.echo_pid))
    limit = Contender("10 % of a core", list, has_sizes([]), lambda: JOINT_STATE_LIMIT_US * 1e-6)
    return case("CPU per joint state at 1 kHz", 1, ours, peer, 3, limit=limit, targets={"limit": 1.0})


def echoed(processes: Processes, batch: int) -> Contender:
    """The same sequence to the echo."""
    client = processes.client
    sizes = has_sizes([batch * HORIZON * DOF] * 4)
    return Contender(ECHO_NAME, partial(client.batch, ECHO), sizes, partial(client.batch_latency, ECHO))


def empty_service(processes: Processes) -> Contender:
    return Contender(EMPTY_NAME, list, has_sizes([]), partial(processes.client.call_latency, "empty"))


def service_case(
    processes: Processes, service: str, transport: str, ours: Contender, rounds: int, batch: int = 1
) -> Case:
    """Against the same request to a service of rclpy, whose answer is as large."""
    clock = partial(processes.client.call_latency, f"echoed {service}")
    same = Contender(SAME_MESSAGES_NAME, list, has_sizes([]), clock)
    targets = {SAME_MESSAGES_NAME: SERVICE_TARGET} if batch == 1 else {}
    return case(f"{service}, {transport}", batch, ours, same, rounds, targets=targets)


def case(name: str, batch: int, ours: Contender, peer: Contender, rounds: int, **options: object) -> Case:
    return Case(name, batch, HORIZON, DOF, ours, (peer,), rounds=rounds, **options)


def motions(batch: int) -> np.ndarray:
    """Smooth actions `[batch, horizon, dof]` from the start, within the robot's limits, at rest at the end."""
    time = np.linspace(0, 1.2, HORIZON).clip(max=1)
    profile = 10 * time**3 - 15 * time**4 + 6 * time**5
    goals = 0.1 * np.random.default_rng(batch).uniform(-1, 1, (batch, 1, DOF))
    return (START + goals * profile[None, :, None]).astype(np.float32)


def plan(batch: int) -> RecedingPlan:
    """What is sent on topics."""
    return RecedingPlan(START, batch, HORIZON, DT)


def in_double(actions: np.ndarray, start: np.ndarray = START[None]) -> list[np.ndarray]:
    """What must come back from a start of one to three rows, by the reference in float64."""
    rows = [torch.from_numpy(row).double()[None] for row in start]
    outputs = clique_step(torch.from_numpy(actions).double(), *rows, dt=DT, backend="reference")
    return [output.numpy() for output in outputs]


def is_close_to(expected: list[np.ndarray], limit: float = 5e-6) -> Callable[[object], None]:
    """A check that each result differs from the expected one by no more than rounding.

    Positions in float32 carry an error that every derivative divides by dt, so it is measured in units of that.
    """

    def check(results: object) -> None:
        assert len(results) == len(expected), f"expected {len(expected)} results, got {len(results)}"
        for order, (got, want) in enumerate(zip(results, expected, strict=True)):
            assert got.size == want.size, f"result {order}: expected {want.size} values, got {got.size}"
            scale = np.abs(expected[0]).max() / (DT / 2) ** order if len(expected) > 1 else np.abs(want).max()
            error = float(np.abs(got - want.reshape(-1)).max() / scale)
            assert error <= limit, f"result {order} is off by {error:.1e}"

    return check


def has_sizes(sizes: list[int]) -> Callable[[object], None]:
    """A check that results have these numbers of values; the echo computes nothing that could be wrong."""

    def check(results: object) -> None:
        got = [result.size for result in results]
        assert got == sizes, f"expected results of {sizes} values, got {got}"

    return check
