"""Paths that turn back are timed within what jerk explains, at any distance of the rows around the turn.

`python -m benchmarks.retiming turning` has other random ones, and prints how much longer they take.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.retiming.paths import as_limits
from benchmarks.retiming.turning import FAMILIES, time_path, turning_paths
from traj_integrator_ros.kernels.retime import MotionLimits, RetimeStatus, retime

LIMITS = MotionLimits(velocity=1.0, acceleration=3.0, jerk=30.0)
EACH = 200 // len(FAMILIES)
MEDIAN = 1.2
"""Ratio of order 3 to order 2 in all paths; a third of them are 2 % as large as the others and vary most."""
_THERE = np.array([[0.1, 0.2, 0.3], [0.4, 0.0, 0.0], [0.8, -0.3, -0.4]])


def durations(way: np.ndarray) -> tuple[float, float]:
    """Durations for order 3 and order 2."""
    waypoints = torch.tensor(way.reshape(1, len(way), -1))
    found = [retime(waypoints, LIMITS, order=order) for order in (3, 2)]
    assert all(bool(each.ok[0]) for each in found)
    assert bool(found[0].row_times.isfinite().all())
    assert float(found[0].ratio.max()) <= 1 + 1e-3
    three, two = (float(each.duration[0]) for each in found)
    return three, two


def doubled(apart: float, toward: tuple[float, float, float]) -> Tensor:
    """There and back, with two rows at the turn, so far apart: the curvature jumps between them."""
    return torch.tensor(np.concatenate([_THERE, _THERE[-1:] + apart * np.array(toward), _THERE[-2::-1]]))[None]


@pytest.mark.parametrize("beyond", [1e-2, 1e-3, 1e-5, 1e-7, 1e-9])
def test_a_row_at_any_distance_behind_a_turn_costs_no_time(beyond: float) -> None:
    three, two = durations(np.array([0, 0.5, 0.5 + beyond, 0.5, 0]))
    assert three < 1.08 * two


@pytest.mark.parametrize("step", [0.1, 0.05, 0.02, 0.01, 0.005])
def test_a_swing_takes_as_long_however_densely_it_is_sampled(step: float) -> None:
    three, two = durations(0.3 * np.sin(2 * np.arange(0, 2, step)))
    assert three < 1.1 * two


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1])
def test_paths_that_turn_take_what_jerk_explains(seed: int) -> None:
    found = [time_path(turning) for family in FAMILIES for turning in turning_paths(family, EACH, seed)]
    failures = [(each.problem.family, index % EACH, each.failure) for index, each in enumerate(found) if each.failure]
    assert not failures
    moved = [each for each in found if each.bent > 0]
    assert np.median([float(each.motion.duration[0]) / each.second_order for each in moved]) <= MEDIAN


@pytest.mark.parametrize("family", FAMILIES)
def test_a_single_joint_takes_hardly_longer_than_the_optimum(family: str) -> None:
    optimum = pytest.importorskip("benchmarks.retiming.optimum", exc_type=ImportError)
    compared = 0
    for turning in turning_paths(family, 30, 7):
        way = turning.waypoints
        if way.shape[1] > 1 or np.ptp(way) == 0 or len(turns := optimum.turns_of(way[:, 0])) > 9:
            continue
        lasts = float(retime(torch.tensor(way)[None], as_limits(turning.limits)).duration[0])
        assert lasts <= 1.03 * optimum.shortest(way[:, 0], turning.limits), turns
        compared += 1
    assert compared > 3


@pytest.mark.parametrize("rows", [11, 21, 155])
@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_joints_that_go_back_the_way_they_came_pass_the_turn(rows: int, noise: float) -> None:
    part = 1 - np.abs(np.linspace(-1, 1, rows))
    part = part**3 * (10 - 15 * part + 6 * part**2)
    arc = np.stack([np.sin(1.2 * part), 1 - np.cos(1.2 * part), 0.3 * part], 1)
    three, two = durations(arc + noise * np.random.default_rng(0).normal(size=arc.shape) * (rows < 100))
    assert three < 1.06 * two


@pytest.mark.parametrize("toward", [(0, 1, 0), (1, 0, 0), (1, 1, 1)])
@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7, 1e-8])
def test_a_row_that_is_doubled_at_a_turn_costs_a_rest_at_most(apart: float, toward: tuple) -> None:
    limits = {"velocity": 2.0, "acceleration": 5.0}
    motion = retime(doubled(apart, toward), MotionLimits(**limits, jerk=50.0))
    assert motion.ok.all(), motion.reason(0)
    assert float(motion.duration[0]) < 2.5
    quick = retime(doubled(apart, toward), MotionLimits(**limits), order=2)
    assert bool(torch.isfinite(quick.duration).all())
    if apart > 1e-8:
        assert quick.ok.all()


def test_a_motion_with_rests_says_so_and_has_the_right_gradient() -> None:
    waypoints = doubled(1e-5, (0, 1, 0)).requires_grad_()
    limits = {"velocity": 2.0, "acceleration": 5.0, "jerk": 50.0}
    given = {name: torch.tensor([value], dtype=torch.float64, requires_grad=True) for name, value in limits.items()}
    motion = retime(waypoints, MotionLimits(**given))
    assert motion.status.tolist() == [RetimeStatus.WITH_RESTS] and "rests in between" in motion.reason(0)
    of_waypoints, *of_limits = torch.autograd.grad(motion.duration.sum(), [waypoints, *given.values()])
    by_log = dict(zip(given, (float(g) * limits[name] for name, g in zip(given, of_limits, strict=True)), strict=True))
    faster = by_log["velocity"] + 2 * by_log["acceleration"] + 3 * by_log["jerk"]
    assert faster == pytest.approx(-float(motion.duration.detach()), rel=2e-3)
    assert bool(torch.isfinite(of_waypoints).all())
