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
import torch
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState

from traj_integrator_ros.client import SECOND_NS, IntegratorClient, Refused
from traj_integrator_ros.kernels import CostTerm, QuadraticCost, quadratic_cost

HORIZON, STEP = 32, 0.05  # velocities in a rollout, s for each; a new plan is sent after every step
KNOTS, SPREAD = 8, 0.05  # of the noise: independent numbers for each joint, rad/s
GREED = 0.1  # temperature of the weights, of the standard deviation of the costs
REACH, SWITCH = 0.3, 4.0  # goal range, rad, and time between two goals, s
SPEED, ACCELERATION = 1.0, 4.0  # rad/s and rad/s^2 to stay below


class Sampler:
    """Model predictive path integral control of velocities; knows no ROS.

    Args:
        dof: joints.
        rollouts: sampled in each improvement.

    """

    def __init__(self, dof: int, rollouts: int) -> None:
        self.velocities = torch.zeros(HORIZON, dof)
        """The plan, rad/s."""
        self._noise = torch.empty(rollouts, KNOTS, dof)
        # White noise would average out, so the noise is smooth: raised cosines, each around a knot.
        place = (torch.arange(HORIZON) + 0.5) * (KNOTS - 1) / HORIZON
        self._shape = (
            0.5 + 0.5 * torch.cos(torch.pi * (place[:, None] - torch.arange(KNOTS)).clamp(-1, 1))
        ).contiguous()

    def improve(self, start: np.ndarray, goal: np.ndarray) -> float:
        """Sample around the plan and move it to the average of the samples, weighted by their costs.

        Args:
            start: position and velocity `[2, dof]`, rad, rad/s.
            goal: `[dof]`, rad, to rest at.

        Returns:
            The cost of the plan before the improvement.

        """
        noise = self._shape @ self._noise.normal_(0.0, SPREAD)
        noise[0] = 0  # the plan itself is one of the samples
        candidates = self.velocities + noise
        rows = torch.from_numpy(start).float()[:, None]
        costs = quadratic_cost(candidates, *rows, cost=cost_of(goal), control_map="velocity", dt=STEP)
        weights = torch.softmax(-costs / (GREED * costs.std() + 1e-12), dim=0)
        self.velocities = torch.einsum("r,rhd->hd", weights, candidates)
        return costs[0].item()

    def advance(self, steps: int) -> None:
        """Remove the executed steps, and append zeros."""
        steps = min(steps, HORIZON)
        self.velocities = torch.cat([self.velocities[steps:], torch.zeros(steps, self.velocities.shape[1])])


def cost_of(goal: np.ndarray) -> QuadraticCost:
    """Cost for reaching the goal, at rest at the end of the plan, smoothly and within limits."""
    return QuadraticCost(
        position=CostTerm(weight=1.0, target=torch.from_numpy(goal).float(), terminal_weight=50.0),
        velocity=CostTerm(terminal_weight=5.0, limit_weight=500.0, lower=-SPEED, upper=SPEED),
        acceleration=CostTerm(weight=0.02, limit_weight=50.0, lower=-ACCELERATION, upper=ACCELERATION),
    )


@dataclass
class Second:
    """Statistics that are printed once a second."""

    plans: int = 0
    late: int = 0
    busy: float = 0.0
    since: float = 0.0


class Mppi(Node):
    """Sends a plan after every step; sampling begins a step ahead, so that there is enough time."""

    def __init__(self, rollouts: int) -> None:
        super().__init__("mppi")
        self.rollouts = rollouts
        self.names: list[str] = []
        self.sampler: Sampler | None = None
        self.home = np.zeros(0)
        self.step = 0
        self.told = Second(since=time.monotonic())
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
            self.sampler = Sampler(len(self.names), self.rollouts)

    def plan(self) -> None:
        """Sample a plan for the step after the next, and send it."""
        if self.sampler is None:
            self.get_logger().info("waiting for joint_states", throttle_duration_sec=2.0)
            return
        began = time.monotonic()
        step_ns = round(STEP * SECOND_NS)
        step = self.get_clock().now().nanoseconds // step_ns + 2
        if self.step:
            self.told.late += step - self.step > 1
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
        self.told.plans += 1
        self.told.busy += time.monotonic() - began
        self.tell(cost, np.abs(start[0] - goal).max())

    def tell(self, cost: float, distance: float) -> None:
        """Print statistics once a second."""
        told, now = self.told, time.monotonic()
        if now - told.since < 1.0:
            return
        rate, busy_ms = told.plans / (now - told.since), 1e3 * told.busy / told.plans
        self.get_logger().info(
            f"{rate:.0f} Hz of {self.rollouts} rollouts, {busy_ms:.1f} ms each, {told.late} late; "
            f"cost {cost:.4g}, {distance:.4f} rad from the goal"
        )
        self.told = Second(since=now)


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Samples rollouts and sends the winner, twenty times a second.")
    parser.add_argument("--rollouts", type=int, default=2000, help="of each plan (default: %(default)s)")
    options = parser.parse_args(remove_ros_args()[1:])
    rclpy.init()
    node = Mppi(options.rollouts)
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
