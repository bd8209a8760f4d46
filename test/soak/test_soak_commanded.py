"""What the soak calls a fault of a command."""

from __future__ import annotations

import numpy as np
import pytest

from soak.commanded import Commanded
from traj_integrator_ros.execution.rows import Points, motion_of_points

JOINTS = ("a", "b", "c")
BEGIN_NS = 5_000_000_000


def robot(velocity: object = 1.0, acceleration: object = 10.0) -> Commanded:
    """A robot at rest at 0 that may be commanded so much."""
    return Commanded(JOINTS, *(values * np.ones(3) for values in (0.0, velocity, acceleration)), BEGIN_NS)


def take(commanded: Commanded, stamp_ns: int, sent: Points, now_ns: int) -> None:
    assert commanded.receive(JOINTS, *sent, now_ns=now_ns, stamp_ns=stamp_ns), commanded.refusal


def from_to(*positions: float, last_velocity: float = 0.0) -> Points:
    """From rest in a second: to rest at most 1.875 d and 5.77 d."""
    rows = np.repeat([positions, (0.0, last_velocity), (0.0, 0.0)], 3, axis=1).reshape(3, 2, 3)
    return Points(np.array([0, 10**9]), *rows)


def test_peaks_are_told_and_an_excess_between_points_is_a_fault() -> None:
    commanded = robot(velocity=[2.0, 1.8, 2.0], acceleration=[6.0, 6.0, 5.0])
    take(commanded, 0, from_to(0.0, 1.0), BEGIN_NS)
    commanded.judge(BEGIN_NS + 2_000_000_000)
    velocity, acceleration = commanded.faults
    assert velocity.startswith("commanded velocity of b: expected at most 1.8, got 1.875 0.5000 s into the motion")
    assert acceleration.startswith("commanded acceleration of c: expected at most 5, got 5.77")
    peaks = {"velocity": 1.875, "acceleration": 10 / np.sqrt(3), "of_limit": 10 / np.sqrt(3) / 5}
    assert {name: commanded.peaks[name] for name in peaks} == pytest.approx(peaks, rel=1e-3)
    assert commanded.peaks["jerk"] == pytest.approx(60.0, rel=1e-2)


def test_what_the_controller_refuses_is_a_fault_unless_it_is_over() -> None:
    commanded = robot()
    assert not commanded.receive(JOINTS, *from_to(0.0, 0.0, last_velocity=0.1), now_ns=BEGIN_NS)
    assert list(commanded.faults) == ["joint_trajectory: the controller refuses it: last velocity is 0.1, not 0"]
    assert not commanded.receive(JOINTS, *from_to(0.0, 1.0), now_ns=BEGIN_NS, stamp_ns=BEGIN_NS - 2 * 10**9)
    assert len(commanded.faults) == 1 and not commanded.taken


@pytest.mark.parametrize(("off", "arrived_ns"), [(0.0, 300), (1e-3, 320), (1e-3, 340)], ids=["no", "a", "a late"])
def test_a_jump_is_a_fault_unless_the_trajectory_came_after_its_own_start(off: float, arrived_ns: int) -> None:
    """The trajectory goes on with the motion from 0.32 s on, or beside it."""
    commanded = robot(velocity=3.0, acceleration=6.0)
    take(commanded, 0, from_to(0.0, 1.0), BEGIN_NS)
    rows = motion_of_points(from_to(0.0, 1.0)).states_at(np.array([0.32, 1.0]), 3)
    rows[0] += off
    rows[1:, -1] = 0.0  # but for rounding
    after = Points(np.array([0, 680_000_000]), *rows)
    take(commanded, BEGIN_NS + 320_000_000, after, BEGIN_NS + arrived_ns * 1_000_000)
    commanded.judge(BEGIN_NS + 1_000_000_000)
    assert (commanded.taken, commanded.late) == (2, arrived_ns > 320)
    assert [fault.split("got ")[1][:4] for fault in commanded.faults] == ["1005"] * (off > 0 and arrived_ns == 320)
    if arrived_ns != 320:
        assert commanded.peaks["acceleration"] == pytest.approx(10 / np.sqrt(3), rel=1e-3)
        assert commanded.peaks["jerk"] == pytest.approx(60.0, rel=1e-2), "the jump is no jerk either"
    assert commanded.peaks["late_jump"] == pytest.approx(1000.0 * (arrived_ns > 320), rel=1e-2)
