"""A robot that is not there: follows joint trajectories as joint_trajectory_controller does, publishes joint_states.

Start the node, then `python examples/simulated_robot.py`. With `--lag 0.04` the joints follow their commands 40 ms
late, as real ones do. Other robots: `--joints a,b --position 0.0,0.5`.
"""

import argparse
from array import array

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_ros.joint_trajectory import TimedPoints, interpolate

RATE = 200  # joint states a second
PANDA = ",".join(f"panda_joint{i}" for i in range(1, 8))
READY = "0.0,-0.785,0.0,-2.356,0.0,1.571,0.785"  # rad


class SimulatedRobot(Node):
    """Quintic between points, as the controller; first-order lag behind the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__("simulated_robot")
        self.joints = options.joints.split(",")
        self.command = self.position = np.array([float(value) for value in options.position.split(",")])
        self.lag = options.lag
        self.points: TimedPoints | None = None
        self.begin = 0  # ns, when the trajectory starts
        self.states = self.create_publisher(JointState, "joint_states", 10)
        self.create_subscription(JointTrajectory, "traj_integrator/joint_trajectory", self.follow, 10)
        self.create_timer(1 / RATE, self.step)

    def follow(self, trajectory: JointTrajectory) -> None:
        """Replace what is being followed; a stamp of 0 means now."""
        columns = [trajectory.joint_names.index(name) for name in self.joints]
        time_ns = [point.time_from_start.sec * 10**9 + point.time_from_start.nanosec for point in trajectory.points]
        rows = [
            np.array([getattr(point, name) for point in trajectory.points])[:, columns]
            for name in ("positions", "velocities", "accelerations")
        ]
        stamp = trajectory.header.stamp
        self.begin = stamp.sec * 10**9 + stamp.nanosec or self.get_clock().now().nanoseconds
        self.points = TimedPoints(np.array(time_ns), *rows)

    def step(self) -> None:
        """Move by one step and tell."""
        now = self.get_clock().now()
        if self.points is not None and now.nanoseconds >= self.begin:
            elapsed = min(now.nanoseconds - self.begin, int(self.points.time_ns[-1]))  # holds the end
            self.command = interpolate(self.points, elapsed)[0]
        share = 1.0 if self.lag == 0 else 1 - np.exp(-1 / (RATE * self.lag))
        before, self.position = self.position, self.position + share * (self.command - self.position)
        state = JointState(name=self.joints, position=array("d", self.position))
        state.velocity = array("d", (self.position - before) * RATE)
        state.header.stamp = now.to_msg()
        self.states.publish(state)


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Stands in for a robot and its joint_trajectory_controller.")
    parser.add_argument("--joints", default=PANDA, help="names, with commas (default: those of a Panda)")
    parser.add_argument("--position", default=READY, help="where they are at first, rad (default: its ready pose)")
    parser.add_argument("--lag", type=float, default=0.0, help="s behind the command (default: 0)")
    options = parser.parse_args(remove_ros_args()[1:])
    rclpy.init()
    try:
        rclpy.spin(SimulatedRobot(options))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
