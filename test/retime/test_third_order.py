"""Times under limits of velocity, acceleration and jerk, and plans that are only slowed down."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.retiming.paths import as_limits, random_limits, random_path, sampled_ratios
from traj_integrator_ros.kernels.retime import RetimeStatus, retime


@pytest.mark.parametrize("rows", [2, 5, 14])
def test_limits_are_kept_and_used_everywhere(rows: int) -> None:
    rng = np.random.default_rng(rows)
    for _ in range(3):
        waypoints, limits = random_path(rng, rows), random_limits(rng)
        motion = retime(torch.tensor(waypoints)[None], as_limits(limits))
        assert motion.ok.all(), motion.reason(0)
        found = sampled_ratios(motion, 0, limits)
        assert found.max() <= 1 + 1e-6
        assert found.max() >= 0.995
        quicker = retime(torch.tensor(waypoints)[None], as_limits(limits), order=2)
        assert 1 <= float(motion.duration[0] / quicker.duration[0]) < 1.5


@pytest.mark.parametrize("length", [0.01, 0.5, 6.0])
def test_a_straight_line_takes_hardly_longer_than_the_optimum(length: float) -> None:
    ruckig = pytest.importorskip("ruckig")
    limits = {"velocity": [1.5], "acceleration": [4.0], "deceleration": [4.0], "jerk": [40.0]}
    state = ruckig.InputParameter(1)
    state.current_position, state.target_position = [0.0], [length]
    state.max_velocity, state.max_acceleration, state.max_jerk = [1.5], [4.0], [40.0]
    optimal = ruckig.Trajectory(1)
    ruckig.Ruckig(1).calculate(state, optimal)
    bounds = as_limits({name: np.array(value) for name, value in limits.items()})
    line = torch.tensor([[[0.0], [length]]], dtype=torch.float64)
    motion = retime(line, bounds, intervals=200)
    assert motion.ok.all()
    assert 1 - 1e-6 <= float(motion.duration[0]) / optimal.duration <= 1.03


def test_a_moving_start_is_kept_to_the_digit() -> None:
    rng = np.random.default_rng(9)
    waypoints, limits = torch.tensor(random_path(rng, 8))[None], random_limits(rng)
    speed = 0.3 * float(retime(waypoints, as_limits(limits), order=2).largest_start_speed[0])
    motion = retime(waypoints, as_limits(limits), start_speed=speed)
    assert motion.ok.all(), motion.reason(0)
    assert sampled_ratios(motion, 0, limits).max() <= 1 + 5e-4
    assert motion.velocity[0, 0].norm() == pytest.approx(speed, rel=1e-6)


def a_plan(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float, dict[str, np.ndarray]]:
    """Rows 20 ms apart that use their limits: positions, velocities, accelerations, step, limits."""
    rng = np.random.default_rng(seed)
    limits = random_limits(rng)
    limits["deceleration"] = limits["acceleration"]
    motion = retime(torch.tensor(random_path(rng, 5))[None], as_limits(limits), intervals=100)  # finer: it ripples more
    steps = int(float(motion.duration[0]) / 0.02)
    times = torch.linspace(0, float(motion.duration[0]), steps + 1, dtype=torch.float64)
    return (*motion.states(times), float(times[1]), limits)


def slowed(plan: tuple, factor: float):
    position, velocity, acceleration, dt, limits = plan
    powers = {"velocity": 1, "acceleration": 2, "deceleration": 2, "jerk": 3}
    bounds = {name: value / factor ** powers[name] for name, value in limits.items()}
    motion = retime(position, as_limits(bounds), mode="slow only", dt=dt, velocity=velocity, acceleration=acceleration)
    return motion, bounds


def test_a_plan_within_its_limits_comes_back_to_the_last_bit() -> None:
    position, velocity, acceleration, dt, _ = plan = a_plan(1)
    motion, _ = slowed(plan, 0.8)
    assert motion.unchanged.all() and motion.ok.all()
    assert torch.equal(motion.position, position)
    assert torch.equal(motion.velocity, velocity)
    assert torch.equal(motion.acceleration, acceleration)
    assert torch.allclose(motion.times[0], dt * torch.arange(position.shape[1], dtype=torch.float64), atol=1e-12)
    assert torch.equal(motion.row_times, motion.times)


@pytest.mark.parametrize("factor", [1.01, 1.1, 1.5])
def test_a_plan_beyond_its_limits_is_slowed_on_its_path_by_less_than_as_a_whole(factor: float) -> None:
    plan = a_plan(2)
    motion, bounds = slowed(plan, factor)
    assert motion.ok.all() and not motion.unchanged.any(), motion.reason(0)
    assert sampled_ratios(motion, 0, bounds).max() <= 1 + 5e-4
    original = plan[3] * (plan[0].shape[1] - 1)
    assert original < float(motion.duration[0]) < factor * original
    position, _, _ = motion.states(motion.row_times)
    assert torch.allclose(position, plan[0], atol=1e-6)
    assert (motion.row_times.diff() >= plan[3] * (1 - 1e-6)).all()


@pytest.mark.parametrize("order", [2, 3])
def test_a_burst_is_slowed_by_itself_and_the_rest_stays_to_the_last_bit(order: int) -> None:
    t = 0.02 * torch.arange(301, dtype=torch.float64)[:, None]
    burst = 0.02 * torch.exp(-(((t - 3.1) / 0.05) ** 2) / 2) * torch.tensor([1.0, 0.0])
    plan = (torch.sin(2 * np.pi * t / 6) ** 3 * torch.tensor([0.8, 0.3]) + burst)[None]
    limits = {"velocity": 1.5, "acceleration": 4.0, "deceleration": 4.0, "jerk": 120.0}
    motion = retime(plan, as_limits(limits), order=order, mode="slow only", dt=0.02)
    assert motion.ok.all() and not motion.unchanged.any(), motion.reason(0)
    bounds = {name: np.full(2, value) for name, value in limits.items()}
    assert sampled_ratios(motion, 0, bounds).max() <= 1 + 1e-6
    count, late = int(motion.count[0]), float(motion.duration[0]) - 6.0
    assert 0 < late < 0.1
    assert torch.equal(motion.position[0, :100], plan[0, :100])
    assert torch.equal(motion.position[0, count - 100 : count], plan[0, -100:])
    assert torch.allclose(motion.row_times[0, -100:], t[-100:, 0] + late, atol=1e-12)
    assert torch.allclose(motion.states(motion.row_times)[0], plan, atol=1e-6)
    jumps = motion.states(motion.times[:, 1:] - 1e-9)[1] - motion.velocity[:, 1:]
    assert jumps[:, : count - 1].abs().max() < 1e-6, "one motion"


def test_second_order_slows_down_only_too() -> None:
    position, _, _, dt, limits = a_plan(4)
    bounds = {name: value / (1.2 if name == "velocity" else 1.44) for name, value in limits.items()}
    motion = retime(position, as_limits(bounds), order=2, mode="slow only", dt=dt)
    assert motion.ok.all(), motion.reason(0)
    assert sampled_ratios(motion, 0, bounds).max() <= 1 + 5e-4
    assert dt * (position.shape[1] - 1) < float(motion.duration[0]) < 1.25 * dt * (position.shape[1] - 1)


def test_impossible_starts_are_refused() -> None:
    rng = np.random.default_rng(6)
    waypoints, limits = torch.tensor(random_path(rng, 4))[None], as_limits(random_limits(rng))
    motion = retime(waypoints, limits, start_speed=100.0)
    assert int(motion.status[0]) == RetimeStatus.START_TOO_FAST
    assert "too fast" in motion.reason(0)
