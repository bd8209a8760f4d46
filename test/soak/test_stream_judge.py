"""The judge of streams finds nothing in a motion within its limits, and each fault that is put into it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from soak.streams.core import Message, NodeCore
from soak.streams.invariants import Failure, bounds_of, failures
from soak.streams.plans import Bounds, Course, Way, retreat, sampled, spline_peaks, spline_through
from soak.streams.policies import JERK, POSITION, VELOCITY, Chunk, Form, Policy
from soak.streams.retreats import begun_otherwise
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
    assert {"velocity", "c2"} <= names(found)
    step = next(failure for failure in found if failure.invariant == "velocity")
    assert step.joint == "joint2" and step.time == pytest.approx(1.5, abs=2e-3)
    assert step.value == pytest.approx(1.185, rel=0.01) and step.limit == pytest.approx(0.52, rel=0.01)
    assert str(step).startswith("seed 0: velocity joint2 at 1.500 s: 1.18")


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
        (lambda run: add(run, np.array([0.0, 1e-6]), 0), {"c2"}),
        (lambda run: np.multiply(run.commands[1], 1.001, out=run.commands[1]), {"c2"}),
        (
            lambda run: add(run, 0.03 * np.array([LATER**2 / 2, LATER, LATER > 0])),
            {"jerk", "c2", "follows", "rest", "end"},
        ),
        (lambda run: add(run, Way(2.7, REST, np.array([0.0, 1e-3]), MEANT).states(LATER[:, 0])), {"end"}),
        (lambda run: set_scene(run, position_max=np.array([0.9, 1.5])), {"position"}),
        (lambda run: set_scene(run, disturbances=(Disturbance(DEAD, BEGIN_S + 0.4, BEGIN_S + 2.0),)), {"unnoticed"}),
        (lambda run: set_scene(run, disturbances=(Disturbance(FREEZE, BEGIN_S + 0.6, BEGIN_S + 2.3),)), {"unnoticed"}),
        (lambda run: setattr(run.sent[3], "refusal", "times do not increase at point 3"), {"unfit"}),
        (lambda run: setattr(run.sent[3], "refusal", "off"), set()),
        (hold, {"follows", "acceleration", "c2", "end"}),
        (lambda run: vars(run).update(commands=run.commands[:, : cycle(2)], off=run.off[: cycle(2)]), {"rest", "end"}),
    ],
    ids=[
        "a step too small for a velocity", "a velocity that is not that of the positions", "a jump of acceleration",
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
    assert {"acceleration", "c2", "follows", "rest"} <= names(found)
    jump = next(failure for failure in found if failure.invariant == "acceleration")
    assert jump.value == pytest.approx(50, rel=0.1) and jump.time == pytest.approx(1.5, abs=2e-3)


@pytest.mark.parametrize(("share", "limit", "found"), [(0.3, 1.3, False), (0.1, 1.3, True), (0.1, 1.05, False)])
def test_a_robot_is_where_its_plan_is_once_it_can_have_caught_up(run, share, limit, found):
    """That is 0.2 rad ahead at first; at a tenth of its speed it is not caught up with, nor can it be near a limit."""
    set_scene(run, bounds=MEANT.times(limit, 1.3, 1.3))
    run.commands[0, :, 0] -= np.clip(0.2 - share * run.commands[0, :, 0], 0, None)
    assert ("follows" in names(failures(run))) == found


@pytest.fixture
def retreating(run) -> Run:
    """Within all limits: 4 mrad back and forth over half a second, from 3.5 s on."""
    set_scene(run, perfect=False)  # which would have to be where its plan is
    there = np.array([[-4e-3] * 2, [0] * 2, [0] * 2])
    ways = [Way(0.0, np.zeros((3, 2)), there[0], MEANT), Way(0.4, there, np.zeros(2), MEANT)]
    times = np.arange(run.commands.shape[1]) / RATE - 3.5
    run.commands[:, times > 0] += Course(ways).states(times[times > 0])
    return run


def test_a_retreat_is_found(retreating):
    run = retreating
    found = failures(run)
    assert names(found) == {"retreat"} and found[0].value == pytest.approx(4e-3, rel=0.01)
    set_scene(run, forward=None)
    assert failures(run) == []


@pytest.mark.parametrize(("complete", "dt", "rounded"), [(False, 0.01, 1.25e-4), (False, 0.1, 2e-3), (True, 0.01, 0)])
def test_corners_are_rounded_only_where_they_ask_for_more_than_an_assumed_jerk(retreating, complete, dt, rounded):
    """Of 200 rad/s^3, where 50 are assumed: by dt^3 (200^3 / 50^2 - 200) / 24, and 2 mrad at most."""
    form = dataclasses.replace(retreating.scene.form, dt=dt)
    set_scene(retreating, complete=complete, form=form)
    retreating.assumed = MEANT.times(1.0, 1.0, 2.5)
    for answer in retreating.answers:
        answer.chunk.peaks, answer.chunk.retreat = MEANT.times(1.0, 1.0, 10.0), np.zeros(2)
    found = next(failure for failure in failures(retreating) if failure.invariant == "retreat")
    assert found.limit == pytest.approx(2e-4 + rounded)


@pytest.mark.parametrize(
    ("over", "short", "moves", "rests", "may"),
    [
        (True, False, 8e-3, True, True),
        (True, False, 5e-4, False, True),
        (True, False, 8e-3, False, False),
        (False, False, 0.0, True, False),
        (False, True, 0.0, True, True),
    ],
)
def test_a_robot_goes_back_to_where_a_plan_rests_after_one_that_was_over_or_too_short(
    retreating, over, short, moves, rests, may
):
    """Only then nobody could know how near the end was; one was too short in which the robot could not stop."""
    first, last = retreating.answers[0], retreating.answers[-1]
    last.arrived_ns = retreating.begin_ns + round(3.48 * SECOND)
    last.chunk.position[:] = GOAL - 4e-3 - np.linspace(moves, 0, len(last.chunk.position))[:, None]
    last.chunk.rests = False
    if rests:
        last.chunk.position[-3:] = GOAL - 4e-3
    last.chunk.data[:] = last.chunk.position[1:]
    first.chunk.observed_ns += 0 if over else 3 * SECOND
    if short:
        first.arrived_ns, first.chunk.stamp_ns = retreating.begin_ns + round(1.3 * SECOND), 0
        first.chunk.data = first.chunk.data[:1]
    retreating.answers[:] = [first, last]
    assert ("retreat" in names(failures(retreating))) != may


@pytest.mark.parametrize(("off", "ahead", "may"), [(True, 4e-3, True), (True, 1e-3, False), (False, 4e-3, False)])
def test_after_a_restart_a_robot_goes_back_to_a_plan_that_does_not_come_to_it(retreating, off, ahead, may):
    """The controller held where the arm hangs, ahead of all of its rows."""
    retreating.off[cycle(3.3) : cycle(3.45)] = off
    taken = retreating.answers[-1]
    taken.arrived_ns = retreating.begin_ns + round(3.48 * SECOND)
    taken.chunk.position[:] = GOAL - ahead - np.linspace(5e-3, 0, len(taken.chunk.position))[:, None]
    retreating.answers[:] = [taken]
    assert ("retreat" in names(failures(retreating))) != may


@pytest.mark.parametrize("stamped", [True, False])
def test_what_the_spline_of_a_chunk_without_a_stamp_does_from_the_command_is_no_retreat(retreating, stamped):
    """5 mrad before its end, which its rows reach within a step of 0.1 s and hold, it goes on."""
    taken = retreating.answers[7]
    taken.chunk.dt = 0.1
    met = (taken.arrived_ns - retreating.begin_ns) // retreating.period_ns + 20
    assert (retreating.commands[1, met] > [0.49, 0.15]).all()
    taken.chunk.data[:] = retreating.commands[0, met] + [5e-3, 0.0]
    taken.chunk.stamp_ns *= stamped
    assert ("retreat" in names(failures(retreating))) == stamped


@pytest.mark.parametrize(
    ("space", "stamped", "after", "back"),
    [(VELOCITY, True, True, 1e-2), (VELOCITY, False, True, 0), (VELOCITY, True, False, 0), (POSITION, True, True, 0)],
)
def test_velocities_lead_to_where_the_plan_before_was_when_they_were_made(run, space, stamped, after, back):
    """At 0.1 rad/s, 0.1 s before they are met; those without a stamp begin with what they meet."""
    run.commands[:] = 0.0
    moving, holding = run.answers[:2]
    for answer, begin in ((moving, 1.0), (holding, 1.2)):
        answer.arrived_ns = run.begin_ns + round((begin + 0.08) * SECOND)
        answer.chunk.observed_ns = run.begin_ns + round(begin * SECOND)
        answer.chunk.stamp_ns = answer.chunk.observed_ns * stamped
        answer.chunk.space, answer.chunk.dt = space, 0.1
        answer.chunk.data = np.full((5, 2), 0.1 if answer is moving else 0.0)
    run.answers[:] = [moving, holding][not after :]
    np.testing.assert_allclose(begun_otherwise(run), back, atol=2.5e-3)  # a spline rings


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


@pytest.mark.parametrize(("off", "may"), [(0.06, True), (0.04, False)])
def test_a_message_that_begins_where_the_robot_stands_leads_back_to_it(retreating, off, may):
    """It stands since 2.0 s; further from its command than the deviation that the node allows."""
    frozen = Disturbance(FREEZE, BEGIN_S + 2.0, BEGIN_S + 3.6)
    set_scene(retreating, disturbances=(frozen,))
    taken = retreating.answers[-1]
    taken.arrived_ns = retreating.begin_ns + round(3.48 * SECOND)
    taken.answer = Message(0, taken.answer.points._replace(position=np.array([GOAL - off] * 2)))
    retreating.answers[:] = [taken]
    assert ("retreat" in names(failures(retreating))) != may


def test_a_jump_by_a_restart_is_the_controllers_and_the_first_cycles_after_it_count(run):
    set_scene(run, disturbances=(Disturbance(RESTART, BEGIN_S + 1.0, BEGIN_S + 1.1),))
    run.off[cycle(1.0) : cycle(1.1)] = True
    run.commands[:, cycle(1.0) : cycle(1.1)] = np.nan
    assert failures(run) == []
    run.commands[0, cycle(1.1) + 1 :] += 1e-3
    assert {"velocity", "c2"} <= names(failures(run))


def test_where_limits_are_assumed_they_are_raised_to_what_the_plan_asks_for(run):
    scene = dataclasses.replace(run.scene, complete=False)
    run.scene, run.assumed = scene, MEANT.times(1.0, 0.1, 0.1)
    assert failures(run) == []
    for answer in run.answers:
        answer.chunk.peaks = MEANT.times(1.0, 0.1, 0.1)
    assert {"acceleration", "jerk"} <= names(failures(run))


@pytest.mark.parametrize(("slowed", "found"), [(False, {"jerk"}), (True, set())])
def test_slowed_plans_may_pass_into_one_another_with_a_quarter_more_than_an_assumed_jerk(run, slowed, found):
    run.scene, run.assumed = dataclasses.replace(run.scene, complete=False), MEANT.times(1.0, 1.0, 0.85)
    for answer in run.answers:
        answer.chunk.peaks = MEANT.times(1.0, 1.0, 0.1)
    run.answers[3].answer = run.answers[3].answer._replace(slowed=slowed)
    assert names(failures(run)) == found


@pytest.mark.parametrize(("late", "largest"), [(0.1, 0.3 * 1.2), (0.6, (0.4 + 0.2) * 1.2)])
def test_held_jerks_lead_to_accelerations_from_those_before_or_from_a_brake(run, late, largest):
    """0.2 s of 1 rad/s^3, twice; the second chunk begins after 0.1 s of the first, or in the brake after it."""
    set_scene(run, complete=False, form=dataclasses.replace(run.scene.form, space=JERK))
    run.assumed = Bounds(np.ones(2), np.full(2, 0.25 if late < 0.5 else 0.4), np.ones(2))
    run.answers[:] = run.answers[:2]
    first, second = (answer.chunk for answer in run.answers)
    second.observed_ns = first.observed_ns + round(late * SECOND)
    for chunk in (first, second):
        chunk.dt, chunk.data, chunk.peaks = 0.02, np.full((10, 2), 1.0), Bounds(*np.zeros((3, 2)))
    np.testing.assert_allclose(bounds_of(run).acceleration, largest)


def test_a_speed_that_no_plan_asks_for_is_found_but_on_the_way_to_a_place_to_hold(run):
    for answer in run.answers:
        answer.chunk.peaks = MEANT.times(0.1, 1.0, 1.0)
    assert names(failures(run)) == {"catch_up"}
    for answer in run.answers:
        answer.chunk.position[:, 0] = GOAL[0]
    found = failures(run)
    assert names(found) == {"catch_up"} and found[0].joint == "joint2"
    for answer in run.answers:
        answer.chunk.position[:] = GOAL
    assert failures(run) == []
    for answer in run.answers[1:]:  # from the second chunk on it is told to move
        answer.chunk.position[:] = np.linspace(0, GOAL, 26)
    assert names(failures(run)) == {"catch_up"}


BUMP = np.repeat([5.0, -5.0, 0.0], [5, 5, 15])
"""Jerks that lead from one speed to 0.05 rad/s more."""


@pytest.mark.parametrize(("behind", "is_wrongly_refused"), [(0.0, True), (0.02, False)])
def test_velocities_are_judged_from_the_command_on_and_not_from_what_was_measured(run, behind, is_wrongly_refused):
    """They lead beyond a limit of position from there, by less than the robot is behind its command."""
    refused = run.answers[5]
    at = (refused.arrived_ns - run.begin_ns) // run.period_ns + round(run.scene.lead_time * RATE)
    refused.chunk.space, refused.answer = VELOCITY, Refusal("limits_violated", "position")
    refused.chunk.position[:] += run.commands[0, at] - behind - refused.chunk.position[0]
    set_scene(run, position_max=refused.chunk.position.max(axis=0) + 0.01)
    assert ("refused" in names(failures(run))) == is_wrongly_refused


@pytest.mark.parametrize(
    ("jerks", "is_wrongly_refused"),
    [
        ([BUMP], True),
        ([-2 * BUMP] * 3, True),
        ([-2 * BUMP] * 4, False),
        ([10 * BUMP], False),
        ([BUMP, BUMP], True),
        ([2 * BUMP] * 3 + [BUMP], True),
        ([2 * BUMP] * 4 + [4 * BUMP], False),
    ],
    ids=["motion", "back", "no way to stop", "too much acceleration", "from a motion", "to the limit", "beyond it"],
)
def test_jerks_are_judged_by_what_they_lead_to_from_the_chunk_before(run, jerks, is_wrongly_refused):
    """All chunks but the last are executed."""
    form = Form(JERK, 0.02, len(BUMP), stamped=True)
    set_scene(run, form=form, perfect=False)
    nothing = Bounds(*np.zeros((3, 2)))
    for k, row in enumerate(jerks):
        observed_ns = round((BEGIN_S + 0.5 + 0.5 * k) * SECOND)
        data = np.stack([row, row], axis=1).astype(np.float32)
        held = np.zeros((len(row) + 1, 2))
        chunk = Chunk(observed_ns, observed_ns, JERK, form.dt, data, held, nothing, np.zeros(2), rests=False)
        answer = Refusal("a reason", "") if k == len(jerks) - 1 else run.answers[k].answer
        run.answers[k] = Answer(chunk, observed_ns + 5_000_000, answer)
    del run.answers[len(jerks) :]
    assert names(failures(run)) == ({"refused"} if is_wrongly_refused else set())


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
    np.testing.assert_allclose(retreat(sampled(spline)), retreat(spline(times)), rtol=0.05)
