"""Draws docs/figures/lerobot.png: what is commanded at 1 kHz of a policy's actions, directly and through the node.

A policy at 30 Hz computes a chunk every 0.1 s, each of which is off a little. Its chunks arrive with jitter, or three
actions of each one by one, as LeRobot's loops send them; joints lag 40 ms. Sent to the model of the controller they are
positions at times; through the node they pass the package of examples/lerobot. Run `python docs/figures/lerobot.py` in
the project's environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "lerobot" / "lerobot_robot_ros2_control"), str(ROOT)]

from pace import Pace  # noqa: E402

from benchmarks.chunks import CYCLE_S  # noqa: E402
from kit.arm import Robot  # noqa: E402
from soak.streams.core import NodeCore  # noqa: E402
from traj_integrator_ros.governor.executable import ExecutableTrajectory  # noqa: E402
from traj_integrator_ros.kernels import ControlSpace  # noqa: E402
from traj_integrator_ros.motions.figures import BLUE, GREEN, MOTION_GREY, ORANGE, figure  # noqa: E402
from traj_integrator_ros.requests.inputs import Actions  # noqa: E402

DELAY, BANDWIDTH = 0.8, 5.0  # periods, Hz: the defaults of the robot, for single actions
STEP, HORIZON, REPLAN, SECONDS, SHOWN = 1 / 30, 50, 3, 8.0, slice(2000, None)
OFF, NOISE = 0.005, 0.0005  # rad: of a chunk, of an action
LOOP_JITTER = 0.008  # s, of single actions
LAG, INFERENCE, JITTER, TRANSPORT = 0.04, 0.1, 0.03, (0.001, 0.004)  # s, those of action_chunks.py
NOW_NS, SUPERVISION_NS = 10**12, 10_000_000
START_DEVIATION = 0.1  # rad, the node's default
LIMITS = {"limits__velocity": [2.0], "limits__acceleration": [10.0], "limits__jerk": [500.0]}
DRAWN = 2.0, 4.0  # s
ORDERS = (
    ("acceleration", "rad/s²", 2, [-1e4, -1e2, -1, 1, 1e2, 1e4]),
    ("jerk", "rad/s³", 3, [-1e8, -1e5, -1e2, 1e2, 1e5, 1e8]),
)
WAYS = ("sent to the controller", "sent, interpolate_from_desired_state", "through the node")
Arrival = tuple[float, float, np.ndarray]
"""Time at which actions arrive, time of their observation, s, and the actions `[H]`, rad."""


def meant(time: np.ndarray) -> np.ndarray:
    """The motion that the policy has in mind, rad."""
    return 0.4 * (1 - np.cos(np.pi / 2 * time))


def main() -> None:
    """Command both streams both ways, and draw the accelerations and jerks."""
    time = CYCLE_S * np.arange(round(SECONDS / CYCLE_S))
    with figure(Path(__file__).with_suffix(".png"), 15, 6.4) as drawn:
        panels = drawn.subplots(len(ORDERS), 2, sharex=True, sharey="row")
        for column, (title, single) in enumerate((("chunks at 10 Hz", False), ("single actions at 30 Hz", True))):
            pace = Pace(round(STEP * 1e9), DELAY, LIMITS["limits__acceleration"][0], START_DEVIATION)
            direct, node = Directly(), ThroughNode(pace if single else None)
            ways = zip(WAYS, (direct, direct, node), (False, True, False), strict=True)
            rows = {name: command(list(arrivals(single)), way, desired) for name, way, desired in ways}
            for axes, (quantity, unit, order, ticks) in zip(panels[:, column], ORDERS, strict=True):
                said = []
                for color, (name, positions) in zip((ORANGE, GREEN, BLUE), rows.items(), strict=True):
                    values = np.diff(positions, order) / CYCLE_S**order
                    axes.plot(time[order:][SHOWN], values[SHOWN], color=color, linewidth=0.9, label=name)
                    rms = np.sqrt(np.mean(values[SHOWN] ** 2))
                    said.append(f"{float(f'{np.abs(values[SHOWN]).max():.2g}'):,.10g}")
                    print(f"{title}, {name}: {quantity} up to {np.abs(values[SHOWN]).max():.3g}, rms {rms:.3g} {unit}")
                own = np.diff(meant(time), order) / CYCLE_S**order
                axes.plot(
                    time[order:][SHOWN], own[SHOWN], color=MOTION_GREY, linewidth=2.0, label="meant by the policy"
                )
                axes.set_title(f"{title}: {', '.join(said)} {unit}", loc="left")
                axes.set_yscale("symlog", linthresh=1)
                axes.set_yticks(ticks)
                axes.set_xlim(*DRAWN)
            for name, positions in rows.items():
                delay, off = tracked(positions, time)
                print(f"{title}, {name}: {delay * 1e3:.0f} ms behind the policy, and off {off * 1e3:.1f} mrad rms")
        drawn.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        for axes, (quantity, unit, *_) in zip(panels[:, 0], ORDERS, strict=True):
            axes.set_ylabel(f"{quantity} [{unit}]")
        for axes in panels[-1]:
            axes.set_xlabel("time [s]")


def arrivals(single: bool) -> Iterator[Arrival]:
    """Actions of the policy."""
    random = np.random.default_rng(0)
    for seen in np.arange(0.1, SECONDS - STEP, REPLAN * STEP):
        rows = meant(seen + STEP * np.arange(1, HORIZON + 1)) + random.normal(0, OFF) + random.normal(0, NOISE, HORIZON)
        if single:
            for k in range(REPLAN):
                yield seen + k * STEP + random.uniform(0, LOOP_JITTER), seen + k * STEP, rows[k : k + 1]
        else:
            yield seen + INFERENCE + random.uniform(0, JITTER), seen, rows


class Directly:
    """Actions are points of trajectories; those of a chunk whose time has passed are dropped."""

    def step(self, robot: Robot, now: float, arrived: list[Arrival]) -> None:
        """Hand over what has arrived."""
        for _, seen, rows in arrived:
            due = STEP * np.arange(1, len(rows) + 1) - (now - seen if len(rows) > 1 else 0.0)
            due_ns = np.rint(due * 1e9).astype(np.int64)
            robot.receive(robot.joints, due_ns[due > 0], rows[due > 0, None], now_ns=ns(now))


class ThroughNode:
    """Actions pass the node, single ones by a pace."""

    def __init__(self, pace: Pace | None) -> None:
        self.pace = pace
        bandwidth = {"publish__bandwidth": BANDWIDTH} if pace else {}
        self.node = NodeCore(["joint0"], start_from="previous", **bandwidth, **LIMITS)
        self.random = np.random.default_rng(0)
        self.coming: list[tuple[float, ExecutableTrajectory]] = []

    def step(self, robot: Robot, now: float, arrived: list[Arrival]) -> None:
        """Hand over what has arrived, and what the node has made of it."""
        position, velocity = robot.measured()
        if ns(now) % SUPERVISION_NS == 0:
            self.node.joint_state(position, velocity, ns(now))
            self._publish(now, self.node.tick(ns(now)))
        for _, seen, rows in arrived:
            chunk, stamp_ns = rows[:, None], ns(seen)
            if self.pace is not None:
                chunk, stamp_ns = self.pace.chunk(rows, ns(now), lambda _, count: np.tile(position, (count, 1)))
            fields = Actions(stamp_ns, ControlSpace.POSITION.value, STEP, chunk)
            self._publish(now, self.node.execute(fields, ns(now)))
        while self.coming and self.coming[0][0] <= now:
            _, made = self.coming.pop(0)
            if not robot.receive(robot.joints, *made.points, now_ns=ns(now), stamp_ns=made.stamp_ns):
                raise RuntimeError(robot.refusal)

    def _publish(self, now: float, made: ExecutableTrajectory | None) -> None:
        if made is not None:
            self.coming.append((now + self.random.uniform(*TRANSPORT), made))


def ns(time: float) -> int:
    """Nanoseconds of the clock of all of them, from the beginning on."""
    return NOW_NS + round(time * 1e9)


def command(events: list[Arrival], way: Directly | ThroughNode, desired: bool) -> np.ndarray:
    """Commanded positions, `[cycles]`; `desired`: the controller begins trajectories at its last command."""
    robot = Robot(["joint0"], rate=1 / CYCLE_S, lag=LAG, hard_replacement=True, interpolate_from_desired_state=desired)
    robot.set_state([0.0])
    commanded = []
    for now in CYCLE_S * np.arange(round(SECONDS / CYCLE_S)):
        arrived = [events.pop(0) for _ in range(sum(at <= now for at, *_ in events))]
        way.step(robot, now, arrived)
        commanded.append(robot.update(ns(now))[0, 0])
    return np.array(commanded)


def tracked(positions: np.ndarray, time: np.ndarray) -> tuple[float, float]:
    """Return how late a command follows what the policy means, s, and how far it is off then, rad rms."""
    found = [(float(np.std((positions - meant(time - late))[SHOWN])), late) for late in np.arange(0.0, 0.2, 0.005)]
    off, late = min(found)
    return late, off


if __name__ == "__main__":
    main()
