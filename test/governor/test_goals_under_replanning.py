"""Planners that replan from what they read reach their goals: errors do not grow from plan to plan."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ruckig import InputParameter, Ruckig, Trajectory

from kit.arm import Robot
from kit.controller import SECOND
from soak.streams.core import NodeCore
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.inputs import Actions

GOAL, NEAR_RAD, SLOW_RAD_S = -0.6, 0.01, 0.02
PLANNED = {"max_velocity": [0.81], "max_acceleration": [3.0], "max_jerk": [60.0]}
LIMITS = {"velocity": 2.175, "acceleration": 15.0, "jerk": 7500.0, "position_min": -2.9, "position_max": 2.9}
TRANSPORT_S, LEAD_S, LONGEST_S = 0.002, 0.02, 2.5


class Planner:
    """Plans time-optimally to the goal from the command's position and velocity, and optionally its acceleration."""

    def __init__(self, dt: float, reads_acceleration: bool, has_start: bool) -> None:
        self.dt, self.reads_acceleration, self.has_start = dt, reads_acceleration, has_start
        self.ideal_s = 0.0

    def chunk(self, command: np.ndarray, now_ns: int) -> Actions:
        """A second of positions from a commanded state `[3]` on."""
        position, velocity, acceleration = command
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
        return Actions(now_ns, ControlSpace.POSITION.value, self.dt, rows, start)


@pytest.mark.parametrize("has_start", [False, True], ids=["no start", "start"])
@pytest.mark.parametrize("reads_acceleration", [False, True], ids=["no acceleration", "acceleration"])
@pytest.mark.parametrize(("rate", "dt"), [(20, 0.05), (50, 0.02)])
@pytest.mark.parametrize("delay", [0.05])
def test_a_goal_is_reached_by_a_planner_that_replans(
    delay: float, rate: int, dt: float, reads_acceleration: bool, has_start: bool
) -> None:
    limits = {f"limits.{name}": [most] for name, most in LIMITS.items()}
    node, planner = NodeCore(["joint"], start_from="previous", **limits), Planner(dt, reads_acceleration, has_start)
    robot = Robot(["joint"], rate=500, lag=0.05, hard_replacement=True, interpolate_from_desired_state=True)
    to_node: list[tuple[int, Actions]] = []
    to_robot: list[tuple[int, ExecutableTrajectory]] = []
    begin_ns, reached_s = 10 * SECOND + SECOND // 10, None

    def send(message: ExecutableTrajectory | None, now_ns: int) -> None:
        if message is not None:
            to_robot.append((now_ns + round(TRANSPORT_S * SECOND), message))

    for cycle in itertools.count():
        now_ns = 10 * SECOND + cycle * robot.period
        into_s = (now_ns - begin_ns) / SECOND
        while to_robot and to_robot[0][0] <= now_ns:
            message = to_robot.pop(0)[1]
            assert robot.receive(["joint"], *message.points, now_ns=now_ns, stamp_ns=message.stamp_ns)
        robot.update(now_ns)
        command = np.array(robot.controller_state()[0])[:, 0]
        node.joint_state(*robot.measured(), now_ns)
        if cycle % 10 == 0:
            node.controller_state(now_ns, robot.controller_state()[0], now_ns)
        if cycle % 5 == 0:
            send(node.tick(now_ns), now_ns)
        while to_node and to_node[0][0] <= now_ns:
            send(node.execute(to_node.pop(0)[1], now_ns), now_ns)
        if into_s >= 0 and cycle % (500 // rate) == 0:
            to_node.append((now_ns + round(delay * SECOND), planner.chunk(command, now_ns)))
        is_there = abs(robot.measured()[0][0] - GOAL) < NEAR_RAD and abs(command[1]) < SLOW_RAD_S
        reached_s = (reached_s or into_s) if is_there else None
        if into_s > LONGEST_S:
            break
    # A planner that assumes an acceleration of 0 in each plan slows down later than it thinks, with any controller.
    slower = 1.5 if reads_acceleration else 1.7
    assert reached_s is not None and reached_s <= slower * planner.ideal_s + 2 * LEAD_S
