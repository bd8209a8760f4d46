"""Reflexes of a Franka Research 3 under a jittery planner, judged by franka-sim's checks of its control interface.

`python -m benchmarks.reflexes [--minutes 30]`, in simulated time at 1 kHz: every command is judged. The planner sends
the next 0.8 s of a motion at 10 Hz, from where it believes the arm to be, and late. Needs franka-sim (see
requirements/peers.txt).
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from .chunks import CYCLE_S, Chunk, Stream
from .optimum import by_executor
from .players import controller, online

PERIOD = 0.1
"""Time between chunks, s."""
STEP, ROWS = 0.05, 16
"""Time between rows of a chunk, s, and number of rows."""
LATE_S, OFFSET, NOISE, LAG = (0.02, 0.08), 5e-3, 1e-3, 0.04
"""Delay of chunks, s; errors of whole chunks and of rows, rad, one sigma; lag of joints behind commands, s."""
READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
AMPLITUDE, RATE = np.array([0.5, 0.3, 0.4, 0.3, 0.5, 0.4, 0.6]), np.array([0.9, 1.3, 0.7, 1.1, 1.7, 1.5, 1.2])
"""Amplitude, rad, and speed, rad/s, of the motion: at most a third of each velocity limit."""
FADE_S = 2.0


class Judgement(NamedTuple):
    """Number of commands and of reflexes, the first reflex and its name; the rms distance, rad."""

    commands: int
    causes: int
    first: int
    name: str
    apart: float


def main() -> int:
    """Print the robot's verdict on each way of commanding the chunks; return 0 if the executor causes no reflex."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reflexes", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="of motion (default: 30)")
    seconds = 60 * parser.parse_args().minutes
    if importlib.util.find_spec("franka_sim") is None:
        parser.error("franka-sim is not installed (requirements/peers.txt)")
    print("| commanded by | first reflex | commands that cause one | from the planned motion, rms |\n|---|---|---|---|")
    causes = []
    stream = Stream(STEP, chunks(seconds), READY, seconds, limits(), LAG)
    for name, way in WAYS.items():
        found = judged(way(stream))
        first = f"after {found.first * CYCLE_S:.2f} s: {found.name}" if found.causes else "none"
        share = f"{found.causes / found.commands:.1%}"
        print(f"| {name} | {first} | {share} | {1e3 * found.apart:.1f} mrad |", flush=True)
        causes.append(found.causes)
    return int(causes[0] > 0)


def planned(time: np.ndarray | float) -> np.ndarray:
    """The intended motion, rad, by time, s: sines that fade in."""
    time = np.asarray(time, float)[..., None]
    return READY + AMPLITUDE * np.sin(RATE * time) * (1 - np.exp(-((time / FADE_S) ** 3)))


def chunks(seconds: float) -> list[Chunk]:
    """The planner's chunks: the same for all ways of commanding."""
    random, found = np.random.default_rng(0), []
    for observed in np.arange(0.0, seconds, PERIOD):
        rows = planned(observed + STEP * np.arange(1, ROWS + 1))
        rows = rows + random.normal(0, OFFSET, 7) + random.normal(0, NOISE, rows.shape)
        found.append(Chunk(observed, observed + random.uniform(*LATE_S), rows))
    return found


def judged(commands: np.ndarray) -> Judgement:
    """Return a robot's verdict on commands; a real robot stops after a reflex, this one goes on."""
    from franka_sim.control_modes import ControlMode
    from franka_sim.limits.checker import MotionLimitChecker

    checker, found, squares = MotionLimitChecker(), [], 0.0
    checker.start_motion(ControlMode.POSITION, {"q_d": READY.tolist()})
    for cycle, command in enumerate(commands):
        asked = {"q_c": command.tolist(), "message_id": cycle + 1}
        if (violation := checker.check(asked)) is not None:
            found.append((cycle, violation.error_name))
        checker.record(asked)
        squares += float(np.square(command - planned(cycle * CYCLE_S)).mean())
    return Judgement(cycle + 1, len(found), *(found or [(-1, "")])[0], float(np.sqrt(squares / (cycle + 1))))


def limits() -> dict[str, list[float]]:
    """Limits of config/fr3.yaml, which all ways of commanding keep."""
    file = Path(__file__).resolve().parents[1] / "config" / "fr3.yaml"
    [node] = yaml.safe_load(file.read_text(encoding="utf-8")).values()
    return node["ros__parameters"]["limits"]


WAYS: dict[str, Callable[[Stream], np.ndarray]] = {
    "the executor": lambda stream: by_executor(stream)[0],
    "ruckig to the next row": online,
    "joint_trajectory_controller": partial(controller, hard_replacement=True),
}


if __name__ == "__main__":
    raise SystemExit(main())
