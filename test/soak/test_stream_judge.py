"""The judge of streams finds nothing in a motion within its limits, and finds each fault that is added to it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from kit.controller import SECOND
from rig import judge
from rig.simulated import Refusal, Sent
from soak.streams.core import NodeCore
from soak.streams.invariants import DEVIATION, failures
from soak.streams.plans import Bounds, Course, Way, sampled, spline_peaks, spline_through
from soak.streams.policies import POSITION, Form, Policy
from soak.streams.scenes import BEGIN_S, DEAD, FREEZE, RESTART, Disturbance, Scene, Sending
from soak.streams.simulation import Answered, Run, simulate
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.governor.executable import ExecutableTrajectory

RATE, SECONDS = 1000, 5.0
TIMES = (np.arange(round(SECONDS * RATE)) + 1) / RATE
MEANT = Bounds(np.array([0.5, 0.4]), np.array([2.0, 2.0]), np.array([20.0, 20.0]))
LESS = MEANT.times(1.0, 0.1, 0.1)
REST = np.zeros((3, 2))
COURSE = Course([Way(BEGIN_S + 0.3, REST, np.array([1.0, 0.4]), MEANT)])


@pytest.fixture(scope="module")
def policy() -> Policy:
    form = Form(POSITION, 0.02, 25, stamped=True)
    return Policy(form, np.ones(2), np.random.default_rng(0), [], None, COURSE, 1e9)


@pytest.fixture(scope="module")
def as_meant(policy: Policy) -> Run:
    """A stream of chunks at 10 Hz that the controller commands exactly as meant."""
    scene = a_scene(policy)
    run = Run(scene, COURSE.states(BEGIN_S + TIMES), np.zeros(len(TIMES), bool), policy)
    for stamp in np.arange(scene.sending.begin, scene.sending.end, 0.1):
        now_ns = round(stamp * SECOND)
        chunk = policy.chunk(now_ns, np.zeros((2, 2)))
        message = ExecutableTrajectory(None, stamp_ns=now_ns, points=Points(np.arange(25), *np.zeros((3, 25, 2))))
        run.answers.append(Answered(chunk, now_ns + 5_000_000, message))
        run.sent.append(Sent(now_ns + 8_000_000, message))
    return run


@pytest.fixture
def run(as_meant: Run) -> Run:
    """A copy for a test to change."""
    return copy.deepcopy(as_meant, {id(as_meant.policy): as_meant.policy})


def a_scene(policy: Policy) -> Scene:
    sending = Sending(10.0, 0.0, (0.005, 0.005), 0.0, 0.0, 0.0, BEGIN_S + 0.3, BEGIN_S + 4.0)
    return Scene(
        seed=0, bounds=MEANT.times(1.3, 1.3, 1.3), position_min=np.full(2, -0.5), position_max=np.full(2, 1.5),
        complete=True, start=np.zeros(2), lag=0.0, droop=np.zeros(2), noise=0.0, quantization=0.0, disturbances=(),
        transport=(0.002, 0.003), joint_rate=500, state_rate=250, state_is_next=False, from_desired=False,
        lead_time=0.02, sending=sending, form=policy.form, policy=lambda _: policy, forward=np.ones(2), perfect=True,
    )  # fmt: skip


def cycle(time: float) -> int:
    return round(time * RATE)


def step(run: Run, by: float, begin: float = 1.5) -> None:
    """Let the second joint step."""
    run.commands[0, cycle(begin) :, 1] += by


def speed_up(run: Run, by: float, order: int) -> None:
    """A jump of velocity or acceleration of the first joint, at 1.5 s."""
    since = np.clip(TIMES - 1.5, 0, None)
    run.commands[:, :, 0] += by * np.array([since**2 / 2, since, since > 0, 0 * since][2 - order : 5 - order])


def go_on(run: Run, begin: float, *ways: Way) -> None:
    """Add ways that begin at 0 to the meant ones."""
    run.commands[:, TIMES > begin] += Course([*ways]).states(TIMES[TIMES > begin] - begin)


def hold(run: Run, begin: float, off: float = 0.0) -> None:
    run.commands[:, cycle(begin) :] = run.commands[:, [cycle(begin)]] * [[[1.0]], [[0.0]], [[0.0]]]
    run.commands[0, cycle(begin) + 1 :] += off


def turn_off(run: Run, begin: float, end: float) -> None:
    run.commands[:, cycle(begin) : cycle(end)] = np.nan
    run.off[cycle(begin) : cycle(end)] = True


def refuse(run: Run, since: float) -> None:
    for answer in run.answers:
        if answer.arrived_ns > (BEGIN_S + since) * SECOND:
            answer.answer = Refusal("limits_violated", "a reason")


def brake(run: Run, begin: float) -> None:
    state, since = run.commands[:, cycle(begin)].copy(), TIMES[cycle(begin) :]
    run.commands[:, cycle(begin) :] = Way(since[0], state, state[0] + state[1] * 0.4, MEANT).states(since)


def set_scene(run: Run, **changes: object) -> None:
    run.scene = dataclasses.replace(run.scene, **changes)


def disturb(run: Run, kind: str, begin: float, end: float) -> None:
    set_scene(run, disturbances=(Disturbance(kind, BEGIN_S + begin, BEGIN_S + end),))


def restart(run: Run) -> None:
    disturb(run, RESTART, 1.0, 1.1)
    turn_off(run, 1.0, 1.1)


def assume(run: Run, asked: Bounds | None = None) -> None:
    """Limits of acceleration and jerk are unknown; plans ask for their own, or for so much."""
    set_scene(run, complete=False)
    run.assumed = LESS
    for answer in run.answers:
        answer.chunk.peaks = asked or answer.chunk.peaks


def set_back(run: Run) -> None:
    """The last chunk lies as far behind the one before as `BACK`."""
    run.answers[-1].chunk.spline.c[-1] += BACK[0]


BACK = np.array([[-4e-3] * 2, [0] * 2, [0] * 2])
AND_FORTH = Way(0.0, REST, BACK[0], MEANT), Way(0.4, BACK, np.zeros(2), MEANT)
JUMPS = {"velocity", "acceleration", "jerk"}
CASES = {
    "as meant": (lambda run: None, set()),
    "a step too small for a velocity": (lambda run: step(run, 1e-6), {"jerk"}),
    "a jump of velocity": (
        lambda run: speed_up(run, -0.05, 1), {"acceleration", "jerk", "follows", "retreat", "rest", "end"},
    ),
    "a jump of acceleration": (lambda run: speed_up(run, 0.06, 2), {"jerk", "follows", "rest", "end"}),
    "a wrong end": (lambda run: go_on(run, 4.2, Way(0.0, REST, np.array([0.0, 1e-3]), MEANT)), {"end"}),
    "a retreat": (lambda run: go_on(run, 4.2, *AND_FORTH), {"retreat"}),
    "a retreat that may be": (lambda run: (go_on(run, 4.2, *AND_FORTH), set_scene(run, forward=None)), set()),
    "a retreat from chunk to chunk": (lambda run: (go_on(run, 4.2, *AND_FORTH), set_back(run)), set()),
    "a position beyond its limit": (lambda run: set_scene(run, position_max=np.array([0.9, 1.5])), {"position"}),
    "not executed": (lambda run: hold(run, 1.0), {"acceleration", "jerk", "follows", "end"}),
    "not at rest at the end": (
        lambda run: vars(run).update(commands=run.commands[:, :2000], off=run.off[:2000]), {"rest", "end"},
    ),
    "no number": (lambda run: step(run, np.nan), {"finite"}),
    "nothing without a controller": (lambda run: turn_off(run, 4.5, 4.6), set()),
    "a motion without joint states": (lambda run: disturb(run, DEAD, 0.4, 2.0), {"unnoticed"}),
    "a robot that stands": (lambda run: disturb(run, FREEZE, 0.6, 2.3), {"unnoticed"}),
    "a robot that stands, and is noticed": (
        lambda run: (disturb(run, FREEZE, 0.6, 2.3), hold(run, 0.6, DEVIATION)), JUMPS | {"follows"},
    ),
    "a robot that stands, and is left": (
        lambda run: (disturb(run, FREEZE, 0.6, 2.3), hold(run, 0.6, DEVIATION + 0.5)), JUMPS | {"follows", "unnoticed"},
    ),
    "a message that the controller refuses": (lambda run: setattr(run.sent[3], "refusal", "no points"), {"unfit"}),
    "there was no controller": (lambda run: setattr(run.sent[3], "refusal", "off"), set()),
    "refused": (lambda run: (refuse(run, 1.0), brake(run, 1.2)), {"follows", "refused"}),
    "all refused": (lambda run: refuse(run, 0.0), {"refused", "stuck"}),
    "a restart": (lambda run: restart(run), set()),
    "a step after a restart": (lambda run: (restart(run), step(run, 1e-3, 1.101)), {"jerk"}),
    "limits that are assumed": (assume, set()),
    "more than a plan asks for": (lambda run: assume(run, LESS), {"acceleration", "jerk"}),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), CASES.values(), ids=CASES)
def test_a_fault_is_found_and_nothing_else(run: Run, change: Callable[[Run], object], expected: set[str]) -> None:
    change(run)
    assert {failure.invariant for failure in failures(run)} == expected


def test_a_failure_says_where_and_by_how_much(run: Run) -> None:
    step(run, 1e-3)
    found = {failure.invariant: failure for failure in failures(run)}
    assert found.keys() == JUMPS | {"end"}
    velocity = found["velocity"]
    assert (velocity.joint, velocity.limit) == ("joint2", 1.001)
    assert velocity.time == pytest.approx(1.5, abs=2e-3) and velocity.value == pytest.approx(1.185 / 0.52, rel=0.01)


class Faulty(NodeCore):
    """A node whose trajectories each step by a milliradian in the middle."""

    def execute(self, *arguments: object) -> ExecutableTrajectory | None:
        if made := super().execute(*arguments):
            made.points.position[len(made.points.position) // 2 :] += 1e-3
        return made


def test_a_fault_of_the_node_is_found_in_what_the_controller_commands(policy: Policy) -> None:
    run = simulate(a_scene(policy), core=Faulty)
    assert {"acceleration", "jerk"} <= {failure.invariant for failure in failures(run)}


def test_the_peaks_of_a_spline_are_those_of_its_samples() -> None:
    random, dt = np.random.default_rng(0), 0.05
    rows, times = np.cumsum(random.normal(size=(9, 10)), axis=0), np.linspace(0, 8 * dt, 40_001)
    spline = spline_through(dt, rows, *random.normal(size=(2, 10)))
    for order, peak in enumerate(spline_peaks(spline), 1):
        np.testing.assert_allclose(peak, np.abs(spline(times, order)).max(axis=0), rtol=1e-4)
    np.testing.assert_allclose(judge.way_back(sampled(spline)), judge.way_back(spline(times)), rtol=0.05)
