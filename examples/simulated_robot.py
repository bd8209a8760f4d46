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

RATE = 200  # cycles and joint states a second
CYCLE_NS = 10**9 // RATE
PANDA = ",".join(f"panda_joint{i}" for i in range(1, 8))
FINGERS, FINGER_OPEN = ["panda_finger_joint1", "panda_finger_joint2"], 0.04  # m
READY = "0.0,-0.785,0.0,-2.356,0.0,1.571,0.785"  # rad


def between(left: np.ndarray, right: np.ndarray, span: float, t: float) -> np.ndarray:
    """State [3, dof] at t, s after the left point: on the quintic, cubic or line through the data of both points.

    Points are [K, dof]: position and, if they have them, velocity and acceleration.
    """
    known = min(len(left), len(right))
    p0, p1 = left[0], right[0]
    if span <= 0:
        powers = [p0]
    elif known == 1:
        powers = [p0, (p1 - p0) / span]
    elif known == 2:
        v0, v1 = left[1], right[1]
        p, v = p1 - p0 - v0 * span, v1 - v0
        powers = [p0, v0, (3 * p - v * span) / span**2, (v * span - 2 * p) / span**3]
    else:
        (v0, a0), (v1, a1) = left[1:3], right[1:3]
        missing = np.stack([p1 - p0 - v0 * span - a0 * span**2 / 2, (v1 - v0 - a0 * span) * span, (a1 - a0) * span**2])
        cubic, quartic, quintic = np.array([[10, -4, 0.5], [-15, 7, -1], [6, -3, 0.5]]) @ missing
        powers = [p0, v0, a0 / 2, cubic / span**3, quartic / span**4, quintic / span**5]
    state = np.zeros((3, len(p0)))
    for k, power in enumerate(powers):
        state += np.multiply.outer([t**k, k * t ** max(k - 1, 0), k * (k - 1) * t ** max(k - 2, 0)], power)
    return state


class Playback:
    """Plays trajectories as joint_trajectory_controller does: a new one replaces the old one in the next cycle.

    From then until its first point, the command moves there from the measured joints (controller parameter
    interpolate_from_desired_state = false) or from the last command (true), which the controller treats as the command
    for the time at which it was computed: one cycle too early. Its last point is held.
    """

    def __init__(self, position: np.ndarray) -> None:
        self.state = np.stack([position, np.zeros_like(position), np.zeros_like(position)])
        self.times = np.zeros(0, np.int64)  # ns, of the points and of the command that they were joined from
        self.points: list[np.ndarray] = []
        self.waiting: tuple[int, np.ndarray, list[np.ndarray]] | None = None
        self.computed = 0  # ns, when the last command was

    def take(self, stamp: int, times: np.ndarray, points: list[np.ndarray], now: int) -> None:
        """Take a new trajectory: its stamp, ns (0: now), the times of its points from there, and [K, dof] for each.

        A trajectory that is already over is ignored.
        """
        if not stamp or stamp + times[-1] >= now:
            self.waiting = stamp, times, points

    def command(self, now: int, until: int, measured: np.ndarray | None = None) -> np.ndarray:
        """Compute one cycle at `now`, ns: the state [3, dof] that is commanded for `until`.

        `measured` is [K, dof]: position and, if known, velocity and acceleration; None: interpolate from the command.
        """
        if self.waiting is not None:
            stamp, times, points = self.waiting
            self.waiting = None
            times = times + (stamp or now)
            joined = times[0] > now  # otherwise the first point is over or due
            before, since = (self.state.copy(), self.computed or now) if measured is None else (measured, now)
            self.times = np.append(since, times) if joined else times
            self.points = [before, *points] if joined else points
        if len(self.times):
            left = int(np.searchsorted(self.times, until, side="right")) - 1
            if left + 1 < len(self.times):
                span = (self.times[left + 1] - self.times[left]) * 1e-9
                since = (until - self.times[left]) * 1e-9
                self.state = between(self.points[left], self.points[left + 1], span, since)
            else:
                self.state = np.zeros_like(self.state)
                self.state[: len(self.points[-1])] = self.points[-1]
            self.computed = now
        return self.state


class SimulatedRobot(Node):
    """Executes trajectories, with a first-order lag behind the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__("simulated_robot")
        self.joints = options.joints.split(",")
        self.position = np.array([float(value) for value in options.position.split(",")])
        self.playback = Playback(self.position)
        self.velocity = np.zeros_like(self.position)
        self.lag, self.from_command = options.lag, options.interpolate_from_desired_state
        self.fingers = FINGERS if options.hand else []
        self.states = self.create_publisher(JointState, "joint_states", 10)
        self.create_subscription(JointTrajectory, "traj_integrator/joint_trajectory", self.follow, 10)
        self.create_timer(1 / RATE, self.step)

    def follow(self, trajectory: JointTrajectory) -> None:
        """Replace the current trajectory; a stamp of 0 means now."""
        columns = [trajectory.joint_names.index(name) for name in self.joints]
        times = [point.time_from_start.sec * 10**9 + point.time_from_start.nanosec for point in trajectory.points]
        points = []
        for point in trajectory.points:
            fields = [point.positions, point.velocities, point.accelerations]
            points.append(np.array([field for field in fields if len(field)])[:, columns])
        stamp = trajectory.header.stamp
        now = self.get_clock().now().nanoseconds
        self.playback.take(stamp.sec * 10**9 + stamp.nanosec, np.array(times, np.int64), points, now)

    def step(self) -> None:
        """Move by one step and publish the joint state."""
        now = self.get_clock().now()
        measured = None if self.from_command else np.stack([self.position, self.velocity])
        command = self.playback.command(now.nanoseconds, now.nanoseconds + CYCLE_NS, measured)[0]
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
    parser.add_argument("--joints", default=PANDA, help="names, with commas (default: those of a Panda)")
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
