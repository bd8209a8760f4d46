"""Draws docs/figures/first_sight.png: what an arm does under a jittery planner, without the node and with it.

The planner sends the next 0.6 s of a sine every 0.1 s. Its perception is off by 5 mrad (one sigma), its plans arrive
20 to 80 ms late. Joints lag 40 ms. Run `python docs/figures/first_sight.py` in the project's environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.executed.playing import CYCLE_S, Controller, Node, RowsAsPoints, Sender  # noqa: E402
from traj_integrator_ros.execution.motion import State  # noqa: E402
from traj_integrator_ros.kernels import ControlSpace  # noqa: E402
from traj_integrator_ros.motions.figures import BLUE, MOTION_GREY, ORANGE, figure  # noqa: E402
from traj_integrator_ros.requests.inputs import Actions  # noqa: E402

WAYS = (
    ("without the node: the planner's rows go to the controller", ORANGE, RowsAsPoints),
    ("with the node", BLUE, Node),
)
SECONDS, PERIOD, HORIZON, STEP, LAG = 6.0, 0.1, 30, 0.02, 0.04
NOISE, LATENCY = 0.005, (0.02, 0.08)  # rad, s
LIMITS = {"velocity": [2.0], "acceleration": [10.0], "jerk": [500.0]}
BEGIN_NS = 10**12


def main() -> None:
    """Command the planner's motion both ways, and draw velocities and accelerations."""
    with figure(Path(__file__).with_suffix(".png"), 13, 5.2) as drawn:
        panels = drawn.subplots(2, len(WAYS), sharex=True, sharey="row")
        for column, (title, color, sender) in zip(panels.T, WAYS, strict=True):
            states = commanded(sender)
            time = CYCLE_S * np.arange(states.shape[1])
            wanted = [np.gradient(planned(time), CYCLE_S), np.gradient(np.gradient(planned(time), CYCLE_S), CYCLE_S)]
            found = [np.diff(states[0, :, 0], order) / CYCLE_S**order for order in (1, 2)]
            for axes, meant, values in zip(column, wanted, found, strict=True):
                axes.plot(time, meant, color=MOTION_GREY, linewidth=3, label="meant by the planner")
                axes.plot(time[: len(values)], values, color=color, linewidth=1, label="commanded at 1 kHz")
                axes.set_xlim(0, SECONDS)
            column[0].set_title(title, loc="left")
            column[1].set_title(f"acceleration at most {np.abs(found[1]).max():,.0f} rad/s²", loc="left")
            column[1].set_yscale("symlog", linthresh=10)
            column[1].set_xlabel("time [s]")
            print(title, np.abs(found[1]).max())
        for axes, label in zip(panels[:, 0], ("velocity [rad/s]", "acceleration [rad/s²]"), strict=True):
            axes.set_ylabel(label)
        panels[1, 1].legend(loc="lower right")


def planned(time: np.ndarray) -> np.ndarray:
    """Positions of the planner, rad, by time, s: a sine that fades in."""
    return 0.3 * np.sin(2.0 * time) * (1 - np.exp(-((time / 0.8) ** 3)))


def commanded(sender: Sender) -> np.ndarray:
    """Commands of the controller, `[3, cycles, 1]`."""
    random = np.random.default_rng(1)
    node = sender(1, start_from="previous", **{f"limits__{name}": limit for name, limit in LIMITS.items()})
    rest = State(*np.zeros((3, 1)))
    node.begin(rest, BEGIN_NS)
    arm = Controller(rest, BEGIN_NS, lag=LAG)
    for begin in np.arange(0.0, SECONDS, PERIOD):
        chunk = planned(begin + STEP * np.arange(1, HORIZON + 1)) + NOISE * random.standard_normal()
        now_ns = BEGIN_NS + round(1e9 * (begin + random.uniform(*LATENCY)))
        arm.run(now_ns)
        node.measure(State(*(row.copy() for row in arm._robot.measured()), np.zeros(1)), now_ns)
        fields = Actions(BEGIN_NS + round(1e9 * begin), ControlSpace.POSITION.value, STEP, chunk[:, None])
        if (message := node.answer(fields, now_ns)) is not None:
            arm.receive(message, now_ns)
    arm.run(BEGIN_NS + round(1e9 * SECONDS))
    return arm.commanded().states


if __name__ == "__main__":
    main()
