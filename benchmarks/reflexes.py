"""Reflexes of a Franka Research 3 under a jittery planner, judged by franka-sim's checks of its control interface.

`python -m benchmarks.reflexes [--minutes 30]`, in simulated time at 1 kHz: every command is judged. The planner sends
the next 0.8 s of a motion at 10 Hz, from where it believes the arm to be, and late. Needs franka-sim (see
requirements/peers.txt).
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from ruckig import InputParameter, OutputParameter, Ruckig

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.governor.executor import Executor
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.parameters.parameters import NodeParameters
from traj_integrator_ros.requests.inputs import Actions

from .executed.playing import CYCLE_NS, CYCLE_S, Controller, RowsAsPoints

BEGIN_NS, PERIOD_NS, TICK_NS = 10**12, 100_000_000, 10_000_000
"""Begin, time between chunks, and time between two runs of the supervision, ns."""
STEP, ROWS = 0.05, 16
"""Time between rows of a chunk, s, and number of rows."""
LATE_S, OFFSET, NOISE, LAG = (0.02, 0.08), 5e-3, 1e-3, 0.04
"""Delay of chunks, s; errors of whole chunks and of rows, rad, one sigma; lag of joints behind commands, s."""
READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
AMPLITUDE, RATE = np.array([0.5, 0.3, 0.4, 0.3, 0.5, 0.4, 0.6]), np.array([0.9, 1.3, 0.7, 1.1, 1.7, 1.5, 1.2])
"""Amplitude, rad, and speed, rad/s, of the motion: at most a third of each velocity limit."""
FADE_S = 2.0
Commands = Iterator[np.ndarray]
"""Yields the commanded positions of one cycle after the other, rad, `[7]`."""


class Chunk(NamedTuple):
    """Positions `[ROWS, 7]` from a time on, and their time of arrival, ns."""

    stamp_ns: int
    arrives_ns: int
    rows: np.ndarray


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
    for name, way in (("the executor", executor), ("ruckig to the next row", to_rows), ("rows as points", points)):
        found = judged(way(chunks(seconds), round(seconds / CYCLE_S)))
        first = f"after {found.first * CYCLE_S:.2f} s: {found.name}" if found.causes else "none"
        share = f"{found.causes / found.commands:.1%}"
        print(f"| {name} | {first} | {share} | {1e3 * found.apart:.1f} mrad |", flush=True)
        causes.append(found.causes)
    return int(causes[0] > 0)


def planned(time: np.ndarray | float) -> np.ndarray:
    """The intended motion, rad, by time, s: sines that fade in."""
    time = np.asarray(time, float)[..., None]
    return READY + AMPLITUDE * np.sin(RATE * time) * (1 - np.exp(-((time / FADE_S) ** 3)))


def chunks(seconds: float) -> Iterator[Chunk]:
    """The planner's chunks: the same for all ways of commanding."""
    random = np.random.default_rng(0)
    for stamp_ns in range(0, round(seconds * 1e9), PERIOD_NS):
        rows = planned(stamp_ns * 1e-9 + STEP * np.arange(1, ROWS + 1))
        rows = rows + random.normal(0, OFFSET, 7) + random.normal(0, NOISE, rows.shape)
        yield Chunk(BEGIN_NS + stamp_ns, BEGIN_NS + stamp_ns + round(1e9 * random.uniform(*LATE_S)), rows)


def judged(commands: Commands) -> Judgement:
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


def executor(sent: Iterator[Chunk], cycles: int) -> Commands:
    """Yield commands sampled from the node's motions."""
    kept = {f"limits__{name}": values for name, values in limits().items()}
    names = [f"joint{number}" for number in range(1, 8)]
    node = Executor(NodeParameters.of(names, device="cpu", start_from="previous", **kept))
    behind, next_one = [READY] * round(LAG / CYCLE_S), next(sent)
    for now_ns in range(BEGIN_NS, BEGIN_NS + cycles * CYCLE_NS, CYCLE_NS):
        if now_ns % TICK_NS == 0:
            node.joint_state(behind[0], (behind[1] - behind[0]) / CYCLE_S, now_ns)
            node.tick(now_ns)
        if next_one is not None and now_ns >= next_one.arrives_ns:
            node.execute(Actions(next_one.stamp_ns, ControlSpace.POSITION.value, STEP, next_one.rows), now_ns)
            next_one = next(sent, None)
        command = node.sample(now_ns).position
        behind = [*behind[1:], command]
        yield command


def to_rows(sent: Iterator[Chunk], cycles: int) -> Commands:
    """Yield commands of ruckig, whose target is the next row with the velocity between rows, within the same limits."""
    otg, given, made = Ruckig(7, CYCLE_S), InputParameter(7), OutputParameter(7)
    given.max_velocity, given.max_acceleration, given.max_jerk = (
        limits()[name] for name in ("velocity", "acceleration", "jerk")
    )
    given.current_position = given.target_position = READY.tolist()
    chunk, next_one = None, next(sent)
    for now_ns in range(BEGIN_NS, BEGIN_NS + cycles * CYCLE_NS, CYCLE_NS):
        if next_one is not None and now_ns >= next_one.arrives_ns:
            chunk, next_one = next_one, next(sent, None)
        if chunk is not None:
            row = min(int((now_ns - chunk.stamp_ns) * 1e-9 / STEP), ROWS - 1)
            given.target_position = chunk.rows[row].tolist()
            given.target_velocity = ((chunk.rows[row] - chunk.rows[max(row - 1, 0)]) / STEP).tolist()
        otg.update(given, made)
        made.pass_to_input(given)
        yield np.array(made.new_position)


def points(sent: Iterator[Chunk], cycles: int) -> Commands:
    """Yield commands of the model of joint_trajectory_controller, whose trajectories have the rows as points."""
    rest = State(READY, *np.zeros((2, 7)))
    node, arm = RowsAsPoints(7, start_from="previous"), Controller(rest, BEGIN_NS, lag=LAG)
    node.begin(rest, BEGIN_NS)
    for chunk in sent:
        arm.run(chunk.arrives_ns)
        fields = Actions(chunk.stamp_ns, ControlSpace.POSITION.value, STEP, chunk.rows)
        arm.receive(node.answer(fields, chunk.arrives_ns), chunk.arrives_ns)
    arm.run(BEGIN_NS + cycles * CYCLE_NS)
    yield from arm.commanded().states[0]


if __name__ == "__main__":
    raise SystemExit(main())
