"""Draws docs/figures/action_chunks.png: what a controller at 1 kHz commands while action chunks replace each other.

The policy of examples/action_chunks.py, joints that lag 40 ms and the model of the controller, cycle by cycle: the rows
as its points, and through the node in three pairings. Run `python docs/figures/action_chunks.py` in the project's
environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT)]

from action_chunks import PACE, PERIOD, REACH, STEP, SWITCH, policy  # noqa: E402

from benchmarks.players import points_ahead  # noqa: E402
from kit.arm import Robot  # noqa: E402
from soak.streams.core import NodeCore  # noqa: E402
from traj_integrator_ros.kernels import ControlSpace  # noqa: E402
from traj_integrator_ros.motions.figures import BLUE, GREEN, MOTION_GREY, ORANGE, PURPLE, figure  # noqa: E402
from traj_integrator_ros.requests.inputs import Actions  # noqa: E402

LAG, SECONDS, CYCLE = 0.04, 6.0, 0.001  # s
INFERENCE, JITTER, TRANSPORT = 0.1, 0.03, (0.001, 0.004)  # s
PAIRINGS = (
    ("rows as the controller's points", ORANGE, ControlSpace.POSITION, None),
    ("positions, start_from: measured", PURPLE, ControlSpace.POSITION, "measured"),
    ("positions, start_from: previous", BLUE, ControlSpace.POSITION, "previous"),
    ("increments, start_from: previous", GREEN, ControlSpace.VELOCITY, "previous"),
)
NOW_S = 1000.0


def main() -> None:
    """Command the controller directly and in each pairing, and draw the accelerations."""
    time = CYCLE * np.arange(round(SECONDS / CYCLE))
    with figure(Path(__file__).with_suffix(".png"), 15, 4.2) as drawn:
        panels = drawn.subplots(1, len(PAIRINGS), sharex=True, sharey=True)
        for axes, (title, color, space, start_from) in zip(panels, PAIRINGS, strict=True):
            commanded, meant = command(space, start_from)
            acceleration = np.diff(commanded, 2) / CYCLE**2
            axes.plot(time[1:-1], acceleration, color=color, linewidth=0.9, label="commanded")
            axes.plot(time, meant, color=MOTION_GREY, linewidth=2.5, label="meant by the policy")
            peak = np.abs(acceleration).max()
            axes.set_title(f"{title}\n{peak:,.{0 if peak > 20 else 1}f} rad/s²", loc="left")
            axes.set_yscale("symlog", linthresh=1)
            axes.set_yticks([-1e4, -1e2, -1, 1, 1e2, 1e4])
            axes.set_xlim(0, SECONDS)
            axes.set_xlabel("time [s]")
            print(f"{title}: {peak:.2f} rad/s^2, meant {np.abs(meant).max():.2f}")
        panels[-1].legend(loc="upper right")
        panels[0].set_ylabel("acceleration [rad/s²]")


def command(space: ControlSpace, start_from: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Positions that the controller commands, and the intended acceleration of the chunk that it follows.

    Without `start_from` the chunks go to the controller.
    """
    random = np.random.default_rng(0)
    parameters = {"limits__assumed_velocity": 10.0, "limits__start_deviation": 0.0}
    node = NodeCore(["joint"], start_from=start_from or "previous", **parameters)
    robot = Robot(["joint"], rate=1 / CYCLE, lag=LAG, hard_replacement=True)
    coming: list[tuple[float, tuple]] = []
    commanded, meant, acceleration_of = [], [], lambda now: 0.0
    observed, next_observation = 0, 0.1
    for cycle in range(round(SECONDS / CYCLE)):
        now = cycle * CYCLE
        position, velocity = robot.measured()
        if now >= next_observation:
            goal = REACH * (int(observed * PERIOD / SWITCH) % 2 == 0)
            observed, next_observation = observed + 1, next_observation + PERIOD
            coming.append((now + INFERENCE + random.uniform(0, JITTER), ("send", now, position, velocity, goal)))
        for due, what in [event for event in coming if event[0] <= now]:
            coming.remove((due, what))
            if what[0] == "arrive":
                robot.receive(robot.joints, *what[2], now_ns=ns(now), stamp_ns=what[1])
                continue
            _, seen, seen_position, seen_velocity, goal = what
            chunk = policy(seen_position, seen_velocity, goal)
            acceleration_of = meant_acceleration(seen, seen_position, seen_velocity, goal)
            if space is ControlSpace.VELOCITY:
                chunk = np.diff(chunk, axis=0, prepend=seen_position[None]) / STEP
            arrives = now + random.uniform(*TRANSPORT)
            if start_from is None:
                sent = 0, points_ahead(seen - arrives + STEP * np.arange(1, len(chunk) + 1), chunk)
            else:
                node.joint_state(position, velocity, ns(now))
                made = node.execute(Actions(ns(seen), space.value, STEP, chunk), ns(now))
                sent = made.stamp_ns, made.points
            coming.append((arrives, ("arrive", *sent)))
        commanded.append(robot.update(ns(now))[0, 0])
        meant.append(acceleration_of(now))
    return np.array(commanded), np.array(meant)


def ns(time: float) -> int:
    """Nanoseconds of the clock of all of them, by the time in the figure, s."""
    return round((NOW_S + time) * 1e9)


def meant_acceleration(
    seen: float, position: np.ndarray, velocity: np.ndarray, goal: float
) -> Callable[[float], float]:
    """The second derivative of the policy's positions, at a time, s, from its observation on."""
    away = float(position[0] - goal)
    rate = float(velocity[0]) + PACE * away
    return lambda now: (PACE**2 * (away + rate * (now - seen)) - 2 * PACE * rate) * float(np.exp(-PACE * (now - seen)))


if __name__ == "__main__":
    main()
