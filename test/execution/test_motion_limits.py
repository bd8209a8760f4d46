"""Limits of a motion: exact extremes, first violation, permitted violations."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import padded
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution.limits import Limits, extremes, keeps, worst_violation, worst_violations
from traj_integrator_ros.execution.motion import Motion


def a_motion(pieces: int, degree: int, dof: int, seed: int) -> Motion:
    random = np.random.default_rng(seed)
    return Motion(np.arange(pieces + 1) * 0.3, padded(random.normal(size=(pieces, degree + 1, dof))))


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 2), st.integers(0, 10**6))
def test_extremes_are_those_of_a_fine_sample(pieces, degree, dof, seed):
    motion = a_motion(pieces, degree, dof, seed)
    fine = motion.states_at(np.linspace(0, motion.duration, 30_001)[:-1])
    least, most = extremes(motion)
    rates = np.abs(fine).max()
    np.testing.assert_array_less(least - 1e-9, fine.min(axis=1))
    np.testing.assert_array_less(fine.max(axis=1), most + 1e-9)
    # Extremes that a sample misses lie at the end of a piece, where a derivative jumps, or where the curve is flat.
    np.testing.assert_allclose(least, fine.min(axis=1), atol=3e-3 * rates)
    np.testing.assert_allclose(most, fine.max(axis=1), atol=3e-3 * rates)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 10**6), st.floats(0.9, 1.1))
def test_a_violation_is_found_exactly_where_an_extreme_leaves_its_limit(pieces, degree, seed, share):
    motion = a_motion(pieces, degree, 2, seed)
    largest = np.abs(extremes(motion)).max(axis=0)
    begin = np.abs(motion.states_at(np.zeros(1)))[:, 0]
    for order, quantity in enumerate(("velocity", "acceleration", "jerk"), start=1):
        bound = largest[order] * share
        if not (bound > 0).all():
            continue
        found = worst_violation(motion, Limits(**{quantity: bound}))
        excused = np.zeros(2, bool) if order == 3 else begin[order] >= largest[order] * (1 - 1e-9)
        expected = share > 1.0001 or bool(excused.all())
        if share < 0.9999 and not excused.any():
            assert found is not None and found.quantity == quantity
            assert abs(found.value) > bound[found.joint] == abs(found.bound)
            others = largest[order] / bound - 1
            assert excused.any() or found.excess == pytest.approx(others.max(), rel=1e-6), "the worst is named"
            piece_value = motion.states_at(np.array([min(found.time, motion.duration * (1 - 1e-12))]))
            if 0 < found.time < motion.duration:
                near = np.abs(piece_value[order, 0, found.joint] - found.value)
                at_knot = np.abs(motion.knots - found.time).min() < 1e-9
                assert at_knot or near <= 1e-6 * max(1, abs(found.value))
        elif expected:
            assert found is None


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(2, 5), st.integers(0, 10**6), st.floats(0.5, 1.5), st.floats(0.5, 1.5))
def test_a_joint_may_use_its_deceleration_and_its_acceleration(pieces, degree, seed, share, other):
    motion = a_motion(pieces, degree, 2, seed)
    fine = motion.states_at(np.linspace(0, motion.duration, 20_001)[1:-1])
    forward = fine[2] * np.sign(fine[1])
    speeding, slowing = np.maximum(forward.max(axis=0), 0.1), np.maximum(-forward.min(axis=0), 0.1)
    begin = np.abs(motion.begin.acceleration)
    # The motion begins inside, where it may be beyond.
    share, other = (max(part, (begin / size).max() / 0.9) for part, size in ((share, speeding), (other, slowing)))
    limits = Limits(acceleration=speeding * share, deceleration=slowing * other)
    found = worst_violation(motion, limits)
    if found is None:
        assert share > 0.99 and other > 0.99
    else:
        least = {"acceleration": share, "deceleration": other}[found.quantity]
        assert least < 1.03 and found.value > found.bound > 0, "what a sample misses is little"
        value = motion.states_at(np.array([min(found.time, motion.duration * (1 - 1e-12))]))[2, 0, found.joint]
        at_knot = np.abs(motion.knots - found.time).min() < 1e-9
        assert at_knot or abs(value) == pytest.approx(found.value, rel=1e-6)


def test_the_peak_between_two_points_is_found_with_its_time_joint_and_size():
    # 0 at both ends with velocity 1 in and out: the position peaks in between, where no point is.
    motion = Motion(np.array([0.0, 1.0]), padded(np.array([[[0.0, 0.0], [0.0, 4.0], [0.0, -4.0]]])))
    found = worst_violation(motion, Limits(position_max=np.array([1.0, 0.9])))
    assert (found.joint, found.quantity, found.bound) == (1, "position", 0.9)
    assert found.time == pytest.approx(0.5) and found.value == pytest.approx(1.0)
    assert worst_violation(motion, Limits(position_max=np.array([1.0, 1.0]))) is None
    turned = Motion(motion.knots, -motion.coefficients)
    below = worst_violation(turned, Limits(position_min=np.array([-1.0, -0.9]), position_max=np.ones(2)))
    assert (below.joint, below.bound) == (1, -0.9) and below.value == pytest.approx(-1.0)


def test_points_microseconds_apart_show_no_violation_of_jerk():
    limits = Limits(jerk=np.array([100.0]))
    for step, beyond, excused in ((5e-6, 50.0, True), (1e-4, 17.0, True), (1e-4, 20.0, False), (0.02, 0.2, False)):
        motion = Motion(np.array([0.0, step]), padded(np.array([2.0, 0.0, 0.0, (100.0 + beyond) / 6])[None, :, None]))
        (found,) = worst_violations(motion, limits)
        assert found.value == pytest.approx(100.0 + beyond)
        assert (not worst_violations(motion, limits, of_points=True)) is excused


def test_what_the_robot_does_already_is_not_planned():
    moving = Motion(np.array([0.0, 1.0, 2.0]), padded(np.array([[[0.0], [2.0], [-0.5]], [[1.5], [1.0], [0.0]]])))
    assert worst_violation(moving, Limits(velocity=np.array([1.0]))) is None
    faster = Motion(np.array([0.0, 1.0]), padded(np.array([[[0.0], [2.0], [0.5]]])))
    assert worst_violation(faster, Limits(velocity=np.array([1.0]))).value == pytest.approx(3)


@pytest.mark.parametrize("slack", [0.0, 1e-3])
def test_infinite_and_missing_limits_are_none(slack):
    motion = a_motion(3, 3, 2, 0)
    infinite = Limits(velocity=np.full(2, np.inf), jerk=np.full(2, np.inf), slack=slack)
    assert worst_violation(motion, Limits()) is None
    assert worst_violation(motion, infinite) is None


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("order", range(4))
def test_a_motion_keeps_its_extremes_and_nothing_less(order, side):
    for seed in range(50):
        motion = a_motion(3, 1 + seed % 5, 2, seed)
        ranges = extremes(motion)
        assert keeps(motion, ranges + np.array([[[-1e-9]], [[1e-9]]]))
        ranges[side, order] -= (2 * side - 1) * 1e-6 * np.abs(ranges[:, order]).max(axis=0, initial=1e-2)
        assert not keeps(motion, ranges)


def test_a_coefficient_that_is_rounding_hides_no_extreme():
    for seed in range(40):
        motion = a_motion(1, 5, 1, seed)
        motion.coefficients[:, 5] *= 1e-16
        np.testing.assert_allclose(extremes(motion), extremes(Motion(motion.knots, padded(motion.coefficients[:, :5]))))
