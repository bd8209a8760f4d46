"""A planner: every 0.1 s, 16 candidate ways to the goal, all integrated by the node in one batch.

Start the node and anything that publishes joint_states first, then `python examples/planner.py`.
"""

from array import array

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch

CANDIDATES, HORIZON, STEP = 16, 32, 0.02  # trajectories, steps, s
GOAL_DISTANCE = 0.2  # rad, every joint, from where the robot is at first


class Planner(Node):
    """Sends accelerations, reads back trajectories, and says which candidate is smoothest."""

    def __init__(self) -> None:
        super().__init__("planner")
        self.random = np.random.default_rng(0)
        self.state: JointState | None = None
        self.goal = np.zeros(0)
        self.actions = self.create_publisher(ActionSequence, "traj_integrator/action_sequence", 1)
        self.create_subscription(TrajectoryBatch, "traj_integrator/trajectory_batch", self.on_batch, 1)
        self.create_subscription(JointState, "joint_states", self.on_joint_state, qos_profile_sensor_data)
        self.create_timer(0.1, self.plan)

    def on_joint_state(self, state: JointState) -> None:
        """Store the robot's position, and choose the goal once."""
        if self.state is None:
            self.goal = np.asarray(state.position) + GOAL_DISTANCE
        self.state = state

    def plan(self) -> None:
        """Brake and pull towards the goal, with gains drawn at random for each candidate."""
        if self.state is None:
            self.get_logger().info("waiting for joint_states", throttle_duration_sec=2.0)
            return
        position = np.asarray(self.state.position)
        velocity = np.nan_to_num(self.state.velocity) if self.state.velocity else np.zeros_like(position)
        stiffness = self.random.uniform(1.0, 8.0, (CANDIDATES, 1, 1))
        accelerations = stiffness * (self.goal - position) - 2 * np.sqrt(stiffness) * velocity
        data = np.broadcast_to(accelerations, (CANDIDATES, HORIZON, len(position)))
        sequence = ActionSequence(
            joint_names=self.state.name,
            control_space=ActionSequence.ACCELERATION,
            batch=CANDIDATES,
            horizon=HORIZON,
            dt=array("f", [STEP]),  # start stays empty: the node takes the latest joint state
            data=array("f", data.astype(np.float32).tobytes()),
        )
        sequence.header.stamp = self.get_clock().now().to_msg()  # returned with the trajectories
        self.actions.publish(sequence)

    def on_batch(self, batch: TrajectoryBatch) -> None:
        """Pick the candidate with the least jerk."""
        jerk = np.asarray(batch.jerk).reshape(batch.batch, batch.horizon, -1)
        best = int(np.square(jerk).mean(axis=(1, 2)).argmin())
        end = np.asarray(batch.position).reshape(jerk.shape)[best, -1]
        self.get_logger().info(f"candidate {best} of {batch.batch} is smoothest and ends at {np.round(end, 3)} rad")


def main() -> None:
    """Run until Ctrl-C."""
    rclpy.init()
    try:
        rclpy.spin(Planner())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except RuntimeError:  # rclpy's RCLError, where Ctrl-C comes between two waits
        if rclpy.ok():
            raise
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
