"""An optimizer: L-BFGS over jerks, with the node computing costs and gradients.

Start the node, then `python examples/optimizer.py`. Needs no robot: it has its own start state, which is in motion.
"""

import numpy as np
from scipy.optimize import minimize

from traj_integrator_ros.client import IntegratorClient, Refused

HORIZON, STEP = 64, 0.02  # steps, s
START = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # rad, a Panda's ready pose
START_VELOCITY = 0.3  # rad/s, every joint: the robot is already moving
GOAL = START + np.array([0.6, 0.3, -0.4, 0.5, 0.3, 0.4, -0.5])  # rad, to be reached at rest
# Weighted distance of the last point from the goal at rest, plus squared jerk.
COST = {
    "position": {"target": GOAL, "terminal_weight": 1e3},
    "velocity": {"terminal_weight": 1e2},
    "acceleration": {"terminal_weight": 1e1},
    "jerk": {"weight": 1e-5},
}
PROBLEM = {
    "control_space": "jerk", "dt": STEP, "position": START, "velocity": np.full_like(START, START_VELOCITY),
}  # fmt: skip


def cost_and_gradient(flat: np.ndarray, client: IntegratorClient) -> tuple[float, np.ndarray]:
    """The cost of jerks `[horizon * dof]`, rad/s^3, and its gradient with respect to each of them, in one call."""
    answer = client.evaluate(flat.reshape(1, HORIZON, -1), COST, **PROBLEM)
    return float(answer.cost[0]), answer.gradient.action.ravel().astype(np.float64)


def motion(flat: np.ndarray, client: IntegratorClient) -> list[np.ndarray]:
    """Positions, velocities and accelerations, each `[horizon, dof]`."""
    found = client.integrate(flat.reshape(1, HORIZON, -1), outputs=["position", "velocity", "acceleration"], **PROBLEM)
    return [found.position[0], found.velocity[0], found.acceleration[0]]


def optimize(client: IntegratorClient) -> None:
    """Minimize and print."""
    start = np.zeros(HORIZON * len(START))
    before, _ = cost_and_gradient(start, client)
    # Costs and jerks travel as float32: a smaller decrease than this cannot be told from rounding.
    options = {"maxiter": 200, "ftol": 10 * np.finfo(np.float32).eps}
    result = minimize(cost_and_gradient, start, args=(client,), jac=True, method="L-BFGS-B", options=options)
    position, velocity, _ = motion(result.x, client)
    miss, speed = np.abs(position[-1] - GOAL).max(), np.abs(velocity[-1]).max()
    print(f"cost {before:.3f} -> {result.fun:.5f} in {result.nit} iterations, {result.nfev} evaluations")
    print(f"misses the goal by {miss:.4f} rad, with {speed:.4f} rad/s left")


def main() -> None:
    """Optimize once."""
    with IntegratorClient(name="optimizer", timeout_s=60.0) as client:
        try:
            optimize(client)
        except (Refused, TimeoutError) as error:
            raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
