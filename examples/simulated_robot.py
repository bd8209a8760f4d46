"""A simulated robot: follows joint trajectories as joint_trajectory_controller does, publishes joint_states.

Start the node, then `python examples/simulated_robot.py`. With `--lag 0.04` the joints follow their commands 40 ms
late, as real ones do; `--hand` adds the fingers of a Franka Hand to joint_states. Other robots: `--joints a,b
--position 0.0,0.5`.
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

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.tools.controller_model import ControllerModel, scheduled_points

RATE = 200  # cycles and joint states a second
CYCLE_NS = 10**9 // RATE
PANDA = ",".join(f"panda_joint{i}" for i in range(1, 8))
FINGERS, FINGER_OPEN = ["panda_finger_joint1", "panda_finger_joint2"], 0.04  # m
READY = "0.0,-0.785,0.0,-2.356,0.0,1.571,0.785"  # rad


class SimulatedRobot(Node):
    """Executes trajectories, with a first-order lag behind the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__("simulated_robot")
        self.joints = options.joints.split(",")
        self.position = np.array([float(value) for value in options.position.split(",")])
        self.velocity = self.still = np.zeros_like(self.position)
        self.controller = ControllerModel(
            State(self.position, self.still, self.still),
            from_desired=options.interpolate_from_desired_state,
            cycle_ns=CYCLE_NS,
        )
        self.waiting: tuple[int, Points] | None = None
        self.lag = options.lag
        self.fingers = FINGERS if options.hand else []
        self.states = self.create_publisher(JointState, "joint_states", 10)
        self.create_subscription(JointTrajectory, "traj_integrator/joint_trajectory", self.follow, 10)
        self.create_timer(1 / RATE, self.step)

    def follow(self, trajectory: JointTrajectory) -> None:
        """Replace the current trajectory in the next cycle."""
        self.waiting = scheduled_points(trajectory, self.joints)

    def step(self) -> None:
        """Move by one step and publish the joint state."""
        now = self.get_clock().now()
        if self.waiting is not None:
            self.controller.take(*self.waiting, now.nanoseconds, State(self.position, self.velocity, self.still))
            self.waiting = None
        command = self.controller.at(now.nanoseconds + CYCLE_NS).position
        share = 1.0 if self.lag == 0 else 1 - np.exp(-1 / (RATE * self.lag))
        before, self.position = self.position, self.position + share * (command - self.position)
        self.velocity = (self.position - before) * RATE
        still = np.zeros(len(self.fingers))
        state = JointState(name=[*self.joints, *self.fingers])
        state.position = array("d", np.append(self.position, still + FINGER_OPEN))
        state.velocity = array("d", np.append(self.velocity, still))
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
