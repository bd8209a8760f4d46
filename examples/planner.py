"""A planner: every 0.1 s, 16 candidate ways to the goal, all integrated by the node in one batch.

Start the node and anything that publishes joint_states first, then `python examples/planner.py`.
"""

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from traj_integrator_ros.client import IntegratorClient, Trajectories

CANDIDATES, HORIZON, STEP = 16, 32, 0.02  # trajectories, steps, s
GOAL_DISTANCE = 0.2  # rad, every joint, from the robot's first position


class Planner(Node):
    """Sends accelerations, reads back trajectories, and says which candidate is smoothest."""

    def __init__(self) -> None:
        super().__init__("planner")
        self.random = np.random.default_rng(0)
        self.state: JointState | None = None
        self.goal = np.zeros(0)
        self.client = IntegratorClient(node=self)
        self.client.on_batch(self.on_batch)
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
        actions = np.broadcast_to(accelerations, (CANDIDATES, HORIZON, len(position)))
        # Without a start, the node takes the latest joint state.
        self.client.publish(actions, dt=STEP, control_space="acceleration", joint_names=self.state.name)

    def on_batch(self, batch: Trajectories) -> None:
        """Pick the candidate with the least jerk."""
        best = int(np.square(batch.jerk).mean(axis=(1, 2)).argmin())
        end = np.round(batch.position[best, -1], 3)
        self.get_logger().info(f"candidate {best} of {len(batch.jerk)} is smoothest and ends at {end} rad")


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
