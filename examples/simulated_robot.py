"""A simulated robot: follows joint trajectories as joint_trajectory_controller does, publishes joint_states.

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

RATE = 200  # joint states a second
PANDA = ",".join(f"panda_joint{i}" for i in range(1, 8))
READY = "0.0,-0.785,0.0,-2.356,0.0,1.571,0.785"  # rad


def position_at(time: float, times: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Follow the quintic through position, velocity and acceleration of two points, as the controller does.

    `times` [N] are s; `motion` [3, N, dof] are positions, velocities and accelerations at them. The last point is held.
    """
    left = int(np.searchsorted(times, time, side="right")) - 1
    if left < 0 or left + 1 >= len(times):
        return motion[0, 0 if left < 0 else -1]
    step, t = times[left + 1] - times[left], time - times[left]
    (p0, p1), (v0, v1), (a0, a1) = motion[:, left : left + 2]
    missing = np.stack([p1 - p0 - v0 * step - a0 * step**2 / 2, (v1 - v0 - a0 * step) * step, (a1 - a0) * step**2])
    cubic, quartic, quintic = np.array([[10, -4, 0.5], [-15, 7, -1], [6, -3, 0.5]]) @ missing
    s = t / step
    return p0 + v0 * t + a0 * t**2 / 2 + s**3 * (cubic + s * (quartic + s * quintic))


class SimulatedRobot(Node):
    """Executes trajectories, with a first-order lag behind the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__("simulated_robot")
        self.joints = options.joints.split(",")
        self.command = self.position = np.array([float(value) for value in options.position.split(",")])
        self.lag = options.lag
        self.trajectory: tuple[np.ndarray, np.ndarray] | None = None
        self.begin = 0  # ns, when it starts
        self.states = self.create_publisher(JointState, "joint_states", 10)
        self.create_subscription(JointTrajectory, "traj_integrator/joint_trajectory", self.follow, 10)
        self.create_timer(1 / RATE, self.step)

    def follow(self, trajectory: JointTrajectory) -> None:
        """Replace what is being followed; a stamp of 0 means now."""
        columns = [trajectory.joint_names.index(name) for name in self.joints]
        times = [point.time_from_start.sec + point.time_from_start.nanosec * 1e-9 for point in trajectory.points]
        motion = [[point.positions, point.velocities, point.accelerations] for point in trajectory.points]
        stamp = trajectory.header.stamp
        self.begin = stamp.sec * 10**9 + stamp.nanosec or self.get_clock().now().nanoseconds
        self.trajectory = np.array(times), np.array(motion).swapaxes(0, 1)[..., columns]

    def step(self) -> None:
        """Move by one step and publish where the joints are."""
        now = self.get_clock().now()
        if self.trajectory is not None and now.nanoseconds >= self.begin:
            self.command = position_at((now.nanoseconds - self.begin) * 1e-9, *self.trajectory)
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
    except RuntimeError:  # rclpy's RCLError, where Ctrl-C comes between two waits
        if rclpy.ok():
            raise
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
