"""A simulated robot: follows joint trajectories as joint_trajectory_controller does, publishes joint_states.

Start the node, then `python examples/simulated_robot.py`. With `--lag 0.04` the joints follow their commands 40 ms
late, as real ones do; `--hand` adds the fingers of a Franka Hand to joint_states. Other robots: `--joints a,b
--position 0.0,0.5`.
"""

import argparse
import sys
from array import array
from pathlib import Path

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

sys.path.append(str(Path(__file__).resolve().parents[1]))

from kit.arm import Robot
from kit.controller import fields_of

RATE = 200  # cycles and joint states a second
PANDA = ",".join(f"panda_joint{i}" for i in range(1, 8))
FINGERS, FINGER_OPEN = ["panda_finger_joint1", "panda_finger_joint2"], 0.04  # m
READY = "0.0,-0.785,0.0,-2.356,0.0,1.571,0.785"  # rad


class SimulatedRobot(Node):
    """Executes trajectories; a new one replaces the old one at once."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__("simulated_robot")
        self.robot = Robot(
            options.joints.split(","),
            rate=RATE,
            lag=options.lag,
            hard_replacement=True,
            interpolate_from_desired_state=options.interpolate_from_desired_state,
        )
        self.robot.set_state([float(value) for value in options.position.split(",")])
        self.next_ns = 0  # the next cycle
        self.fingers = FINGERS if options.hand else []
        self.states = self.create_publisher(JointState, "joint_states", 10)
        self.create_subscription(JointTrajectory, "traj_integrator/joint_trajectory", self.follow, 10)
        self.create_timer(1 / RATE, self.step)

    def follow(self, trajectory: JointTrajectory) -> None:
        """Replace the current trajectory in the next cycle."""
        if not self.robot.receive(**fields_of(trajectory), now_ns=self.get_clock().now().nanoseconds):
            self.get_logger().warning(f"refuses a trajectory: {self.robot.refusal}")

    def step(self) -> None:
        """Move by the cycles that are due, and publish the joint state."""
        now = self.get_clock().now()
        if abs(now.nanoseconds - self.next_ns) > 10**9:  # at first, and where the clock was set
            self.next_ns = now.nanoseconds
        self.next_ns += self.robot.run(self.next_ns, now.nanoseconds + 1).shape[1] * self.robot.period
        position, velocity = self.robot.measured()
        still = np.zeros(len(self.fingers))
        state = JointState(name=[*self.robot.joints, *self.fingers])
        state.position = array("d", np.append(position, still + FINGER_OPEN))
        state.velocity = array("d", np.append(velocity, still))
        state.header.stamp = now.to_msg()
        self.states.publish(state)


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Stands in for a robot and its joint_trajectory_controller.")
    parser.add_argument("--joints", default=PANDA, help="names, with commas (default: a Panda's)")
    parser.add_argument("--position", default=READY, help="where they are at first, rad (default: its ready pose)")
    parser.add_argument("--lag", type=float, default=0.0, help="s behind the command (default: 0)")
    parser.add_argument("--hand", action="store_true", help="joint_states have the fingers of a Franka Hand too")
    parser.add_argument(
        "--interpolate-from-desired-state",
        action="store_true",
        help="trajectories are joined from the last command, not from the measured state: the controller's parameter",
    )
    options = parser.parse_args(remove_ros_args()[1:])
    rclpy.init()
    try:
        rclpy.spin(SimulatedRobot(options))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except RuntimeError:  # rclpy's RCLError, where Ctrl-C comes between two waits
        if rclpy.ok():
            raise
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
