"""The compiled steps of motions, which conftest.py compares with their reference: any input, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import motion_of_positions
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution import native
from traj_integrator_ros.execution.limits import extremes, keeps
from traj_integrator_ros.execution.motion import Motion, State, shifted, united
from traj_integrator_ros.execution.polynomials import quintics
from traj_integrator_ros.execution.rows import cubic_spline, points_of

SEEDS, DOF = st.integers(0, 10**6), st.integers(1, 10)


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 5), DOF, st.booleans(), SEEDS)
def test_motions_of_any_degree_and_their_states_points_and_parts(pieces, degree, dof, ends_at_rest, seed):
    random = np.random.default_rng(seed)
    whole_ns = random.integers(2 * 10**3, 10**8, pieces).cumsum()
    knots = np.append(0.0, whole_ns + random.choice([0.0, 0.4, -0.4], pieces)) * 1e-9
    motion = Motion(knots, random.normal(size=(pieces, degree + 1, dof)), ends_at_rest=ends_at_rest)
    times = np.concatenate([knots, knots[1:-1] - 5e-7, random.uniform(-0.1, 1.2, 9) * knots[-1]])
    for orders in (1, 3, 4):
        assert motion.states_at(times, orders).shape == (orders, len(times), dof)
    for time in times:
        motion.state_at(time)
        if 0 <= time < knots[-1]:
            motion.from_time(time)
    assert ends_at_rest == (not motion.end.velocity.any())
    points = points_of(motion)
    np.testing.assert_array_equal(points.time_ns[1:], whole_ns)
    assert not ends_at_rest or not points.velocity[-1].any()
    shifted(motion.coefficients[0], 0.3)
    other = Motion(np.array([0.0, 0.3, 0.4]), random.normal(size=(2, 4, dof)))
    for first, second in ((motion, other), (other, motion)):
        whole = first.then(second)
        extremes(whole)
    largest = np.abs(extremes(other)).max(axis=0) * random.uniform(0.5, 2, (4, dof))
    keeps(other, np.stack([-largest, largest]))


@settings(max_examples=50)
@given(st.sampled_from([1, 2, 3, 4, 32, 130]), DOF, st.booleans(), st.sampled_from([0.0, 0.03, 0.2, 5.0]), SEEDS)
def test_splines_and_motions_through_positions(count, dof, rests, fade_time, seed):
    random = np.random.default_rng(seed)
    start, positions = State(*random.normal(size=(3, dof))), random.normal(size=(count, dof))
    if rests:
        positions[-1] = [start.position, *positions][-2]
    for steps in (np.full(count, 0.02), random.uniform(0.005, 0.2, count)):
        cubic_spline(steps, np.vstack([start.position, positions]), ends_at_rest=rests)
        for begin in (start, start._replace(acceleration=None)):
            motion = motion_of_positions(steps, positions, begin, rest_tolerance=0.01, fade_time=fade_time)
            if motion.duration > 2 * fade_time and not rests:  # the fade at an end at rest may begin with it, rounded
                np.testing.assert_array_equal(motion.begin[:2], start[:2])


@settings(max_examples=50)
@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from([1e-9, 1e-7, 1e-5, 1e-2, 1.0]), SEEDS)
def test_tracks_with_knots_that_are_equal_closer_than_a_microsecond_and_further_apart(dof, most, longest, seed):
    random = np.random.default_rng(seed)
    tracks, times = {}, random.integers(1, 1000, (2, most)).cumsum(axis=1) * 1e-3 * longest
    for joint in range(dof):
        count = random.integers(1, most + 1)
        knots = random.integers(1, 1000, count).cumsum() * 1e-3 * longest + 3.3e-11  # in the middle of no others
        if joint > 0 and longest > 1e-6:  # next to those of another joint
            knots = np.unique(np.maximum(times[0, :count] + random.integers(-2000, 2000, count) * 1e-9, 1e-9))
        knots = np.append(0.0, knots)
        tracks[joint] = Motion(knots, random.normal(size=(len(knots) - 1, 6, 1)))
    united(tracks)
    others = quintics(np.full(3, 0.4 * longest), random.normal(size=(3, 4, dof)))
    for one in (others, others[:, :4].copy(), others[:, :, ::-1]):
        some = {joint: track for joint, track in tracks.items() if random.random() < 0.5}
        united(some, Motion(np.arange(4) * 0.4 * longest, one), ends_at_rest=False)


def refuses(step, *arguments):
    with pytest.raises(TypeError, match="float64"):
        step(*arguments)


COEFFICIENTS, KNOTS, TIMES = np.zeros((2, 4, 3)), np.arange(3) * 0.1, np.array([0.05, 0.1])
ROWS, ROW = np.zeros((3, 3)), np.zeros(3)
PIECES, PROFILE, STATE = np.zeros((2, 6, 1)), [0.1] * 8, np.array([0.0, 1.0, 0.0])
STATES = np.stack([STATE, STATE], axis=1)


def sevens(*shape: int, dtype: type = float) -> np.ndarray:
    """An array to be written, which shows where it has been."""
    return np.full(shape, 7, dtype)


CALLS = {
    "states_at": (COEFFICIENTS, KNOTS, TIMES, sevens(4, 2, 3)),
    "state_at": (COEFFICIENTS, KNOTS, 0.1, sevens(4, 3)),
    "the end": (COEFFICIENTS, KNOTS, None, sevens(3, 3)),
    "add": (ROWS, TIMES, sevens(2, 3, 3)),
    "points": (COEFFICIENTS, KNOTS, True, True, sevens(3, dtype=int), sevens(3, 3, 3)),
    "united": ([(KNOTS, PIECES)], TIMES, 1e-6, 0.01, sevens(15), sevens(14, 6, 1)),
    "blend": (COEFFICIENTS, KNOTS, COEFFICIENTS, KNOTS, ROWS, 0.2, KNOTS, sevens(2, 6, 3)),
    "spline": (KNOTS, ROWS, ROW, False, sevens(2, 4, 3)),
    "pieces_of_profile": (PROFILE, STATE, 0.3, STATE, False, sevens(5), sevens(4, 6, 1)),
    "stop": (STATES, np.ones(2), np.ones(2), 1e-6, 0.01, sevens(30), sevens(29, 6, 2)),
    "widen": (COEFFICIENTS, KNOTS, sevens(2, 4, 3)),
}
"""One that suits of each compiled function."""


def unfit(value: object) -> list[object]:
    """What is no such argument, though it is like it: arrays of another kind or shape, and integers for floats."""
    if not isinstance(value, np.ndarray):
        return [int(value)] if isinstance(value, float) else []
    apart, like = np.repeat(value, 2, axis=-1)[..., ::2], [value.astype(value.dtype.str[:-1] + "4"), value.tolist()]
    if is_written(value):
        return [apart, *like, frozen(value), *(np.repeat(value, 2, axis) for axis in {0, value.ndim - 1})]
    return [apart, *like, *(np.delete(value, 0, axis) for axis in {0, value.ndim - 1})]


def frozen(value: np.ndarray) -> np.ndarray:
    copy = value.copy()
    copy.flags.writeable = False
    return copy


def is_written(value: object) -> bool:
    return isinstance(value, np.ndarray) and bool((value == 7).all())


@pytest.mark.parametrize("name", CALLS)
def test_arrays_of_another_kind_or_shape_are_refused(name):
    function, suits = getattr(native, {"state_at": "states_at", "the end": "states_at"}.get(name, name)), CALLS[name]
    for place, value in enumerate(suits):
        for wrong in unfit(value):
            given = [np.array(other) if isinstance(other, np.ndarray) else other for other in suits]
            given[place] = wrong
            refuses(function, *given)
            assert all(is_written(x) for x, y in zip(given, suits, strict=True) if is_written(y) and x is not wrong)
    refuses(function, *suits[:-1])
    function(*(np.array(value) if isinstance(value, np.ndarray) else value for value in suits))


def test_what_does_not_belong_together_is_refused():
    rest = CALLS["united"][1:]
    for track in ((TIMES, PIECES), (KNOTS, ROWS), (KNOTS,), [KNOTS, PIECES], (KNOTS, PIECES[:, :, 0]), None):
        refuses(native.united, [track], *rest)
    for tracks in ([], [(KNOTS, PIECES)] * 2, ((KNOTS, PIECES),)):
        refuses(native.united, tracks, *rest)
    for profile in ([], [0.1] * 7, [0.1] * 12, [0.1] * 7 + [1], tuple(PROFILE)):
        refuses(native.pieces_of_profile, profile, *CALLS["pieces_of_profile"][1:])
    refuses(native.widen, np.zeros((2, 7, 3)), KNOTS, sevens(2, 4, 3))
    refuses(native.widen, np.zeros((2, 1, 3)), KNOTS, sevens(2, 4, 3))
    refuses(native.shift, frozen(ROWS), 0.1)
    refuses(native.shift, ROWS.copy(), 1)
    refuses(native.retreats, ROWS, ROWS, ROW, np.zeros((2, 2)), ROW > 0, 1.5, 1e-5, sevens(3))
    refuses(native.retreats, ROWS, ROWS, ROW, np.zeros((2, 3)), ROW, 1.5, 1e-5, sevens(3))
    assert native.all_finite(np.zeros(3, np.int64)) is None and native.all_finite([1.0]) is None
