"""Draws docs/figures/action_chunks.png: what a robot is told while a policy's action chunks replace each other.

Runs the node, examples/simulated_robot.py (40 ms behind its commands) and examples/action_chunks.py once for each
setting. Run `python docs/figures/action_chunks.py` in the project's environment.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from recording_session import example, isolated_environment, running
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.points import Points, motion_of_points
from traj_integrator_ros.motions.figures import BLUE, GREEN, MOTION_GREY, ORANGE, figure

LAG, JOINT, SECONDS = 0.04, "panda_joint2", 2.4
SETTINGS = (
    ("positions, start_from: measured", ORANGE, "position", "measured"),
    ("positions, start_from: previous", BLUE, "position", "previous"),
    ("increments, start_from: previous", GREEN, "increment", "previous"),
)


def main() -> None:
    """Record each setting and draw them side by side."""
    isolated_environment()
    runs = [record(kind, start_from) for _, _, kind, start_from in SETTINGS]
    with figure(Path(__file__).with_suffix(".png"), 15, 6.4) as drawn:
        panels = drawn.subplots(2, len(runs), sharex=True, sharey="row")
        for column, ((title, color, *_), run) in enumerate(zip(SETTINGS, runs, strict=True)):
            starts, command, measured = run
            grid = np.arange(starts[0], starts[0] + SECONDS, 0.002)
            positions, velocities = np.array([command(t) for t in grid]).T
            upper, lower = panels[:, column]
            upper.plot(measured[0] - starts[0], measured[1], color=MOTION_GREY, linewidth=4, label="measured")
            upper.plot(grid - starts[0], positions, color=color, linewidth=1.6, label="command")
            lower.plot(grid - starts[0], velocities, color=color, linewidth=1.6)
            for axes in (upper, lower):
                for start in starts[starts < grid[-1]]:
                    axes.axvline(start - starts[0], color="#BBBBBB", linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
            jumps = np.abs(np.array([command(t)[0] - command(t - 1e-6)[0] for t in starts[1:] if t < grid[-1]]))
            upper.set_title(f"{title}\nlargest jump of the command: {1e3 * jumps.max():.1f} mrad", loc="left")
            upper.legend(loc="lower right")
            lower.set_xlabel("time [s]")
            lower.set_xlim(0, SECONDS)
        panels[0, 0].set_ylabel("position [rad]")
        panels[1, 0].set_ylabel("velocity [rad/s]")


def record(kind: str, start_from: str) -> tuple[np.ndarray, object, np.ndarray]:
    """Run node, robot and policy; return the chunks' arrivals, the command over time, and times and positions measured.

    The command maps a time, s, to position and velocity, as the controller interpolates them.
    """
    with running({"start_from": start_from}), example("simulated_robot.py", "--lag", str(LAG)):
        trajectories, states = listen(kind)
    motions = [timed(message) for _, message in trajectories]
    # A trajectory takes over at its first point.
    arrivals = np.array([begin_of(message, arrival) for arrival, message in trajectories])

    def command(t: float) -> tuple[float, float]:
        index = max(0, int(np.searchsorted(arrivals, t, side="right")) - 1)
        state = motions[index].state_at(max(0.0, t - arrivals[index]))
        return state.position[0], state.velocity[0]

    return arrivals, command, np.array(states).T


def listen(kind: str) -> tuple[list[tuple[float, JointTrajectory]], list[tuple[float, float]]]:
    """Start the policy once the robot is heard; return trajectories and positions with their times of arrival, s."""
    rclpy.init()
    node = rclpy.create_node("listener")
    trajectories: list[tuple[float, JointTrajectory]] = []
    states: list[tuple[float, float]] = []
    node.create_subscription(
        JointTrajectory,
        "traj_integrator/joint_trajectory",
        lambda message: trajectories.append((time.time(), message)),
        10,
    )
    node.create_subscription(
        JointState,
        "joint_states",
        lambda message: states.append((time.time(), message.position[message.name.index(JOINT)])),
        10,
    )
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not states:
        executor.spin_once(timeout_sec=0.05)
    with example("action_chunks.py", "--kind", kind):
        while not trajectories or time.time() < trajectories[0][0] + SECONDS + 0.2:
            executor.spin_once(timeout_sec=0.05)
    rclpy.shutdown()
    return trajectories, states


def begin_of(message: JointTrajectory, arrival: float) -> float:
    """When the first point is due, s; without a stamp, times count from the arrival."""
    stamp, first = message.header.stamp, message.points[0].time_from_start
    begin = stamp.sec + 1e-9 * stamp.nanosec or arrival
    return begin + first.sec + 1e-9 * first.nanosec


def timed(message: JointTrajectory) -> Motion:
    """What the controller makes of the points of the one joint."""
    column = message.joint_names.index(JOINT)
    time_ns = [point.time_from_start.sec * 10**9 + point.time_from_start.nanosec for point in message.points]
    fields = ("positions", "velocities", "accelerations")
    parts = [
        np.array([[getattr(point, name)[column]] for point in message.points])
        if len(getattr(message.points[0], name))
        else None
        for name in fields
    ]
    return motion_of_points(Points(np.array(time_ns), *parts))


if __name__ == "__main__":
    main()
