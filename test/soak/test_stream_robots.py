"""The robot that is evaluated in blocks commands what jtc.py and plant.py command, cycle by cycle."""

from __future__ import annotations

import numpy as np
import pytest

from soak.streams.robots import recorded_robots

BEGIN_NS, CYCLES = 10_000_000_000, 500


@pytest.fixture(scope="module")
def robots(models):
    return recorded_robots(models)


def random_message(random: np.random.Generator, dof: int, now: float) -> dict:
    count = int(random.integers(1, 12))
    columns = [random.normal(size=(count, dof)) for _ in range(3)]
    for rates in columns[1:]:
        rates[-1] = 0.0
    kind = random.integers(0, 4)
    if kind == 0:
        columns[2] = None
    if kind == 1:
        columns[1] = columns[2] = None
    stamp = float(random.choice([0.0, now + random.uniform(-0.05, 0.1)]))
    times = np.cumsum(random.integers(1_000_000, 60_000_000, count)) - int(random.random() < 0.5) * 1_000_000
    names = "times", "positions", "velocities", "accelerations"
    return dict(zip(names, (times, *columns), strict=True)) | {"stamp": stamp}


@pytest.mark.parametrize("seed", range(12))
def test_blocks_are_cycles(robots, seed):
    random = np.random.default_rng(seed)
    dof = int(random.integers(1, 4))
    joints = [f"joint{k}" for k in range(dof)]
    options = {
        "lag": float(random.choice([0.0, 0.013, 0.04])),
        "droop": random.normal(scale=0.01, size=dof),
        "noise": float(random.choice([0.0, 1e-4])),
        "quantization": float(random.choice([0.0, 1e-4])),
        "interpolate_from_desired_state": bool(random.integers(2)),
        "hard_replacement": True,
    }
    both = [robot(joints, begin_ns=BEGIN_NS, cycles=CYCLES, **options) for robot in robots]
    start = random.normal(size=dof)
    for robot in both:
        robot.set_state(start)
    off = -1
    for cycle in range(CYCLES):
        now = both[0].now_ns / 1e9
        if random.random() < 0.02:
            message = random_message(random, dof, now)
            taken = [robot.receive(joints, **message, now=now) for robot in both]
            assert taken[0] == taken[1]
        if random.random() < 0.004:
            off = cycle + 30
        if cycle == off:
            for robot in both:
                robot.restart()
        if random.random() < 0.004:
            for robot in both:
                robot.frozen = not robot.frozen
        for robot in both:
            robot.skip() if cycle < off else robot.step()
        if random.random() < 0.1:
            assert_equal_states(both)
    np.testing.assert_array_equal(both[0].off, both[1].off)
    scale = 1 + np.nanmax(np.abs(both[0].commands), axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(both[1].commands / scale, both[0].commands / scale, rtol=0, atol=1e-10)


def assert_equal_states(both) -> None:
    slow, fast = ([*reference, *feedback] for reference, feedback in (robot.controller_state() for robot in both))
    for one, other in zip(slow, fast, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-7 * (1 + np.abs(one).max()))
