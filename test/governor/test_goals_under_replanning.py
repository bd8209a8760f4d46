"""Planners that replan from what they read reach their goals: errors do not grow from plan to plan."""

from __future__ import annotations

import numpy as np
import pytest
from ruckig import InputParameter, Ruckig, Trajectory

from kit.arm import Robot
from kit.controller import SECOND
from rig.simulated import Simulated
from soak.streams.core import NodeCore
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.inputs import Actions

GOAL, NEAR_RAD, SLOW_RAD_S = -0.6, 0.01, 0.02
PLANNED = {"max_velocity": [0.81], "max_acceleration": [3.0], "max_jerk": [60.0]}
LIMITS = {"velocity": 2.175, "acceleration": 15.0, "jerk": 7500.0, "position_min": -2.9, "position_max": 2.9}
TRANSPORT_S, DELAY_S, LEAD_S, SETTLING_S, LONGEST_S = 0.002, 0.05, 0.02, 0.1, 2.5


class Replanned(Simulated):
    """A planner that plans time-optimally from the command's position, velocity and perhaps acceleration to a goal."""

    def __init__(self, dt: float, reads_acceleration: bool, has_start: bool) -> None:
        self.dt, self.reads_acceleration, self.has_start = dt, reads_acceleration, has_start
        self.ideal_s = 0.0
        robot = Robot(["joint"], rate=500, lag=0.05, hard_replacement=True, interpolate_from_desired_state=True)
        limits = {f"limits.{name}": [most] for name, most in LIMITS.items()}
        core = NodeCore(["joint"], refuse=self._refused, start_from="previous", **limits)
        super().__init__(robot, core, states_hz=500, transport=(TRANSPORT_S, TRANSPORT_S))

    def replan(self) -> None:
        """Send a second of positions from the command on."""
        position, velocity, acceleration = np.ravel(self.robot.reference.parts)
        velocity, acceleration = np.clip(velocity, -0.8, 0.8), np.clip(acceleration, -3.0, 3.0)
        request, plan = InputParameter(1), Trajectory(1)
        for name, most in PLANNED.items():
            setattr(request, name, most)
        request.current_position, request.current_velocity = [position], [velocity]
        request.current_acceleration = [acceleration * self.reads_acceleration]
        request.target_position = [GOAL]
        Ruckig(1).calculate(request, plan)
        self.ideal_s = self.ideal_s or plan.duration
        times = np.minimum(self.dt * np.arange(1, round(1 / self.dt) + 1), plan.duration)
        rows = np.array([plan.at_time(time)[0] for time in times])
        start = [np.array([part], np.float32) for part in (position, velocity)] if self.has_start else ()
        actions = Actions(self._ns, ControlSpace.POSITION.value, self.dt, rows, start)
        self._later(self._ns + round(DELAY_S * SECOND), self.answer, actions)


@pytest.mark.parametrize("has_start", [False, True], ids=["no start", "start"])
@pytest.mark.parametrize("reads_acceleration", [False, True], ids=["no acceleration", "acceleration"])
@pytest.mark.parametrize(("rate", "dt"), [(20, 0.05), (50, 0.02)])
def test_a_goal_is_reached_by_a_planner_that_replans(
    rate: int, dt: float, reads_acceleration: bool, has_start: bool
) -> None:
    run = Replanned(dt, reads_acceleration, has_start)
    run.go(SETTLING_S)
    run.go(LONGEST_S, 1 / rate, run.replan)
    away = [abs(row.place[0] - GOAL) >= NEAR_RAD or abs(row.command[1, 0]) >= SLOW_RAD_S for row in run.rows]
    reached_s = run.rows[len(away) - 1 - away[::-1].index(True)].time - SETTLING_S
    # A planner that assumes an acceleration of 0 in each plan slows down later than it thinks, with any controller.
    slower = 1.5 if reads_acceleration else 1.7
    assert not run.refused and not any(sent.refusal for sent in run.sent)
    assert reached_s <= slower * run.ideal_s + 2 * LEAD_S < LONGEST_S
