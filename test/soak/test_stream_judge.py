"""The judge of streams finds nothing in a motion within its limits, and each fault that is put into it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from rig import judge
from soak.streams.core import Message, NodeCore
from soak.streams.invariants import DEVIATION, Failure, failures
from soak.streams.plans import Bounds, Course, Way, sampled, spline_peaks, spline_through
from soak.streams.policies import POSITION, Form, Policy
from soak.streams.scenes import BEGIN_S, DEAD, FREEZE, RESTART, Disturbance, Scene, random_scene
from soak.streams.simulation import SECOND, Answer, Refusal, Run, Sent, simulate
from traj_integrator_ros.execution.rows import Points

RATE, SECONDS = 1000, 5.0
GOAL, REST = np.array([1.0, 0.4]), np.zeros((3, 2))
MEANT = Bounds(np.array([0.5, 0.4]), np.array([2.0, 2.0]), np.array([20.0, 20.0]))


@pytest.fixture(scope="module")
def course() -> Course:
    return Course([Way(BEGIN_S + 0.3, np.zeros((3, 2)), GOAL, MEANT)])


@pytest.fixture(scope="module")
def policy(course: Course) -> Policy:
    form = Form(POSITION, 0.02, 25, stamped=True)
    return Policy(form, np.ones(2), np.random.default_rng(0), [], None, course, 1e9)


@pytest.fixture(scope="module")
def as_meant(course: Course, policy: Policy) -> Run:
    """A stream of chunks at 10 Hz, of which the controller commands exactly what was meant."""
    times = BEGIN_S + (np.arange(round(SECONDS * RATE)) + 1) / RATE
    scene = a_scene(policy)
    run = Run(scene, course.states(times), np.zeros(len(times), bool), policy)
    for stamp in np.arange(scene.sending.begin, scene.sending.end, 0.1):
        now_ns = round(stamp * SECOND)
        chunk = policy.chunk(now_ns, np.zeros((2, 2)))
        message = Message(now_ns, Points(np.arange(25), *np.zeros((3, 25, 2))))
        run.answers.append(Answer(chunk, now_ns + 5_000_000, message))
        run.sent.append(Sent(now_ns + 5_000_000, now_ns + 8_000_000, message))
    return run


@pytest.fixture
def run(as_meant: Run) -> Run:
    """The same, for a test to change."""
    return copy.deepcopy(as_meant, {id(as_meant.policy): as_meant.policy})


def a_scene(policy: Policy) -> Scene:
    drawn = random_scene(0)
    sending = dataclasses.replace(
        drawn.sending, rate=10.0, jitter=0.0, inference=(0.005, 0.005), begin=BEGIN_S + 0.3, end=BEGIN_S + 4.0
    )
    plain = dataclasses.replace(
        drawn, lag=0.0, droop=np.zeros(2), noise=0.0, quantization=0.0, disturbances=(), lead_time=0.02, complete=True,
        bounds=MEANT.times(1.3, 1.3, 1.3), position_min=np.full(2, -0.5), position_max=np.full(2, 1.5),
    )  # fmt: skip
    return dataclasses.replace(
        plain, start=np.zeros(2), sending=sending, form=policy.form, policy=lambda _: policy, forward=np.ones(2),
        perfect=True,
    )  # fmt: skip


def names(found: list[Failure]) -> set[str]:
    return {failure.invariant for failure in found}


def cycle(time: float) -> int:
    return round(time * RATE)


def test_a_motion_that_is_as_meant_has_no_failure(run):
    assert failures(run) == []


def test_a_step_of_a_milliradian_is_found(run):
    run.commands[0, cycle(1.5) :, 1] += 1e-3
    found = failures(run)
    assert names(found) == {"velocity", "acceleration", "jerk", "end"}
    step = next(failure for failure in found if failure.invariant == "velocity")
    assert step.joint == "joint2" and step.time == pytest.approx(1.5, abs=2e-3)
    assert step.value == pytest.approx(1.185 / 0.52, rel=0.01) and step.limit == 1.001
    assert str(step).startswith("seed 0: velocity joint2 at 1.500 s: 2.27")


def add(run: Run, values: np.ndarray, orders: object = slice(None)) -> None:
    """From 1.5 s on."""
    run.commands[orders, cycle(1.5) :] += values


def hold(run: Run) -> None:
    """From 1 s on."""
    run.commands[:, cycle(1) :] = run.commands[:, [cycle(1)]] * [[[1.0]], [[0.0]], [[0.0]]]


def set_scene(run: Run, **changes: object) -> None:
    run.scene = dataclasses.replace(run.scene, **changes)


LATER = np.arange(round(3.5 * RATE))[:, None] / RATE
"""Since 1.5 s."""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda run: add(run, np.array([0.0, 1e-6]), 0), {"jerk"}),
        (
            lambda run: add(run, 0.06 * np.array([LATER**2 / 2, LATER, LATER > 0])),
            {"jerk", "follows", "rest", "end"},
        ),
        (lambda run: add(run, Way(2.7, REST, np.array([0.0, 1e-3]), MEANT).states(LATER[:, 0])), {"end"}),
        (lambda run: set_scene(run, position_max=np.array([0.9, 1.5])), {"position"}),
        (lambda run: set_scene(run, disturbances=(Disturbance(DEAD, BEGIN_S + 0.4, BEGIN_S + 2.0),)), {"unnoticed"}),
        (lambda run: set_scene(run, disturbances=(Disturbance(FREEZE, BEGIN_S + 0.6, BEGIN_S + 2.3),)), {"unnoticed"}),
        (lambda run: setattr(run.sent[3], "refusal", "times do not increase at point 3"), {"unfit"}),
        (lambda run: setattr(run.sent[3], "refusal", "off"), set()),
        (hold, {"follows", "acceleration", "jerk", "end"}),
        (lambda run: vars(run).update(commands=run.commands[:, : cycle(2)], off=run.off[: cycle(2)]), {"rest", "end"}),
    ],
    ids=[
        "a step too small for a velocity", "a jump of acceleration",
        "a wrong end", "a position beyond its limit", "a motion without joint states", "a robot that stands",
        "a message that the controller refuses", "there was no controller", "not executed", "not at rest at the end",
    ],
)  # fmt: skip
def test_a_fault_is_found(run, change: Callable[[Run], object], expected: set[str]) -> None:
    change(run)
    assert names(failures(run)) == expected


def test_a_jump_of_velocity_is_found(run):
    times = np.arange(run.commands.shape[1]) / RATE
    run.commands[0, :, 0] -= 0.05 * np.clip(times - 1.5, 0, None)
    run.commands[1, cycle(1.5) :, 0] -= 0.05
    found = failures(run)
    assert {"acceleration", "jerk", "follows", "rest"} <= names(found)
    jump = next(failure for failure in found if failure.invariant == "acceleration")
    assert jump.value == pytest.approx(50 / 2.6, rel=0.1) and jump.time == pytest.approx(1.5, abs=2e-3)


@pytest.fixture
def retreating(run) -> Run:
    """Within all limits: 4 mrad back and forth over half a second, from 4.2 s on, where no plan is followed."""
    there = np.array([[-4e-3] * 2, [0] * 2, [0] * 2])
    ways = [Way(0.0, np.zeros((3, 2)), there[0], MEANT), Way(0.4, there, np.zeros(2), MEANT)]
    times = np.arange(run.commands.shape[1]) / RATE - 4.2
    run.commands[:, times > 0] += Course(ways).states(times[times > 0])
    return run


def test_a_retreat_is_found(retreating):
    run = retreating
    found = failures(run)
    assert names(found) == {"retreat"} and found[0].value == pytest.approx(4e-3, rel=0.01)
    set_scene(run, forward=None)
    assert failures(run) == []


def test_a_value_that_is_no_number_is_found(run):
    run.commands[2, cycle(1.5), 1] = np.nan
    assert names(failures(run)) == {"finite"}
    run.off[cycle(1.5)] = True  # nothing is commanded without a controller
    assert "finite" not in names(failures(run))


def test_a_stream_that_ends_while_its_policy_goes_on_is_found(run, course):
    """Refused from 1 s on, the robot brakes."""
    begin = course.states(np.array([BEGIN_S + 1.2]))[:, 0]
    stop = Way(BEGIN_S + 1.2, begin, begin[0] + begin[1] * 0.4, MEANT)
    times = BEGIN_S + (np.arange(run.commands.shape[1]) + 1) / RATE
    braking = times > BEGIN_S + 1.2
    run.commands[:, braking] = stop.states(times[braking])
    for answer in run.answers:
        if answer.arrived_ns > (BEGIN_S + 1.0) * SECOND:
            answer.answer = Refusal("limits_violated", "a reason")
    found = failures(run)
    assert names(found) == {"follows", "refused"}
    refused = next(failure for failure in found if failure.invariant == "refused")
    assert refused.value == 30 and "limits_violated: a reason" in str(refused)
    for answer in run.answers:
        answer.answer = Refusal("limits_violated", "a reason")
    assert {"refused", "stuck"} <= names(failures(run))


def test_a_jump_by_a_restart_is_the_controllers_and_the_first_cycles_after_it_count(run):
    set_scene(run, disturbances=(Disturbance(RESTART, BEGIN_S + 1.0, BEGIN_S + 1.1),))
    run.off[cycle(1.0) : cycle(1.1)] = True
    run.commands[:, cycle(1.0) : cycle(1.1)] = np.nan
    assert failures(run) == []
    run.commands[0, cycle(1.1) + 1 :] += 1e-3
    assert "jerk" in names(failures(run))


def test_where_limits_are_assumed_they_are_raised_to_what_the_plan_asks_for(run):
    scene = dataclasses.replace(run.scene, complete=False)
    run.scene, run.assumed = scene, MEANT.times(1.0, 0.1, 0.1)
    assert failures(run) == []
    for answer in run.answers:
        answer.chunk.peaks = MEANT.times(1.0, 0.1, 0.1)
    assert {"acceleration", "jerk"} <= names(failures(run))


@pytest.mark.parametrize("rate", [100, 1000])
def test_what_is_held_against_limits_are_differences_of_positions(rate):
    """Of t^3 and -t^3: 3 t^2, 6 t and 6, of the cycles before each."""
    times = np.arange(200) / rate
    parts = judge.differences(np.stack([times**3, -(times**3)], axis=1), rate)
    assert {len(part) for part in parts} == {197}
    np.testing.assert_allclose(parts[3], np.tile([6.0, -6.0], (197, 1)), rtol=1e-3)
    limits = {"v": [100.0, 100.0], "j": 3.0, "lo": [0.0, -(times[-1] ** 3)], "hi": times[-1] ** 3 - 0.1}
    found = {one.quantity: one for one in judge.held_against(parts, limits)}
    assert [name for name, one in found.items() if not one.good] == ["j", "hi"]
    assert found["j"].value == pytest.approx(2.0, rel=1e-3)
    assert (found["hi"].cycle, found["hi"].joint) == (196, 0) and found["hi"].value == pytest.approx(0.1)


def test_a_robot_that_stands_is_noticed_within_its_deviation_and_a_stop(run):
    frozen = Disturbance(FREEZE, BEGIN_S + 0.6, BEGIN_S + 2.3)
    set_scene(run, disturbances=(frozen,))
    stands = run.commands[0, run.cycle(frozen.begin)]
    run.commands[:, run.cycle(frozen.begin) + 1 :] = np.array([stands + DEVIATION, *np.zeros((2, 2))])[:, None]
    assert "unnoticed" not in names(failures(run))
    run.commands[0, run.cycle(frozen.begin) + 1 :] += 0.5
    assert "unnoticed" in names(failures(run))


class Faulty(NodeCore):
    """Steps by a milliradian in the middle of each trajectory."""

    def answer(self, *arguments):
        answer = super().answer(*arguments)
        if isinstance(answer, Message):
            position = answer.points.position.copy()
            position[len(position) // 2 :] += 1e-3
            answer = answer._replace(points=answer.points._replace(position=position))
        return answer


def test_a_fault_of_the_node_is_found_in_what_the_controller_commands(policy):
    run = simulate(a_scene(policy), core=Faulty)
    assert {"acceleration", "jerk"} <= names(failures(run))


@pytest.mark.parametrize("seed", range(5))
def test_the_peaks_of_a_spline_are_those_of_its_samples(seed):
    random = np.random.default_rng(seed)
    dt, rows = 0.05, np.cumsum(random.normal(size=(9, 2)), axis=0)
    spline = spline_through(dt, rows, *random.normal(size=(2, 2)))
    times = np.linspace(0, 8 * dt, 40_001)
    for order, peak in enumerate(spline_peaks(spline), 1):
        np.testing.assert_allclose(peak, np.abs(spline(times, order)).max(axis=0), rtol=1e-4)
    np.testing.assert_allclose(judge.way_back(sampled(spline)), judge.way_back(spline(times)), rtol=0.05)
