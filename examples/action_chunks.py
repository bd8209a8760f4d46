"""A policy that emits overlapping action chunks: every 0.3 s, 16 actions of 50 ms, of which about 6 are executed.

Start a robot (examples/simulated_robot.py), the node with the parameter start_from = previous, then `python
examples/action_chunks.py`. Each chunk has the stamp of its observation: the node drops the actions whose time passed
during inference, and continues from the robot's motion at that time. With --keep-prefix, the policy asks the node what
the robot will do until the chunk can take effect (~/committed), and begins its chunk with that: real-time chunking.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.timer import Timer
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState

from traj_integrator_ros.client import IntegratorClient, JointMotion, Refused, stamp_of

HORIZON, STEP, PERIOD = 16, 0.05, 0.3  # actions in a chunk, s for each, s between two observations
REACH, PACE, SWITCH = 0.15, 3.0, 3.0  # rad, 1/s, s between two goals
PANDA = ",".join(f"panda_joint{i}" for i in range(1, 8))


def policy(position: np.ndarray, velocity: np.ndarray, goal: np.ndarray, horizon: int = HORIZON) -> np.ndarray:
    """Stands in for a network: joint positions `[horizon, dof]` from the observed position to the goal."""
    time = STEP * np.arange(1, horizon + 1)[:, None]
    away = position - goal
    return goal + (away + (velocity + PACE * away) * time) * np.exp(-PACE * time)


class ActionChunks(Node):
    """Observes, runs the policy, and sends its output as positions or increments."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__("action_chunks")
        self.options = options
        self.joints = options.joints.split(",")
        self.random = np.random.default_rng(0)
        self.state: JointState | None = None
        self.home = np.zeros(0)
        self.observed = self.sent = self.executed = 0
        self.client = IntegratorClient(node=self, joint_names=self.joints)
        self.client.on_trajectory(self.on_trajectory)
        self.create_subscription(JointState, "joint_states", self.on_joint_state, qos_profile_sensor_data)
        self.create_timer(PERIOD, self.observe)

    def on_joint_state(self, state: JointState) -> None:
        """Store the newest state that has all joints of the policy; others, such as fingers, are ignored."""
        if not set(self.joints) <= set(state.name):
            self.get_logger().info(f"joint_states without some of {self.joints}", throttle_duration_sec=2.0)
            return
        if self.state is None:
            self.home = self.of_policy(state, state.position)  # the first positions
        self.state = state

    def of_policy(self, state: JointState, values: Sequence[float]) -> np.ndarray:
        """Values of the policy's joints in its order; 0 for those that the robot does not publish, or that are NaN."""
        return np.nan_to_num([values[state.name.index(name)] if len(values) else 0.0 for name in self.joints])

    def observe(self) -> None:
        """Run the policy on the newest observation; its output is sent after the inference time."""
        if self.state is None:
            self.get_logger().info("waiting for joint_states", throttle_duration_sec=2.0)
            return
        position, velocity = (self.of_policy(self.state, one) for one in (self.state.position, self.state.velocity))
        stamp_ns = stamp_of(self.state)
        to_goal = int(self.observed * PERIOD / SWITCH) % 2 == 0
        self.observed += 1
        goal = self.home + REACH * to_goal
        chunk = policy(position, velocity, goal)
        if self.options.keep_prefix:
            try:
                # Rows from the observation on: row k is where action k - 1 leads to.
                fixed = self.client.committed(HORIZON + 1, stamp_ns=stamp_ns, dt=STEP)
            except Refused as refused:
                self.get_logger().warning(str(refused), throttle_duration_sec=2.0)
                return
            # Actions that cannot be changed now, and those that cannot be changed when the chunk arrives.
            inference = (self.options.inference + self.options.jitter) / STEP
            kept = min(fixed.committed + int(np.ceil(inference)), HORIZON + 1)
            ahead = policy(fixed.position[kept - 1], fixed.velocity[kept - 1], goal, HORIZON + 1 - kept)
            chunk = np.vstack([fixed.position[1:kept], ahead])
        if self.options.kind == "position":
            space, actions = "position", chunk
        else:  # increments per step are velocities, and are summed from the previous motion
            space, actions = "velocity", np.diff(chunk, axis=0, prepend=position[None]) / STEP
        thinking = self.options.inference + self.random.uniform(0, self.options.jitter)
        answer = self.create_timer(thinking, lambda: self.send(space, actions, stamp_ns, answer))

    def send(self, space: str, actions: np.ndarray, stamp_ns: int, answer: Timer) -> None:
        """Send the policy's output after the inference time: all of it, since the node knows which actions are over.

        The stamp is that of the observation: the time at which the first action begins.
        """
        self.destroy_timer(answer)
        self.client.publish(actions[None], dt=STEP, control_space=space, stamp_ns=stamp_ns)
        self.sent += 1

    def on_trajectory(self, trajectory: JointMotion) -> None:
        """Print how the trajectory of the chunk starts."""
        self.executed += 1
        if self.executed == 1 and self.client.parameters("start_from")["start_from"] == "measured":
            self.get_logger().warning(
                "chunks start when they arrive, whatever their stamps: set the node's parameter start_from to previous"
            )
        ago = (self.get_clock().now().nanoseconds - trajectory.stamp_ns) * 1e-6
        speed = np.abs(trajectory.velocity[0]).max()
        self.get_logger().info(
            f"chunk {self.executed} of {self.sent}: {len(trajectory.position)} points, starts at {speed:.3f} rad/s, "
            f"{ago:.1f} ms ago"
        )


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Sends overlapping action chunks, as a learned policy does.")
    parser.add_argument("--kind", choices=("position", "increment"), default="position", help="what an action is")
    parser.add_argument("--inference", type=float, default=0.1, help="s that the policy thinks (default: 0.1)")
    parser.add_argument("--jitter", type=float, default=0.03, help="most that it thinks longer, s (default: 0.03)")
    parser.add_argument("--keep-prefix", action="store_true", help="begin chunks with what cannot be changed any more")
    parser.add_argument("--joints", default=PANDA, help="that the policy moves, with commas (default: a Panda's)")
    options = parser.parse_args(remove_ros_args()[1:])
    rclpy.init()
    try:
        rclpy.spin(ActionChunks(options))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except TimeoutError as error:
        raise SystemExit(str(error)) from None
    except RuntimeError:  # rclpy's RCLError, where Ctrl-C comes between two waits
        if rclpy.ok():
            raise
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
