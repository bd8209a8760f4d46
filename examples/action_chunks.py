"""A policy that emits overlapping action chunks: every 0.3 s, 16 actions of 50 ms, of which about 6 are executed.

Start the node and a robot (examples/simulated_robot.py), then `python examples/action_chunks.py`. With the node's
parameter start_from = previous each trajectory begins where the one before it has come to.
"""

import argparse
from array import array

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.time import Time
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence

HORIZON, STEP, PERIOD = 16, 0.05, 0.3  # actions in a chunk, s for each, s between two chunks
REACH, PACE, SWITCH = 0.15, 0.8, 3.0  # rad, s, s between two goals


def policy(position: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Stand in for a network: joint positions `[horizon, dof]` that approach the goal from where the robot was seen."""
    share = 1 - np.exp(-STEP * np.arange(1, HORIZON + 1) / PACE)
    return position + share[:, None] * (goal - position)


class ActionChunks(Node):
    """Observes, runs the policy, sends what it says as positions, velocities or increments."""

    def __init__(self, kind: str) -> None:
        super().__init__("action_chunks")
        self.kind = kind
        self.state: JointState | None = None
        self.home = np.zeros(0)
        self.sent = 0
        self.actions = self.create_publisher(ActionSequence, "traj_integrator/action_sequence", 1)
        self.create_subscription(JointState, "joint_states", self.on_joint_state, qos_profile_sensor_data)
        self.create_subscription(JointTrajectory, "traj_integrator/joint_trajectory", self.on_trajectory, 1)
        self.create_timer(PERIOD, self.send_chunk)

    def on_joint_state(self, state: JointState) -> None:
        """Remember the newest; what was first is home."""
        if self.state is None:
            self.home = np.asarray(state.position)
        self.state = state

    def send_chunk(self) -> None:
        """Run the policy on the newest observation and send what of its chunk is still to come."""
        if self.state is None:
            self.get_logger().info("waiting for joint_states", throttle_duration_sec=2.0)
            return
        position = np.asarray(self.state.position)
        to_goal = int(self.sent * PERIOD / SWITCH) % 2 == 0
        chunk = policy(position, self.home + REACH * to_goal)
        # Actions whose time passed while the policy was thinking are left out.
        age = (self.get_clock().now() - Time.from_msg(self.state.header.stamp)).nanoseconds * 1e-9
        late = min(max(0, round(age / STEP)), HORIZON - 2)
        if self.kind == "position":
            space, data = ActionSequence.POSITION, chunk[late:]
        else:  # increments over a step are velocities, and need no start to be summed from
            increments = np.diff(chunk, axis=0, prepend=position[None])
            space, data = ActionSequence.VELOCITY, increments[late:] / STEP
        sequence = ActionSequence(
            joint_names=self.state.name,
            control_space=space,
            batch=1,
            horizon=len(data),
            dt=array("f", [STEP]),  # start stays empty: the node's parameter start_from decides
            data=array("f", data.astype(np.float32).tobytes()),
        )
        sequence.header.stamp = self.state.header.stamp  # of the observation
        self.actions.publish(sequence)
        self.sent += 1

    def on_trajectory(self, trajectory: JointTrajectory) -> None:
        """Say how fast the chunk starts."""
        speed = np.abs(trajectory.points[0].velocities).max()
        self.get_logger().info(f"chunk {self.sent}: {len(trajectory.points)} points, starts at {speed:.3f} rad/s")


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Sends overlapping action chunks, as a learned policy does.")
    parser.add_argument("--kind", choices=("position", "increment"), default="position", help="what an action is")
    options = parser.parse_args(remove_ros_args()[1:])
    rclpy.init()
    try:
        rclpy.spin(ActionChunks(options.kind))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except RuntimeError:  # rclpy's RCLError, where Ctrl-C comes between two waits
        if rclpy.ok():
            raise
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
