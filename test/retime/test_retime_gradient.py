"""The gradient of the duration: exact laws of scaling, and differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.retiming.paths import random_limits, random_path
from traj_integrator_ros.kernels.retime import MotionLimits, retime


def problem(seed: int, rows: int = 5, batch: int = 1) -> tuple[Tensor, dict[str, Tensor]]:
    rng = np.random.default_rng(seed)
    waypoints = torch.tensor(np.stack([random_path(rng, rows, 4) for _ in range(batch)]))
    limits = {name: torch.tensor(value).requires_grad_() for name, value in random_limits(rng, 4).items()}
    return waypoints.requires_grad_(), limits


def gradients(waypoints: Tensor, limits: dict[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    duration = retime(waypoints, MotionLimits(**limits)).duration
    of_waypoints, *of_limits = torch.autograd.grad(duration.sum(), [waypoints, *limits.values()])
    return duration.detach(), of_waypoints, dict(zip(limits, of_limits, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_the_laws_of_scaling_hold(seed: int) -> None:
    waypoints, limits = problem(seed)
    duration, of_waypoints, of_limits = gradients(waypoints, limits)
    by_log = {name: float((limits[name] * of_limits[name]).detach().sum()) for name in limits}
    accelerations = by_log["acceleration"] + by_log["deceleration"]
    # All motions k times as fast: the duration is divided by k.
    slower = by_log["velocity"] + 2 * accelerations + 3 * by_log["jerk"]
    assert slower == pytest.approx(-float(duration[0]), rel=1e-3)
    # All sizes k times as large, limits included: the same duration.
    larger = float((waypoints * of_waypoints).detach().sum()) + by_log["velocity"] + accelerations + by_log["jerk"]
    assert abs(larger) < 1e-3 * float(duration[0])
    assert of_waypoints.sum(dim=1).abs().max() < 1e-9 * of_waypoints.abs().sum()  # all rows moved together
    assert all((each <= 1e-9).all() for each in of_limits.values())  # larger limits: shorter


def test_repeated_rows_and_still_trajectories_have_gradients_too() -> None:
    waypoints, limits = problem(30, batch=2)
    with torch.no_grad():
        waypoints[0, 2] = waypoints[0, 1]
        waypoints[1] = waypoints[1, :1]
    _, of_waypoints, _ = gradients(waypoints, limits)
    assert torch.isfinite(of_waypoints).all()
    assert of_waypoints[0].abs().max() > 0
    assert of_waypoints[1].abs().max() == 0


def test_what_has_no_gradient_says_so() -> None:
    waypoints, limits = problem(40)
    bounds = MotionLimits(**limits)
    for options in ({"order": 2}, {"mode": "slow only", "dt": 0.5}, {"duration": 100.0}):
        with pytest.raises(NotImplementedError, match="gradients of the duration"):
            retime(waypoints, bounds, **options)
    motion = retime(waypoints, bounds)
    with pytest.raises(NotImplementedError, match="times and states: there are none"):
        motion.states(motion.row_times.detach())[0].sum().backward()
    (first,) = torch.autograd.grad(motion.duration.sum(), waypoints, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(first.sum(), waypoints)
    with torch.no_grad():
        assert not retime(waypoints, bounds, order=2).duration.requires_grad


def a_duration(waypoints: Tensor, velocity: Tensor, acceleration: Tensor, jerk: Tensor) -> Tensor:
    return retime(waypoints, MotionLimits(velocity=velocity, acceleration=acceleration, jerk=jerk)).duration


def some_limits() -> list[Tensor]:
    return [torch.tensor([value], dtype=torch.float64, requires_grad=True) for value in (1.0, 3.0, 30.0)]


@pytest.mark.parametrize(
    ("rows", "tolerance"),
    [
        ([[0.0], [0.3], [0.6], [0.3], [0.0]], 5e-3),
        ([[0.0], [0.6], [0.1], [0.5]], 5e-3),
        ([[0.0], [0.5], [0.55], [0.5], [0.0]], 5e-3),
        ([[0.0, 0.0], [0.5, 0.1], [0.1, 0.3], [0.6, 0.5]], 1e-2),
    ],
)
def test_it_passes_gradcheck_through_turns(rows: list[list[float]], tolerance: float) -> None:
    waypoints = torch.tensor(rows, dtype=torch.float64)[None].requires_grad_()
    given = waypoints, *some_limits()
    assert torch.autograd.gradcheck(a_duration, given, eps=1e-2, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("beyond", [0.05, 1e-3, 1e-5, 1e-9])
def test_a_turn_that_moves_costs_twice_its_way_at_full_speed(beyond: float) -> None:
    rows = [[0.0], [0.5], [0.5 + beyond], [0.5], [0.0]]
    waypoints = torch.tensor(rows, dtype=torch.float64)[None].requires_grad_()
    (found,) = torch.autograd.grad(a_duration(waypoints, *some_limits()).sum(), waypoints)
    assert found[0, [0, -1], 0].tolist() == pytest.approx([-1, -1], abs=5e-3)
    # Three rows form one turn: rounding decides which of them moves it.
    assert float(found[0, 1:-1].sum()) == pytest.approx(2, abs=5e-3)
    assert beyond < 1e-8 or float(found[0, 2, 0]) == pytest.approx(2, abs=5e-3)


@pytest.mark.parametrize("seed", range(8))
def test_joints_of_little_jerk_on_few_intervals_have_the_right_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    waypoints = torch.tensor(random_path(rng, 16, 30))[None].requires_grad_()
    limits = {name: torch.tensor(value) for name, value in random_limits(rng, 30).items()}
    jerk = limits.pop("jerk") * 1e-3

    def lasts(share: float) -> Tensor:
        motion = retime(waypoints, MotionLimits(**limits, jerk=share * jerk), intervals=4)
        assert motion.ok.all(), motion.reason(0)
        return motion.duration

    duration = lasts(1.0)
    (found,) = torch.autograd.grad(duration.sum(), waypoints)
    larger = float((waypoints * found).detach().sum())
    by_jerk = float((lasts(1.05) - lasts(0.95)).detach()) / 0.1
    assert larger == pytest.approx(float(duration.detach()) / 3, rel=1e-2)  # jerk alone binds
    assert by_jerk == pytest.approx(-larger, rel=0.2)


def test_trajectories_of_a_batch_have_their_own_gradients_and_share_limits() -> None:
    waypoints, limits = problem(20, batch=3)
    _, of_waypoints, of_limits = gradients(waypoints, limits)
    alone = [gradients(waypoints[b : b + 1].detach().requires_grad_(), limits) for b in range(3)]
    assert torch.equal(of_waypoints, torch.cat([each[1] for each in alone]))
    for name in limits:
        assert torch.allclose(of_limits[name], sum(each[2][name] for each in alone), rtol=1e-12)
