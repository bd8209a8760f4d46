"""Draws docs/figures/action_chunks.png: what a controller at 1 kHz commands while action chunks replace each other.

The policy of examples/action_chunks.py, joints that lag 40 ms and the controller of examples/simulated_robot.py, cycle
by cycle: with the node as it is, and as it was when it published the rows of the maps as points. Run
`python docs/figures/action_chunks.py` in the project's environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "test" / "handling")]

from action_chunks import PACE, PERIOD, REACH, STEP, SWITCH, policy  # noqa: E402
from pipelines import NOW_S, SimulatedNode, ns  # noqa: E402
from simulated_robot import Playback, between  # noqa: E402

from traj_integrator_ros.kernels import ControlSpace, control_map  # noqa: E402
from traj_integrator_ros.motions.figures import BLUE, GREEN, MOTION_GREY, ORANGE, figure  # noqa: E402

LAG, SECONDS, CYCLE = 0.04, 6.0, 0.001  # s
INFERENCE, JITTER, TRANSPORT = 0.1, 0.03, (0.001, 0.004)  # s
PAIRINGS = (
    ("positions, start_from: measured", ORANGE, ControlSpace.POSITION, "measured"),
    ("positions, start_from: previous", BLUE, ControlSpace.POSITION, "previous"),
    ("increments, start_from: previous", GREEN, ControlSpace.VELOCITY, "previous"),
)
Trajectory = tuple[int, np.ndarray, list[np.ndarray]]
"""Stamp, ns, times of the points, ns, and position, velocity and acceleration `[K, dof]` of each."""


def main() -> None:
    """Command each pairing before and after, and draw the accelerations."""
    time = CYCLE * np.arange(round(SECONDS / CYCLE))
    with figure(Path(__file__).with_suffix(".png"), 15, 6.4) as drawn:
        panels = drawn.subplots(2, len(PAIRINGS), sharex=True, sharey=True)
        for column, (title, color, space, start_from) in enumerate(PAIRINGS):
            nodes = (("rows as points (0dbb915)", RowsAsPoints), ("points of one motion", PointsOfOneMotion))
            for axes, (when, node) in zip(panels[:, column], nodes, strict=True):
                commanded, meant = command(node(space, start_from), space)
                acceleration = np.diff(commanded, 2) / CYCLE**2
                axes.plot(time[1:-1], acceleration, color=color, linewidth=0.9, label="commanded")
                axes.plot(time, meant, color=MOTION_GREY, linewidth=2.5, label="meant by the policy")
                peak = np.abs(acceleration).max()
                axes.set_title(f"{title}\n{when}: {peak:,.{0 if peak > 20 else 1}f} rad/s²", loc="left")
                axes.set_yscale("symlog", linthresh=1)
                axes.set_yticks([-1e4, -1e2, -1, 1, 1e2, 1e4])
                axes.set_xlim(0, SECONDS)
                print(f"{title}; {when}: {peak:.2f} rad/s^2, meant {np.abs(meant).max():.2f}")
        panels[0, 2].legend(loc="upper right")
        for axes in panels[:, 0]:
            axes.set_ylabel("acceleration [rad/s²]")
        for axes in panels[1]:
            axes.set_xlabel("time [s]")


class PointsOfOneMotion:
    """The node as it is, with a lead-in."""

    def __init__(self, space: ControlSpace, start_from: str) -> None:
        self.space = space
        parameters = {"publish__lead_in": True, "limits__start_deviation": 0.0}
        self.node = SimulatedNode(1, start_from=start_from, **parameters)

    def trajectory(
        self, actions: np.ndarray, state: tuple[np.ndarray, np.ndarray], now: float, seen: float
    ) -> Trajectory:
        """The message that is published for a chunk."""
        self.node.measure(*state, now=NOW_S + now)
        made = self.node.send(actions, space=self.space, dt=STEP, now=NOW_S + now, stamp=NOW_S + seen)
        fields = [part for part in made.points[1:] if part is not None]
        return made.stamp_ns, made.points.time_ns, [np.stack(point) for point in zip(*fields, strict=True)]


class RowsAsPoints:
    """The node as it was at 0dbb915: rows of the map from the start on, the last one held for a step, no stamp.

    The policy itself dropped the actions whose time had passed.
    """

    def __init__(self, space: ControlSpace, start_from: str) -> None:
        self.space, self.previous = space, start_from == "previous"
        self.last: Trajectory | None = None

    def trajectory(
        self, actions: np.ndarray, state: tuple[np.ndarray, np.ndarray], now: float, seen: float
    ) -> Trajectory:
        """The message that was published for a chunk."""
        start = np.stack([*state, np.zeros(1)])
        if self.previous and self.last is not None:
            start = self._state_at(now, start)
        data = torch.from_numpy(actions[round((now - seen) / STEP) :][None])
        rows = control_map(self.space).step(data, *(torch.from_numpy(part[None]) for part in start), dt=STEP)
        points = [np.stack(point) for point in zip(*(part[0].numpy() for part in rows[:3]), strict=True)]
        points.append(np.stack([points[-1][0], np.zeros(1), np.zeros(1)]))
        self.last = ns(now), ns(STEP) * np.arange(len(points)), points
        return 0, *self.last[1:]

    def _state_at(self, now: float, measured: np.ndarray) -> np.ndarray:
        begun, times, points = self.last
        left = int(np.searchsorted(times, ns(now) - begun, side="right")) - 1
        if left + 1 >= len(points):
            return measured
        return between(points[left], points[left + 1], STEP, (ns(now) - begun - times[left]) * 1e-9)


def command(node: PointsOfOneMotion | RowsAsPoints, space: ControlSpace) -> tuple[np.ndarray, np.ndarray]:
    """Positions that the controller commands, and the intended acceleration of the chunk that it follows."""
    random = np.random.default_rng(0)
    playback, position, velocity = Playback(np.zeros(1)), np.zeros(1), np.zeros(1)
    coming: list[tuple[float, Callable[[], None]]] = []
    commanded, meant, acceleration_of = [], [], lambda now: 0.0
    observed, next_observation = 0, 0.1
    for cycle in range(round(SECONDS / CYCLE)):
        now = cycle * CYCLE
        if now >= next_observation:
            goal = REACH * (int(observed * PERIOD / SWITCH) % 2 == 0)
            observed, next_observation = observed + 1, next_observation + PERIOD
            coming.append((now + INFERENCE + random.uniform(0, JITTER), ("send", now, position, velocity, goal)))
        for due, what in [event for event in coming if event[0] <= now]:
            coming.remove((due, what))
            if what[0] == "arrive":
                stamp, times, points = what[1]
                playback.take(stamp, times, points, ns(NOW_S + now))
                continue
            _, seen, seen_position, seen_velocity, goal = what
            chunk = policy(seen_position, seen_velocity, goal)
            acceleration_of = meant_acceleration(seen, seen_position, seen_velocity, goal)
            if space is ControlSpace.VELOCITY:
                chunk = np.diff(chunk, axis=0, prepend=seen_position[None]) / STEP
            made = node.trajectory(chunk, (position, velocity), now, seen)
            coming.append((now + random.uniform(*TRANSPORT), ("arrive", made)))
        told = playback.command(ns(NOW_S + now), ns(NOW_S + now + CYCLE), np.stack([position, velocity]))[0]
        before, position = position, position + (1 - np.exp(-CYCLE / LAG)) * (told - position)
        velocity = (position - before) / CYCLE
        commanded.append(told[0])
        meant.append(acceleration_of(now))
    return np.array(commanded), np.array(meant)


def meant_acceleration(
    seen: float, position: np.ndarray, velocity: np.ndarray, goal: float
) -> Callable[[float], float]:
    """The second derivative of the policy's positions, at a time, s, from its observation on."""
    away = float(position[0] - goal)
    rate = float(velocity[0]) + PACE * away
    return lambda now: (PACE**2 * (away + rate * (now - seen)) - 2 * PACE * rate) * float(np.exp(-PACE * (now - seen)))


if __name__ == "__main__":
    main()
