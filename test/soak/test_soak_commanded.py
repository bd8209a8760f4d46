"""What the soak calls a fault of a command."""

from __future__ import annotations

import numpy as np
import pytest

from soak.commanded import Commanded
from traj_integrator_ros.execution.rows import Points

JOINTS = ("a", "b", "c")
BEGIN_NS = 5_000_000_000


def robot(position: object = 0.0, velocity: object = 1.0, acceleration: object = 10.0) -> Commanded:
    """A robot at rest that may be commanded so much."""
    rows = (np.broadcast_to(np.asarray(values, float), 3).copy() for values in (position, velocity, acceleration))
    at, *limits = rows
    return Commanded(at, JOINTS, *limits, BEGIN_NS)


def points(time_ns: object, *columns: object) -> Points:
    """Positions, and what else there is of velocity and acceleration."""
    rows = [np.asarray(column, float) for column in columns]
    return Points(np.asarray(time_ns, np.int64), *rows, *[None] * (3 - len(rows)))


def quintic(duration_s: float, distance: float) -> Points:
    """From rest to rest: at most 1.875 d / T and 5.77 d / T^2."""
    time_ns = [0, round(duration_s * 1e9)]
    return points(time_ns, [[0.0] * 3, [distance] * 3], np.zeros((2, 3)), np.zeros((2, 3)))


def test_the_peaks_are_those_of_the_commands() -> None:
    commanded = robot(velocity=2.0, acceleration=6.0)
    commanded.take(0, quintic(1.0, 1.0), BEGIN_NS)
    commanded.judge(BEGIN_NS + 2_000_000_000)
    assert not commanded.faults
    assert commanded.peaks["velocity"] == pytest.approx(1.875, rel=1e-3)
    assert commanded.peaks["acceleration"] == pytest.approx(10 / np.sqrt(3), rel=1e-3)
    assert commanded.peaks["of_limit"] == pytest.approx(10 / np.sqrt(3) / 6, rel=1e-3)
    assert commanded.peaks["jerk"] == pytest.approx(60.0, rel=5e-3)


def test_a_piece_shorter_than_a_cycle_has_no_jerk_of_its_own() -> None:
    """Joined 50 ns before its first point, where rounding to nanoseconds has left a difference."""
    commanded = robot()
    off = [[1e-10] * 3] * 2
    commanded.take(BEGIN_NS + 50, points([0, 10**9], off, np.zeros((2, 3)), np.zeros((2, 3))), BEGIN_NS)
    commanded.judge(BEGIN_NS + 10**9)
    assert not commanded.faults and commanded.peaks["jerk"] < 1e-3


def test_what_leaves_a_limit_between_the_points_is_a_fault() -> None:
    commanded = robot(velocity=[2.0, 1.8, 2.0], acceleration=[6.0, 6.0, 5.0])
    commanded.take(0, quintic(1.0, 1.0), BEGIN_NS)
    commanded.judge(BEGIN_NS + 1_000_000_000)
    velocity, acceleration = commanded.faults
    assert velocity.startswith("commanded velocity of b: expected at most 1.8, got 1.875 0.5000 s into the motion")
    assert acceleration.startswith("commanded acceleration of c: expected at most 5, got 5.77")


@pytest.mark.parametrize("late_ns", [0, 20_000_000])
def test_a_jump_is_a_fault_unless_the_trajectory_came_after_its_own_start(late_ns: int) -> None:
    commanded = robot()
    stamp_ns = BEGIN_NS + 1_000_000
    start = [[0.001] * 3] * 2
    sent = points([0, 1_000_000_000], start, np.zeros((2, 3)), np.zeros((2, 3)))
    commanded.take(stamp_ns, sent, stamp_ns + late_ns)
    commanded.judge(BEGIN_NS + 1_000_000_000)
    if late_ns:
        assert (commanded.late, commanded.faults) == (1, {})
        assert commanded.peaks["late_jump"] == pytest.approx(1000.0)
    else:
        (fault,) = commanded.faults
        assert fault.endswith("got 1000 0.0000 s into the motion (a jump)")
        assert commanded.late == 0 and commanded.peaks["acceleration"] == pytest.approx(1000.0)


def test_a_future_trajectory_that_continues_the_motion_leaves_no_trace() -> None:
    commanded = robot(velocity=2.0, acceleration=6.0)
    commanded.take(0, quintic(1.0, 1.0), BEGIN_NS)
    meant = [commanded.at(BEGIN_NS + at_ns) for at_ns in (320_000_000, 1_000_000_000)]
    rows = [np.stack([state[k] for state in meant]) for k in range(3)]
    commanded.take(BEGIN_NS + 320_000_000, points([0, 680_000_000], *rows), BEGIN_NS + 300_000_000)
    commanded.judge(BEGIN_NS + 1_000_000_000)
    assert (commanded.taken, commanded.late, commanded.faults) == (2, 0, {})
    assert commanded.peaks["acceleration"] == pytest.approx(10 / np.sqrt(3), rel=1e-3)
