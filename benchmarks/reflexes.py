"""Reflexes of a Franka Research 3 under a jittery planner, judged by franka-sim's checks of its control interface.

`python -m benchmarks.reflexes [--minutes 5]`, in simulated time at 1 kHz: every command is judged. The planner sends
the next 0.8 s of a motion at 10 Hz, from where it believes the arm to be, and late. Needs franka-sim (see
requirements/peers.txt).
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path

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


def main() -> int:
    """Print the robot's verdict on each way of commanding the chunks; return 0 if the executor causes no reflex."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reflexes", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="of motion (default: 5)")
    seconds = 60 * parser.parse_args().minutes
    if importlib.util.find_spec("franka_sim") is None:
        parser.error("franka-sim is not installed (requirements/peers.txt)")
    print("| commanded by | first reflex | commands that cause one | from the planned motion, rms |\n|---|---|---|---|")
    stopped = {}
    stream = Stream(STEP, chunks(seconds), READY, seconds, limits(), LAG)
    for name, way in WAYS.items():
        commands = way(stream)
        apart = np.sqrt(np.mean((commands - planned(CYCLE_S * np.arange(len(commands)))) ** 2))
        stopped[name] = causes = reflexes(commands)
        first = "after {:.2f} s: {}".format(*causes[0]) if causes else "none"
        print(f"| {name} | {first} | {len(causes) / len(commands):.1%} | {1e3 * apart:.1f} mrad |", flush=True)
    return int(bool(stopped[EXECUTOR]))


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


def reflexes(commands: np.ndarray) -> list[tuple[float, str]]:
    """Return times, s, and names of a robot's reflexes to commands; a real robot stops after one, this one goes on."""
    from franka_sim.control_modes import ControlMode
    from franka_sim.limits.checker import MotionLimitChecker

    checker, found = MotionLimitChecker(), []
    checker.start_motion(ControlMode.POSITION, {"q_d": READY.tolist()})
    for cycle, command in enumerate(commands):
        asked = {"q_c": command.tolist(), "message_id": cycle + 1}
        if (violation := checker.check(asked)) is not None:
            found.append((cycle * CYCLE_S, violation.error_name))
        checker.record(asked)
    return found


def limits() -> dict[str, list[float]]:
    """Limits of config/fr3.yaml, which all ways of commanding keep."""
    file = Path(__file__).resolve().parents[1] / "config" / "fr3.yaml"
    [node] = yaml.safe_load(file.read_text(encoding="utf-8")).values()
    return node["ros__parameters"]["limits"]


EXECUTOR = "the executor"
WAYS: dict[str, Callable[[Stream], np.ndarray]] = {
    EXECUTOR: lambda stream: by_executor(stream)[0],
    "ruckig to the next row": online,
    "joint_trajectory_controller": partial(controller, hard_replacement=True, interpolate_from_desired_state=True),
}


if __name__ == "__main__":
    raise SystemExit(main())
