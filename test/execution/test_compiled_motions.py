"""The compiled steps of motions against their reference: the same motions, the same points, the same verdicts."""

from __future__ import annotations

from types import BuiltinFunctionType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution import native, reference
from traj_integrator_ros.execution.join import difference_that_fades
from traj_integrator_ros.execution.limits import Limits, extremes, surely_keeps, worst_violation
from traj_integrator_ros.execution.motion import Motion, State, Track, quintics, shifted, united
from traj_integrator_ros.execution.points import points_of
from traj_integrator_ros.execution.profiles import Bounds, JointBounds, JointState, Reach, stop_tracks
from traj_integrator_ros.execution.reaching import Problem, retreats
from traj_integrator_ros.execution.rows import cubic_spline, motion_of_positions

pytestmark = pytest.mark.skipif(native.is_reference, reason="the compiled steps of motions are not built")
COMPILED = [name for name, value in vars(native).items() if isinstance(value, BuiltinFunctionType)]


@pytest.fixture(scope="module")
def numpys():
    """Within this context, numpy computes everything."""

    def run(function, *arguments, **named):
        with pytest.MonkeyPatch.context() as patch:
            for name in COMPILED:
                patch.setattr(native, name, getattr(reference, name))
            return function(*arguments, **named)

    return run


def agree(ours: Motion, numpys: Motion) -> None:
    np.testing.assert_array_equal(ours.knots, numpys.knots)
    assert ours.coefficients.shape == numpys.coefficients.shape
    assert (ours.with_accelerations, ours.ends_at_rest) == (numpys.with_accelerations, numpys.ends_at_rest)
    scale = ours.steps[:, None, None] ** np.arange(ours.degree + 1)[:, None]
    tolerance = 1e-11 * np.abs(numpys.coefficients * scale).max()
    np.testing.assert_allclose(ours.coefficients * scale, numpys.coefficients * scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 32, 130])
@pytest.mark.parametrize("fade_time", [0.0, 0.03, 0.2, 5.0])
@pytest.mark.parametrize("even", [True, False])
def test_the_motion_through_positions_is_numpys(numpys, count, fade_time, even):
    random = np.random.default_rng(count)
    steps = np.full(count, 0.02) if even else random.uniform(0.005, 0.2, count)
    for dof in (1, 7, 9):
        start = State(*random.normal(size=(3, dof)))
        positions = random.normal(size=(count, dof))
        for begin in (start, start._replace(acceleration=None)):
            for rows in (positions, np.vstack([positions[:-1], [start.position, *positions][-2:-1]])):
                arguments = (steps, rows, begin)
                settings = {"rest_tolerance": 0.01, "fade_time": fade_time}
                ours = motion_of_positions(*arguments, **settings)
                agree(ours, numpys(motion_of_positions, *arguments, **settings))
                if ours.duration > 2 * fade_time:  # otherwise the fade at the end begins with it, rounded
                    np.testing.assert_array_equal(ours.begin.position, start.position)
                    np.testing.assert_array_equal(ours.begin.velocity, start.velocity)


@pytest.mark.parametrize("count", [1, 2, 32, 130])
@pytest.mark.parametrize("ends_at_rest", [True, False])
def test_splines_with_open_ends_are_numpys(numpys, count, ends_at_rest):
    random = np.random.default_rng(0)
    for steps in (np.full(count, 0.05), random.uniform(0.01, 0.1, count)):
        arguments = steps, random.normal(size=(count + 1, 3))
        agree(
            cubic_spline(*arguments, ends_at_rest=ends_at_rest),
            numpys(cubic_spline, *arguments, ends_at_rest=ends_at_rest),
        )


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.3, 1.0, 1.5]))
def test_time_optimal_ways_and_stops_are_numpys(seed, velocity_only, speed):
    """At rest, on the move, and faster than allowed, when a brake comes before the way."""
    random = np.random.default_rng(seed)
    start, bounds = JointState(*(speed * random.uniform(-1, 1, 3))), JointBounds(-9.0, 9.0, 1.0, 5.0, 50.0)
    target = JointState(*(random.uniform(-0.3, 0.3, 3)))
    ours: list[list[Track]] = []
    with pytest.MonkeyPatch.context() as patch:
        for compiled in (True, False):
            if not compiled:
                patch.setattr(native, "pieces_of_profiles", reference.pieces_of_profiles)
            reach = Reach(start, bounds, velocity_only=velocity_only)
            duration = reach.least_duration(target, 1.0)
            tracks = [] if duration is None else [reach.track(target, np.ceil(duration * 1e9) * 1e-9)]
            state = State(*(np.array([value, 0.0]) for value in start))
            ours.append([*tracks, *stop_tracks(state, np.array([5.0, 5.0]), np.array([50.0, 50.0]))])
    for (knots, coefficients), (their_knots, theirs) in zip(*ours, strict=True):
        np.testing.assert_array_equal(knots, their_knots)
        np.testing.assert_allclose(coefficients, theirs, rtol=1e-9, atol=1e-9)


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 7), st.integers(1, 9), st.booleans(), st.integers(0, 10**6))
def test_states_points_parts_and_what_follows_are_numpys(numpys, pieces, degree, dof, ends_at_rest, seed):
    random, close = np.random.default_rng(seed), {"rtol": 1e-12, "atol": 1e-12}
    whole_ns = random.integers(2 * 10**3, 10**8, pieces).cumsum()
    knots = np.append(0.0, whole_ns + random.choice([0.0, 0.4, -0.4], pieces)) * 1e-9
    motion = Motion(knots, random.normal(size=(pieces, degree + 1, dof)), ends_at_rest=ends_at_rest)
    times = np.concatenate([knots, knots[1:-1] - 5e-7, random.uniform(-0.1, 1.2, 9) * knots[-1]])
    for orders in (1, 3, 4):
        got = motion.states_at(times, orders)
        assert got.shape == (orders, len(times), dof)
        np.testing.assert_allclose(got, numpys(motion.states_at, times, orders), **close)
    for time in times:
        np.testing.assert_allclose(motion.state_at(time), numpys(motion.state_at, time), **close)
        if 0 <= time < knots[-1]:
            agree(motion.from_time(time), numpys(motion.from_time, time))
    np.testing.assert_allclose(motion.end, numpys(lambda: motion.end), **close)
    assert ends_at_rest == (not motion.end.velocity.any())
    for got, wanted in zip(points_of(motion), numpys(points_of, motion), strict=True):
        np.testing.assert_allclose(got, wanted, **close)
    np.testing.assert_array_equal(points_of(motion).time_ns[1:], whole_ns)
    assert not ends_at_rest or not points_of(motion).velocity[-1].any()
    piece, states = motion.coefficients[0], random.normal(size=(3, pieces + 1, dof))
    np.testing.assert_array_equal(shifted(piece, 0.3), numpys(shifted, piece, 0.3))
    states[0] *= (knots[1] - knots[0]) ** 2
    np.testing.assert_allclose(quintics(states, knots), numpys(quintics, states, knots), rtol=1e-9)
    other = Motion(np.array([0.0, 0.3, 0.4]), random.normal(size=(2, 4, dof)))
    for first, second in ((motion, other), (other, motion)):
        agree(first.then(second), numpys(first.then, second))


@settings(max_examples=50)
@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from([1e-9, 1e-7, 1e-5, 1e-2, 1.0]), st.integers(0, 10**6))
def test_tracks_are_united_as_by_numpy(numpys, dof, most, longest, seed):
    """Knots that are equal, nearer to each other than a microsecond, and further away."""
    random = np.random.default_rng(seed)
    tracks, times = {}, random.integers(1, 1000, (2, most)).cumsum(axis=1) * 1e-3 * longest
    for joint in range(dof):
        count = random.integers(1, most + 1)
        knots = random.integers(1, 1000, count).cumsum() * 1e-3 * longest
        if joint > 0 and longest > 1e-6:  # next to those of another joint
            knots = times[0, :count] + random.integers(-2000, 2000, count) * 1e-9
        knots = np.append(0.0, knots)
        tracks[joint] = Track(knots, random.normal(size=(len(knots) - 1, 6)))
    agree(united(tracks), numpys(united, tracks))
    others = quintics(random.normal(size=(3, 4, dof)), np.arange(4) * 0.4 * longest)
    for one in (others, others[:, :4].copy(), others[:, :, ::-1]):
        rest = Motion(np.arange(4) * 0.4 * longest, one)
        some = {joint: track for joint, track in tracks.items() if random.random() < 0.5}
        agree(united(some, rest, ends_at_rest=False), numpys(united, some, rest, ends_at_rest=False))


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.sampled_from([1e-4, 1e-2, 1.0]))
def test_retreats_are_numpys(numpys, seed, moves):
    """Of joints that go forward, rest, ring and turn, ahead of their plans and behind them."""
    random = np.random.default_rng(seed)
    times = np.append(0.0, random.uniform(0.02, 0.3, 6).cumsum())
    plan = cubic_spline(np.diff(times), moves * random.normal(size=(7, 9)).cumsum(axis=0) * [0, 1e-3, *[1] * 7])
    present = State(plan.begin.position + moves * random.normal(size=9), *random.normal(size=(2, 9)))
    high = np.full(9, 10.0)
    bounds = Bounds(-100 * high, 100 * high, high, high, 10 * high)
    none, forwards = np.zeros(9, bool), random.random(9) < 0.3
    lack = np.zeros((3, 9))
    problem = Problem(
        plan, np.inf, None, present, present.acceleration, lack, bounds, high, forwards, ~none, 0.0, 0.2, None
    )
    way = cubic_spline(np.diff(times[:4]), present.position + moves * random.normal(size=(4, 9)).cumsum(axis=0))
    for joints in (np.arange(9), np.array([4])):
        one = Motion(way.knots, np.ascontiguousarray(way.coefficients[:, :, joints]))
        got = retreats(one, problem, joints)
        assert got.shape == joints.shape
        np.testing.assert_allclose(got, numpys(retreats, one, problem, joints), rtol=1e-12, atol=1e-15)


@settings(max_examples=100)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 10), st.floats(0.3, 30), st.integers(0, 10**6))
def test_a_motion_surely_keeps_what_numpy_says_it_keeps(pieces, degree, dof, share, seed):
    random = np.random.default_rng(seed)
    knots = np.append(0.0, random.uniform(0.1, 1, pieces).cumsum())
    motion = Motion(knots, random.normal(size=(pieces, degree + 1, dof)))
    largest = share * np.array([[1.0], [2.0], [6.0], [24.0]]) * random.uniform(0.5, 2, (4, dof))
    largest[random.integers(4)] = np.inf
    limits = Limits(-largest[0], largest[0], *largest[1:])
    ours = native.surely_keeps(motion.coefficients, motion.knots, *limits.slackened)
    violation = worst_violation(motion, limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "surely_keeps", reference.surely_keeps)
        assert worst_violation(motion, limits) == violation
    assert ours is not None and not (ours and violation)


@pytest.mark.parametrize("beyond", [-0.05, 0.05])
def test_a_line_keeps_a_position_up_to_where_it_goes(numpys, beyond):
    line = Motion(np.array([0.0, 0.5, 2.0]), np.array([[[0.3], [1.0]], [[0.8], [1.0]]]))
    for motion, low, high in (
        (line, -9.0, 2.3 - beyond),
        (line._replace(coefficients=-line.coefficients), beyond - 2.3, 9.0),
    ):
        lows, highs = (np.array([[bound], [1.0], [1.0], [1.0]]) for bound in (low, high))
        lows[1:] *= -1
        assert surely_keeps(motion, lows, highs) == numpys(surely_keeps, motion, lows, highs) == (beyond < 0)


@given(seed=st.integers(0, 10**6), pieces=st.integers(1, 9), dof=st.integers(1, 8), speed=st.sampled_from([0.0, 1, 9]))
def test_extremes_within_pieces_are_numpys(numpys, seed, pieces, dof, speed):
    """Where joints turn, and what is next to them."""
    rng = np.random.default_rng(seed)
    knots = np.append(0.0, rng.uniform(0.1, 1, pieces).cumsum())
    states = rng.normal(size=(3, pieces + 1, dof)) * np.array([1.0, speed, 3 * speed])[:, None, None]
    motion = Motion(knots, quintics(states, knots))
    for one in (motion, Motion(knots, rng.normal(size=(pieces, 2, dof)))):  # lines go as far as their coefficients say
        exact = numpys(extremes, one)
        np.testing.assert_allclose(extremes(one), exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


@given(seed=st.integers(0, 10**6), pieces=st.integers(1, 9), dof=st.integers(1, 8), span=st.floats(0.01, 2.0))
def test_a_difference_fades_from_what_is_lacking_to_nothing(numpys, seed, pieces, dof, span):
    rng = np.random.default_rng(seed)
    motions = [cubic_spline(rng.uniform(0.01, 0.3, 6), rng.normal(size=(7, dof)), np.zeros(dof)) for _ in range(2)]
    lack, knots = rng.normal(size=(3, dof)), np.r_[0.0, np.sort(rng.uniform(0, span, pieces - 1)), span]
    ours = Motion(knots, difference_that_fades(*motions, lack, span, knots))
    agree(ours, Motion(knots, numpys(difference_that_fades, *motions, lack, span, knots)))
    np.testing.assert_allclose(ours.begin, lack, rtol=1e-12)
    np.testing.assert_allclose(ours.end, np.zeros((3, dof)), atol=1e-6 * np.abs(ours.coefficients).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found_wherever_it_is(dtype, bad):
    for size in (1, 3, 8, 33):
        numbers = np.full(size, np.finfo(dtype).max, dtype)
        assert native.all_finite(numbers) and native.all_finite(numbers[::2]) and native.all_finite(numbers[:0])
        for place in range(size):
            wrong = numbers.copy()
            wrong[place] = bad
            assert not native.all_finite(wrong) and not native.all_finite(wrong.reshape(1, -1))


def refuses(step, *arguments):
    with pytest.raises(TypeError, match="float64"):
        step(*arguments)


COEFFICIENTS, KNOTS, TIMES = np.zeros((2, 4, 3)), np.arange(3) * 0.1, np.array([0.05, 0.1])
ROWS, ROW = np.zeros((3, 3)), np.zeros(3)
SPANS, BEGIN = [0.1, 0.2], (0.0, 1.0, 0.0)
ONE = Track(np.arange(3.0), np.zeros((2, 6)))


def sevens(*shape: int, dtype: type = float) -> np.ndarray:
    """An array to be written, which shows where it has been."""
    return np.full(shape, 7, dtype)


CALLS = {
    "states_at": (COEFFICIENTS, KNOTS, TIMES, sevens(4, 2, 3)),
    "state_at": (COEFFICIENTS, KNOTS, 0.1, sevens(4, 3)),
    "end": (COEFFICIENTS, KNOTS, sevens(3, 3)),
    "from_time": (COEFFICIENTS, KNOTS, 0.05, 1e-6, sevens(3), sevens(2, 4, 3)),
    "then": (COEFFICIENTS, KNOTS, COEFFICIENTS[:1], KNOTS[:2], sevens(4), sevens(3, 4, 3)),
    "points": (COEFFICIENTS, KNOTS, np.full(5, 1e-6), True, True, sevens(3, dtype=int), sevens(3, 3, 3)),
    "united": ({0: ONE}, None, None, 1e-6, 0.01, sevens(9), sevens(8, 6, 1)),
    "united with others": ({0: ONE}, COEFFICIENTS, KNOTS, 1e-6, 0.01, sevens(18), sevens(17, 6, 3)),
    "quintics": (KNOTS, np.zeros((3, 3, 3)), sevens(2, 6, 3)),
    "blend": (COEFFICIENTS, KNOTS, COEFFICIENTS, KNOTS, ROWS, 0.2, KNOTS, sevens(2, 6, 3)),
    "surely_keeps": (COEFFICIENTS, KNOTS, np.full((4, 3), -1.0), np.full((4, 3), 1.0)),
    "motion_through": (KNOTS, ROWS, ROW, None, False, 0, sevens(2, 4, 3)),
    "motion_through with a fade": (KNOTS, ROWS, ROW, ROW, False, 1, sevens(2, 6, 3)),
    "pieces_of_profiles": ([(SPANS, SPANS, BEGIN)], 0.3, BEGIN, False, sevens(1, 3), sevens(1, 2, 6)),
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
    function, suits = getattr(native, name.split(" ")[0].replace("state_at", "states_at")), CALLS[name]
    for place, value in enumerate(suits):
        for wrong in unfit(value):
            given = [np.array(other) if isinstance(other, np.ndarray) else other for other in suits]
            given[place] = wrong
            refuses(function, *given)
            assert all(is_written(x) for x, y in zip(given, suits, strict=True) if is_written(y) and x is not wrong)
    refuses(function, *suits[:-1])
    function(*(np.array(value) if isinstance(value, np.ndarray) else value for value in suits))


@pytest.mark.parametrize(
    ("name", "first"),
    [
        *(("united", tracks) for tracks in ({1: ONE}, {1 << 70: ONE}, {"0": ONE}, {0: [*ONE]}, [(0, ONE)], {})),
        ("united", {0: Track(KNOTS[:2], ONE.coefficients)}),
        *(("pieces_of_profiles", [profile]) for profile in ([SPANS, SPANS, BEGIN], (SPANS, SPANS[:1], BEGIN))),
        *(("pieces_of_profiles", [(SPANS, wrong, BEGIN)]) for wrong in (np.zeros(2), SPANS * 2)),
        *(("pieces_of_profiles", [profile]) for profile in ((SPANS, SPANS, BEGIN[:2]), ([], [], BEGIN))),
        ("pieces_of_profiles", [(SPANS, SPANS, BEGIN)] * 2),
        ("pieces_of_profiles", ((SPANS, SPANS, BEGIN),)),
        ("surely_keeps", np.zeros((2, 17, 3))),
    ],
)
def test_tracks_and_profiles_of_another_kind_are_refused(name, first):
    rest = CALLS[name][1:]
    refuses(getattr(native, name), first, *rest)
    assert all(is_written(value) for value in rest[-2:]) or name == "surely_keeps"
    refuses(native.shift, frozen(ROWS), 0.1)
    refuses(native.shift, ROWS.copy(), 1)
    assert native.all_finite(np.zeros(3, np.int64)) and native.all_finite([1.0])
