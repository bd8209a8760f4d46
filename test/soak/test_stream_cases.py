"""Streams that once made an arm jump, run away or stand still, with the node's processing on a simulated clock.

In each case the command keeps limits, is C2, and ends at rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from plain_scenes import FIRST_S, LIMITS, MEANT, streaming, streaming_velocity, way_to

from rig.judge import way_back
from soak.streams.invariants import failures
from soak.streams.plans import Bounds, Way
from soak.streams.policies import POSITION, Form
from soak.streams.scenes import Scene
from soak.streams.simulation import SECOND, STOP, Refusal, Run, Step, simulate
from traj_integrator_ros.requests.inputs import Actions, Positions

pytestmark = [pytest.mark.slow, pytest.mark.thorough]  # random streams of these kinds are tested in every run
ALWAYS = {"finite", "position", "velocity", "acceleration", "jerk", "rest", "unfit"}
AT_S = FIRST_S + 1.0
"""Time at which something happens to a stream."""
Play = Callable[..., Run]


@pytest.fixture
def play() -> Play:
    def simulated(scene: Scene, *script: Step) -> Run:
        run = simulate(scene, script=script)
        assert not [str(failure) for failure in failures(run) if failure.invariant in ALWAYS]
        return run

    return simulated


def refusals(run: Run, since: float = 0.0) -> list[Refusal]:
    """Refusals of messages that arrived after a time."""
    answers = [(it.arrived_ns, it.answer) for it in run.answers] + run.scripted
    return [answer for at_ns, answer in answers if isinstance(answer, Refusal) and at_ns >= since * SECOND]


def commanded(run: Run, begin: float = 0.0, end: float = np.inf) -> np.ndarray:
    """Positions of the joint between two times, while there was a controller."""
    last = len(run.off) if np.isinf(end) else run.cycle(end)
    cycles = slice(run.cycle(begin), last)
    return run.commands[0, cycles, 0][~run.off[cycles]]


@pytest.mark.parametrize("complete", [True, False])
def test_noise_in_a_plan_that_ends_at_rest_leads_no_further_than_it_is(play: Play, complete: bool) -> None:
    scene = streaming(way_to(0.5), Form(POSITION, 0.02, 40, True, noise=1e-3), rate=50, seconds=2.0)
    run = play(replace(scene, complete=complete))
    assert commanded(run).max() <= 0.506 and (complete or abs(commanded(run)[-1] - 0.5) <= 6e-3)


# Starting and stopping


def test_velocities_begin_from_rest_as_a_teleoperator_sends_them(play: Play) -> None:
    limits = Bounds(np.array([2.175]), np.array([7.5]), np.array([3750.0]))
    run = play(replace(streaming_velocity(0.3, seconds=1.5), bounds=limits))
    assert not refusals(run)
    assert run.commands[1, run.cycle(AT_S), 0] == pytest.approx(0.3, rel=0.1)


A, J = LIMITS.acceleration[0], LIMITS.jerk[0]
FASTEST = 1 / (2 * A) + A / (2 * J) + 0.045
"""Distance to stop from 1 rad/s, rad, after the controller can know."""


@pytest.mark.parametrize(
    ("make", "longest"),
    [
        (lambda measured: Positions(0, [0], measured[:1]), 2 * FASTEST),
        (lambda measured: STOP, FASTEST),
        (lambda measured: None, 3.2 + FASTEST),
    ],
    ids=["one point", "stop", "silence"],
)
def test_a_robot_that_moves_at_1_rad_s_stops(play: Play, make: Callable, longest: float) -> None:
    scene = streaming_velocity(1.0, seconds=1.0, horizon=150)
    run = play(scene, Step(AT_S, lambda now_ns, measured: make(measured)))
    assert np.ptp(commanded(run, AT_S)) <= longest
    assert not run.scripted or not refusals(run, AT_S)


# Robots


def test_a_robot_that_lags_by_60_ms_moves_fast(play: Play) -> None:
    """Each chunk begins at the measured position, 0.12 rad behind the command, so it is slower than meant."""
    scene = streaming_velocity(1.9, seconds=2.0, rate=20, form=Form(POSITION, 0.02, 30, False))
    run = play(replace(scene, lag=0.06, bounds=LIMITS.times(1.25, 1.5, 2.0)))
    assert not refusals(run) and run.commands[1, run.cycle(FIRST_S + 1.9), 0] >= 0.8


@pytest.mark.parametrize("speed", [0.0, 0.3])
def test_a_robot_that_hangs_low_does_not_sink_in_ten_pauses(play: Play, speed: float) -> None:
    run = play(replace(streaming_velocity(speed, seconds=5.0, rate=10, pauses=10), droop=np.array([-0.02])))
    assert not refusals(run)
    assert (way_back(commanded(run)) if speed else np.ptp(commanded(run))) <= 1e-4


def test_a_plan_that_rests_soon_is_taken_while_the_robot_moves(play: Play) -> None:
    speed, begun = 0.5, 0.08  # for a way to rest that takes 0.2 s

    def make(now_ns: int, measured: np.ndarray) -> Actions:
        state = np.array([measured[0] - begun * speed, measured[1], [0.0]])
        rows = Way(0.0, state, state[0] + speed * 0.1, MEANT.times(1, 2, 4)).states(0.02 * np.arange(1, 13))[0]
        return Actions(now_ns - round(begun * SECOND), POSITION, 0.02, rows.astype(np.float32))

    assert not refusals(play(streaming_velocity(speed, seconds=1.0), Step(AT_S, make)), AT_S)
