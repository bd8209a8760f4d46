"""`ros2 run traj_integrator_ros retime`: gives a path times within the robot's limits."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..limits.joint_limits import JointLimits, limits_lacking
from ..motions.files import read_samples
from ..motions.samples import Nature, Samples, samples_of
from ..motions.writing import write_table
from .command_line import (
    EXIT_FAILED,
    ToolFailure,
    ToolParser,
    UserError,
    add_unit_options,
    file,
    note,
    output,
    positive,
    run_tool,
    units_of,
)
from .drawing import draw_motion
from .robot import Robot, add_robot_options, load_robot

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels.retime import MotionLimits, Retimed

NAME = "retime"
_KINDS = "velocity", "acceleration", "jerk"
EXAMPLES = (
    (f"{NAME} plan.csv --params my_robot.yaml --out slowed.csv", "the plan as it is, slowed where it exceeds a limit"),
    (f"{NAME} path.csv --urdf my.urdf --fastest --out timed.csv --plot timed.png", "a path in its shortest time"),
    (f"{NAME} path.csv --urdf robot.urdf --acceleration 5 --order 2 --fastest --out timed.csv", "limits of a URDF"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Retime a motion; returns 0, or 1 if no motion along the path keeps the limits."""
    parser = ToolParser(
        NAME,
        "Finds when a path is passed so that velocity, acceleration and jerk keep the robot's limits, between the\n"
        "points, too. A plan keeps its own times where it keeps the limits; with --fastest only its positions count.",
        EXAMPLES,
    )
    parser.option("file", "a table, NPZ, or a rosbag2 recording", "FILE", file)
    parser.option("--topic", "topic of a bag, if it has several")
    add_unit_options(parser)
    add_robot_options(parser, "parameter file of the node: limits")
    for name, unit in zip(_KINDS, ("rad/s", "rad/s^2", "rad/s^3"), strict=True):
        parser.option(f"--{name}", f"limit of all joints, {unit}, instead of the robot's", "LIMIT", positive)
    parser.flag("--fastest", "in the shortest time, from rest to rest")
    description = (
        "time the smoothest path within this of the rows: the step of the encoders that recorded them (default: 0)"
    )
    parser.option("--tolerance", description, "RAD", positive, 0.0)
    parser.option("--duration", "with --fastest: in this time instead", "S", positive)
    parser.add_argument("--order", type=int, choices=(2, 3), default=3, help="2: no limit of jerk (default: 3)")
    parser.add_argument("--out", type=output, required=True, metavar="FILE", help="the motion, .csv")
    parser.option("--plot", "figure: the motion over the one before, with the limits", "FILE", output)
    return run_tool(NAME, lambda: _retime(parser.parse(arguments)))


def _retime(options: argparse.Namespace) -> int:
    if options.out.suffix != ".csv":
        raise UserError(f"--out: expected a file ending in .csv, got {options.out}")
    if options.duration is not None and not options.fastest:
        raise UserError("--duration: expected with --fastest; a plan is slowed only where it exceeds a limit")
    robot = load_robot(options.params, options.urdf)
    samples = robot.unwrapped(read_samples(options.file, options.topic, note, units=units_of(options)))
    from ..kernels import BackendUnavailable  # imports torch, which a wrong file does not need
    from ..kernels.retime import retime

    robot = robot.for_motion(samples.joint_names)
    rows, given = _rows_of(samples, options)
    try:
        limits = _limits_of(robot, samples, options)
        wanted = {"order": options.order, "duration": options.duration, "tolerance": options.tolerance}
        asked = partial(retime, rows, limits, **wanted, **given)
        found = _computed(asked, f"timing {rows.shape[1]} rows")
    except ValueError as error:
        raise UserError(f"{options.file}: {error}") from None
    except BackendUnavailable as error:
        raise ToolFailure(str(error)) from None
    if not bool(found.ok):
        wanted = "" if options.duration is None else f"--duration {options.duration:g}: "
        print(f"{NAME}: {options.file}: {wanted}{found.reason(0)}", file=sys.stderr)
        return EXIT_FAILED
    times, states = found.points(0)
    rows = [None if state is None else state.numpy() for state in states]
    timed = samples_of(options.file, samples.joint_names, times.numpy(), rows, "retimed", Nature.EXACT)
    write_table(options.out, timed)
    if options.plot is not None:
        kept = {name: getattr(limits, name).numpy() for name in _KINDS[: options.order]}
        robot = replace(robot, limits=JointLimits(joint_names=samples.joint_names, **kept))
        draw_motion(options.plot, timed, robot, reference=samples, title=f"{options.file.name}, retimed")
    print(f"{options.out}: {_told(found, samples, len(times))}")
    return 0


def _computed(work: Callable[[], Retimed], what: str) -> Retimed:
    """Return the result of work in C++. Meanwhile Ctrl-C ends the tool, and after a second a line says what is done."""
    future: Future[Retimed] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # Any error belongs to the waiting caller.
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()  # A thread of a pool would keep the process alive.
    if not wait([future], 1.0).done:
        print(f"{what} ...", flush=True)
    return future.result()


def _rows_of(samples: Samples, options: argparse.Namespace) -> tuple[Tensor, dict[str, object]]:
    """Return the waypoints `[1, N, D]`, and the other arguments of `retime`."""
    import torch

    arrays = [samples.position] if options.fastest else [samples.position, samples.velocity, samples.acceleration]
    position, *rates = (None if x is None else torch.from_numpy(np.array(x, np.float64))[None] for x in arrays)
    if options.fastest:
        return position, {"mode": "fastest"}
    velocity, acceleration = rates
    if options.tolerance or (options.order == 3 and (velocity is None or acceleration is None)):
        velocity = acceleration = None  # A spline through or near the positions; order 3 needs both or neither.
    dt = torch.from_numpy(np.diff(samples.time))
    return position, {"mode": "slow only", "dt": dt, "velocity": velocity, "acceleration": acceleration}


def _limits_of(robot: Robot, samples: Samples, options: argparse.Namespace) -> MotionLimits:
    """Return the limits of the motion's joints. Raises UserError if one is missing."""
    import torch

    from ..kernels.retime import MotionLimits

    found: dict[str, object] = {}
    for name in _KINDS[: options.order]:
        limits = None if robot.limits is None else robot.limits.of_joints(samples.joint_names).range_of(name)[1]
        if (everywhere := getattr(options, name)) is not None or limits is None:
            limits = np.full(samples.dof, everywhere or np.inf)
        if lacking := limits_lacking(samples.joint_names, limits):
            raise UserError(f"--{name}: expected a limit of {lacking}, from --params, --urdf or this option, got none")
        found[name] = torch.from_numpy(limits)
    return MotionLimits(**found)


def _told(found: Retimed, samples: Samples, points: int) -> str:
    """Describe the duration, and the limits that determine it, in a line."""
    duration = float(found.duration[0])
    if bool(found.unchanged[0]):
        return f"unchanged, {points} points, {duration:.3f} s: it keeps the limits"
    most, kind, segment = found.worst(0)
    joint = samples.joint_names[int(found.segment_joint[0, segment, kind])]
    return (
        f"{points} points, {duration:.3f} s (was {samples.duration:.3f} s); "
        f"at most {100 * most:.2f} % of a limit: {_KINDS[kind]} of {joint}"
    )


if __name__ == "__main__":
    sys.exit(main())
