"""Time that the node takes for one sequence, by kind, without what other programs add.

Random sequences of the kinds that users send come to a node that executes a plan. The time is that of one core, which
other programs do not lengthen. The node lets nothing wait for more than 8 ms: longer work is done in a thread.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from soak.streams.core import NodeCore, put_in_motion
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.inputs import Actions
from traj_integrator_ros.requests.rejection import Rejected, require_finite

from .registry import Case, Contender

DOF, ROWS, NOW_NS, NS = 7, 50, 10**12, 10**9
LIMITS = {"velocity": 2.0, "acceleration": 10.0, "jerk": 200.0, "position_max": 6.0, "position_min": -6.0}
USED = 0.6
"""Share of its limits that a plan uses."""
CYCLE_S, DT, LEAD_S = 0.4, 0.02, 0.02
STATES_NS = 10_000_000
"""Time between joint states, ns."""
FREE_US, USUAL_US, MOST_US = 0.6e3, 3e3, 5e3
"""Largest median of exact plans, whose blend meets no bound, and of other kinds, and the largest single time."""
SAMPLE, SAMPLE_US = "a sample of the command", 20.0
"""The sample that a loop reads in each cycle, and the largest allowed median: 2 % of a cycle of 1 kHz."""
COUNT, FEW = 10_000, 40
"""Number of sequences of each kind, in a whole run and in a quick one; of those that are slowed, an eighth."""
_COLD, _AGAIN = 3, 3
Plan = Callable[[np.ndarray], np.ndarray]
"""Positions `[N, DOF]` at times `[N]`, s."""


def plan_within(rng: np.random.Generator, share: float = USED) -> Plan:
    """Sines of all joints that use a share of the limits."""
    frequency, phase = rng.uniform(0.5, 4.0, DOF), rng.uniform(0, 2 * np.pi, DOF)
    orders = (LIMITS[name] / frequency**order for order, name in enumerate(("velocity", "acceleration", "jerk"), 1))
    size = share * np.minimum.reduce([*orders]) * rng.uniform(0.2, 1.0, DOF)
    return lambda times: size * np.sin(np.asarray(times)[..., None] * frequency + phase)


def idle() -> NodeCore:
    """Return a node without a robot."""
    limits = {f"limits__{name}": [value] * DOF for name, value in LIMITS.items()}
    return NodeCore([f"joint_{i}" for i in range(DOF)], **limits, start_from="previous")


def begun(plan: Plan) -> NodeCore:
    """Return a node that executes a plan."""
    node, step = idle(), 1e-3
    before, at, after = plan(np.array([-step, 0.0, step]))
    state = State(at, (after - before) / (2 * step), (after - 2 * at + before) / step**2)
    node.joint_state(state.position, state.velocity, NOW_NS)
    put_in_motion(node, state, NOW_NS)
    node.execute(chunk(plan, 0.0), NOW_NS)
    return node


def chunk(plan: Plan, at_s: float, rows: int = ROWS, dt: float = DT) -> Actions:
    """The rows of a plan from a time on, with their stamp."""
    data = plan(at_s + dt * np.arange(1, rows + 1))
    return Actions(NOW_NS + round(at_s * NS), ControlSpace.POSITION.value, dt, data)


def another(
    rng: np.random.Generator, apart: float = 0.05, share: tuple[float, float] = (USED, USED)
) -> tuple[NodeCore, Actions]:
    """Another plan, which uses a share of the limits, about where the robot is."""
    plan, other = plan_within(rng), plan_within(rng, rng.uniform(*share))
    by = plan(np.array(CYCLE_S)) - other(np.array(CYCLE_S)) + rng.normal(size=DOF) * apart
    return begun(plan), chunk(lambda times: other(times) + by, CYCLE_S)


def the_same(rng: np.random.Generator, apart: float = 0.0, noise: float = 0.0) -> tuple[NodeCore, Actions]:
    """The plan in execution, off by as much, rad, and with rows that are noisy."""
    plan, by = plan_within(rng), rng.normal(size=DOF) * apart
    return begun(plan), chunk(lambda times: plan(times) + by + rng.normal(size=(len(times), DOF)) * noise, CYCLE_S)


def resent_standing(rng: np.random.Generator) -> tuple[NodeCore, Actions]:
    """A plan from rest for a robot that stands, but reports a speed of 0.1 rad/s."""
    by, x = plan_within(rng)(np.array(0.0)), np.linspace(0, 1, ROWS + 1)[1:, None]
    rows = by + (10 * x**3 - 15 * x**4 + 6 * x**5) * rng.uniform(-0.1, 0.1, DOF)
    node = idle()
    now_ns, said = NOW_NS + round(CYCLE_S * NS), rng.choice([-0.1, 0.1], DOF)
    for stamp_ns in range(now_ns - 10 * STATES_NS, now_ns + 1, STATES_NS):
        node.joint_state(by, said, stamp_ns)
    return node, Actions(now_ns, ControlSpace.POSITION.value, DT, rows)


def resent_moving(rng: np.random.Generator) -> tuple[NodeCore, Actions]:
    plan = plan_within(rng)
    return begun(plan), Actions(NOW_NS, ControlSpace.POSITION.value, DT, chunk(plan, 0.0).data)


def one_action(rng: np.random.Generator) -> tuple[NodeCore, Actions]:
    plan = plan_within(rng)
    at_once = chunk(plan, CYCLE_S + LEAD_S, 1, float(rng.uniform(0.01, 1 / 30)))
    return begun(plan), at_once._replace(stamp_ns=0)


EXACT, SLOWED = "exact", "beyond limits, slowed"
KINDS = {
    EXACT: the_same,
    "off by 5 mrad": partial(the_same, apart=5e-3),
    "another plan": another,
    "noise of 1 mrad": partial(the_same, noise=1e-3),
    "sent again, the robot stands": resent_standing,
    "sent again, the robot moves": resent_moving,
    "one action at 30 to 100 Hz": one_action,
    SLOWED: partial(another, apart=0.0, share=(1.2, 3.0)),
}


def answering(quick: bool) -> Iterator[Case]:
    for kind in KINDS:
        check = partial(is_kind, kind)
        ours = Contender("ours", lambda kind=kind: took_s(kind, 0)[1], check, clock=one_after_another(kind))
        limits = {"most_us": FREE_US if kind == EXACT else USUAL_US, "worst_us": MOST_US}
        limits, count = ({}, COUNT // 8) if kind == SLOWED else (limits, COUNT)
        yield Case(kind, 1, ROWS, DOF, ours, dtype="float64", rounds=FEW if quick else count, **limits)
    node = begun(plan_within(np.random.default_rng(0)))
    cycles = itertools.count(NOW_NS, NS // 1000)
    ours = Contender("ours", lambda: node.sample(next(cycles)), lambda state: require_finite("sample", state.position))
    yield Case(SAMPLE, 1, ROWS, DOF, ours, dtype="float64", most_us=SAMPLE_US)


def is_kind(kind: str, answered: object) -> None:
    """Check that a sequence turned out to be of a kind."""
    assert answered == kind, f"expected {kind}, got {answered or 'a refusal'}"


def one_after_another(kind: str) -> Callable[[], float]:
    """Times, s, of random sequences that turn out to be of a kind.

    Long times are measured again, in case something disturbed them: the same sequence is the same work.
    """
    seeds = itertools.count()

    def next_s() -> float:
        while True:
            seed = next(seeds)
            took, answered = took_s(kind, seed)
            if answered == kind and seed >= _COLD:
                break
        again = itertools.islice(iter(lambda: took_s(kind, seed)[0], None), _AGAIN)
        return took if took <= MOST_US * 1e-6 else min(took, *again)

    return next_s


def took_s(kind: str, seed: int) -> tuple[float, str]:
    """Time for one random sequence, s, and the kind that it turned out to be; "" if it was refused."""
    node, fields = KINDS[kind](np.random.default_rng(seed))
    now_ns = NOW_NS + round(CYCLE_S * NS)
    began = time.thread_time()
    try:
        answer = node.execute(fields, now_ns)
    except Rejected:
        answer, kind = None, ""
    took = time.thread_time() - began
    return took, SLOWED if answer is not None and answer.delay > 0 else kind
