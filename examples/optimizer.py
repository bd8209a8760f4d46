"""An optimizer: L-BFGS over jerks, with the node computing costs and gradients.

Start the node, then `python examples/optimizer.py`. Needs no robot: it has its own start state, which is in motion.
"""

from array import array

import numpy as np
import rclpy
from rclpy.client import Client
from rclpy.node import Node
from scipy.optimize import minimize

from traj_integrator_interfaces.msg import ActionSequence, QuadraticCost, StartState, TrajectoryBatch
from traj_integrator_interfaces.srv import Evaluate, Integrate

HORIZON, STEP = 64, 0.02  # steps, s
START = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # rad, a Panda's ready pose
START_VELOCITY = 0.3  # rad/s, every joint: the robot is already moving
GOAL = START + np.array([0.6, 0.3, -0.4, 0.5, 0.3, 0.4, -0.5])  # rad, to be reached at rest
WEIGHTS = {"position": 1e3, "velocity": 1e2, "acceleration": 1e1}
JERK_WEIGHT = 1e-5
ANSWER_WITHIN = 3.0  # s


class Optimizer(Node):
    """Calls ~/evaluate for costs and gradients, and finally ~/integrate for the trajectory."""

    def __init__(self) -> None:
        super().__init__("optimizer")
        self.integrate = self.create_client(Integrate, "traj_integrator/integrate")
        self.evaluate = self.create_client(Evaluate, "traj_integrator/evaluate")

    def call(self, client: Client, request: object) -> Integrate.Response | Evaluate.Response:
        """Wait for the service and its answer; call again if none comes, for example because the node was restarted."""
        while True:
            while not client.wait_for_service(timeout_sec=2.0):
                self.get_logger().info(f"waiting for {client.srv_name}")
            future = client.call_async(request)
            rclpy.spin_until_future_complete(self, future, timeout_sec=ANSWER_WITHIN)
            if future.done():
                break
            client.remove_pending_request(future)
        if not future.result().success:
            raise SystemExit(f"{client.srv_name}: {future.result().message}")
        return future.result()

    def sequence(self, jerk: np.ndarray) -> ActionSequence:
        """One sequence of jerks `[horizon * dof]`, rad/s^3; no joint names means the node's own order."""
        start = StartState(
            position=array("f", START),
            velocity=array("f", np.full_like(START, START_VELOCITY)),  # no acceleration means 0
        )
        return ActionSequence(
            control_space=ActionSequence.JERK,
            batch=1,
            horizon=HORIZON,
            dt=array("f", [STEP]),
            start=start,
            data=array("f", jerk.astype(np.float32).tobytes()),
        )

    def cost(self) -> QuadraticCost:
        """Weighted distance of the last point from the goal at rest, plus squared jerk."""
        cost = QuadraticCost()
        cost.position.target = array("f", GOAL)
        for name, weight in WEIGHTS.items():
            getattr(cost, name).terminal_weight = array("f", [weight] * len(GOAL))
        cost.jerk.weight = array("f", [JERK_WEIGHT] * len(GOAL))
        return cost

    def cost_and_gradient(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The cost of a sequence of jerks, and its gradient with respect to each of them, in one call."""
        answer = self.call(self.evaluate, Evaluate.Request(actions=self.sequence(flat), cost=self.cost()))
        return answer.cost[0], np.asarray(answer.grad_action, np.float64)

    def run(self) -> None:
        """Minimize and print."""
        start = np.zeros(HORIZON * len(START))
        before, _ = self.cost_and_gradient(start)
        # Costs are float32: smaller relative changes are rounding.
        options = {"maxiter": 200, "ftol": 1e-7}
        result = minimize(self.cost_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
        request = Integrate.Request(actions=self.sequence(result.x))
        request.fields = TrajectoryBatch.POSITION | TrajectoryBatch.VELOCITY
        end = self.call(self.integrate, request).trajectory
        miss = np.abs(np.asarray(end.position[-len(START) :]) - GOAL).max()
        speed = np.abs(end.velocity[-len(START) :]).max()
        print(f"cost {before:.3f} -> {result.fun:.5f} in {result.nit} iterations, {result.nfev} evaluations")
        print(f"misses the goal by {miss:.4f} rad, with {speed:.4f} rad/s left")


def main() -> None:
    """Optimize once."""
    rclpy.init()
    optimizer = Optimizer()
    try:
        optimizer.run()
    except KeyboardInterrupt:
        pass
    finally:
        optimizer.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
