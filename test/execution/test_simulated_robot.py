"""The simulated robot of the examples against the model of the controller: interpolation, schedule, replacement."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.ros  # the example imports rclpy


@pytest.mark.parametrize("from_command", [False, True], ids=["from measured", "from desired"])
@pytest.mark.parametrize("seed", range(2))
def test_the_simulated_robot_commands_what_the_controller_does(
    jtc, project_root: Path, monkeypatch, seed, from_command
):
    monkeypatch.syspath_prepend(project_root / "examples")
    robot = importlib.import_module("simulated_robot")
    random = np.random.default_rng(seed)
    joints, period = ["a", "b", "c"], 1_000_000
    start = random.normal(size=3)
    settings = {"hard_replacement": True, "allow_nonzero_velocity_at_trajectory_end": True}
    settings["interpolate_from_desired_state"] = from_command
    controller, playback = jtc.Controller(joints, rate=1000, **settings), robot.Playback(start)
    controller.set_state(start)
    for cycle in range(1500):
        now = 5_000_000_000 + cycle * period
        if random.random() < 0.01:
            count, known = int(random.integers(1, 6)), int(random.integers(1, 4))
            times = random.integers(1_000_000, 90_000_000, count).cumsum()
            times -= times[0] * int(random.integers(0, 2))  # half of them have a point at their start
            points = random.normal(size=(count, known, 3))
            stamp = 0 if random.random() < 0.4 else now + int(random.integers(-50_000_000, 50_000_000))
            fields = [points[:, k] if k < known else None for k in range(3)]
            accepted = controller.receive(joints, times, *fields, now=now * 1e-9, stamp=stamp * 1e-9)
            assert accepted == (not stamp or stamp + times[-1] >= now)
            playback.take(stamp, times, list(points), now)
        expected = controller.update(now * 1e-9)
        measured = None if from_command else playback.state.copy()  # the joints are at their commanded positions
        np.testing.assert_allclose(playback.command(now, now + period, measured), expected, rtol=1e-7, atol=1e-7)
