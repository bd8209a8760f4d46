"""A sampling controller (MPPI): 2,000 rollouts twenty times a second on a CPU; the node executes the resulting plans.

Start the node with start_from = previous and a robot (examples/simulated_robot.py), then `python examples/mppi.py`.
Rollouts and their costs are computed here, with the library; the plan goes to the node, stamped with the time at which
its first step begins, and there replaces the previous one.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
import rclpy
from on_device import STEP, Sampler
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState

from traj_integrator_ros.client import SECOND_NS, IntegratorClient, Refused

REACH, SWITCH = 0.3, 4.0  # goal range, rad, and time between two goals, s


@dataclass
class Second:
    """Statistics that are printed once a second."""

    plans: int = 0
    late: int = 0
    busy: float = 0.0
    since: float = 0.0


class Mppi(Node):
    """Sends a plan after every step; sampling begins a step ahead, so that there is enough time."""

    def __init__(self, rollouts: int, device: str) -> None:
        super().__init__("mppi")
        self.rollouts, self.device = rollouts, device
        self.names: list[str] = []
        self.sampler: Sampler | None = None
        self.home = np.zeros(0)
        self.step = 0
        self.statistics = Second(since=time.monotonic())
        self.client = IntegratorClient(node=self)
        self.create_subscription(JointState, "joint_states", self.on_joint_state, qos_profile_sensor_data)
        self.create_timer(STEP, self.plan)

    def ask_for_names(self) -> None:
        """Get the node's joints, and check that its trajectories continue from each other."""
        self.client.wait_until_active()
        found = self.client.parameters("joint_names", "start_from")
        if found["start_from"] != "previous":
            raise SystemExit(
                "mppi: expected start_from = previous: `ros2 param set /traj_integrator start_from previous`, "
                "or start it with `-p start_from:=previous`"
            )
        self.names = found["joint_names"]

    def on_joint_state(self, state: JointState) -> None:
        """Store the state; the first position is the home position."""
        if self.sampler is None and self.names:
            at = dict(zip(state.name, state.position, strict=True))
            self.home = np.array([at[name] for name in self.names])
            self.sampler = Sampler(len(self.names), self.rollouts, self.device)

    def plan(self) -> None:
        """Sample a plan for the step after the next, and send it."""
        if self.sampler is None:
            self.get_logger().info("waiting for joint_states", throttle_duration_sec=2.0)
            return
        began = time.monotonic()
        step_ns = round(STEP * SECOND_NS)
        step = self.get_clock().now().nanoseconds // step_ns + 2
        if self.step:
            self.statistics.late += step - self.step > 1
            self.sampler.advance(step - self.step)
        self.step = step
        try:
            commanded = self.client.committed(1, stamp_ns=step * step_ns)  # when the plan begins
        except Refused as refused:
            self.get_logger().warning(str(refused), throttle_duration_sec=2.0)
            return
        start = np.vstack([commanded.position, commanded.velocity])
        goal = self.home + REACH * (int(step * STEP / SWITCH) % 2)
        cost = self.sampler.improve(start, goal)
        # Without a start, the plan continues the motion at its stamp.
        plan = self.sampler.velocities[None]
        self.client.publish(plan, dt=STEP, control_space="velocity", joint_names=self.names, stamp_ns=step * step_ns)
        self.statistics.plans += 1
        self.statistics.busy += time.monotonic() - began
        self.tell(cost, np.abs(start[0] - goal).max())

    def tell(self, cost: float, distance: float) -> None:
        """Print statistics once a second."""
        statistics, now = self.statistics, time.monotonic()
        if now - statistics.since < 1.0:
            return
        rate, busy_ms = statistics.plans / (now - statistics.since), 1e3 * statistics.busy / statistics.plans
        self.get_logger().info(
            f"{rate:.0f} Hz of {self.rollouts} rollouts, {busy_ms:.1f} ms each, {statistics.late} late; "
            f"cost {cost:.4g}, {distance:.4f} rad from the goal"
        )
        self.statistics = Second(since=now)


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Samples rollouts and sends the winner, twenty times a second.")
    parser.add_argument("--rollouts", type=int, default=2000, help="of each plan (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="where rollouts are computed (default: %(default)s)")
    options = parser.parse_args(remove_ros_args()[1:])
    rclpy.init()
    node = Mppi(options.rollouts, options.device)
    try:
        node.ask_for_names()
        rclpy.spin(node)
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
