"""`ros2 run traj_integrator_ros integrate`: actions or joint states of a file to trajectories, without a node."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence as Arguments
from typing import TYPE_CHECKING

import numpy as np

from ..motions.extras import require
from ..motions.files import read_samples
from ..motions.samples import QUANTITIES, Samples
from ..motions.units import JointUnits
from .command_line import UserError, run_tool
from .integration_input import BSPLINE, STATE, Sequence, completed, read_sequences
from .integration_options import DEFAULT_DT_S, NAME, assumed, parse
from .integration_output import Integrated, write_archive, write_bag, write_table
from .plot_trajectory import PICTURES
from .progress import Progress, make_progress
from .robot import Robot, load_robot

if TYPE_CHECKING:  # bring torch with them
    from ..engine.integrator import TrajectoryIntegrator
    from ..handling.requests import ActionRequest

SHOWN_VIOLATIONS = 20


def main(arguments: Arguments[str] | None = None) -> int:
    """Integrate a file; returns the exit code."""
    options = parse(arguments)
    return run_tool(NAME, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.batch_file:
        from .integration_batch import integrate_file

        return integrate_file(options)
    if options.out is None and options.plot is None:
        raise UserError("--out, --plot: expected at least one of them, got none")
    if options.out is not None and options.out.suffix not in (".csv", ".npz", ""):
        raise UserError(f"--out: expected .csv, .npz or a folder without a suffix for a bag, got {options.out}")
    if options.plot is not None and options.plot.suffix not in PICTURES:
        raise UserError(f"--plot: expected a file ending in {', '.join(PICTURES)}, got {options.plot}")
    if options.plot is not None:
        require("matplotlib", "--plot")
    if options.out is not None and options.out.suffix == "":
        require("rosbags", "--out: writing bags")
    robot = load_robot(options.params, options.urdf)  # before the work, because it may be wrong
    with make_progress(quiet=options.quiet) as progress:
        progress.stage("Reading")
        sequences, told = _read(options, robot.units)
        if options.sequence is not None:
            if options.sequence >= len(sequences):
                raise UserError(f"--sequence: expected less than {len(sequences)}, got {options.sequence}")
            sequences = [sequences[options.sequence]]
        robot = robot.for_motion(sequences[0].joint_names)
        results, exceeded, seconds = _integrate_all(sequences, robot, options, progress)
        progress.stage("Writing")
        _write(sequences, results, robot, options)
    _conclude(sequences, results, robot, options, seconds, told)
    for line in exceeded[:SHOWN_VIOLATIONS]:
        print(f"limit exceeded: {line}")
    if len(exceeded) > SHOWN_VIOLATIONS:
        print(f"limit exceeded: ... and {len(exceeded) - SHOWN_VIOLATIONS} more")
    return 0


def _read(options: argparse.Namespace, units: JointUnits) -> tuple[list[Sequence], list[str]]:
    """The sequences, and what had to be assumed for lack of a word in the file or an option."""
    form = {name: getattr(options, name) for name in ("degree", "steps", "layout") if getattr(options, name)}
    if options.fit is not None:
        from .integration_spline import fit  # brings torch with it

        return [fit(read_samples(options.file, options.topic), options.fit, form, units)], []
    start = _given(options, "start")
    sequences = read_sequences(options.file, options.control_space, options.topic, start)
    goal = _given(options, "goal")
    dt = {} if options.dt is None else {"dt": np.array([options.dt])}
    whole = [
        completed(dataclasses.replace(sequence, **dt), options.control_space, goal, form) for sequence in sequences
    ]
    return whole, _assumed(sequences, options)


def _assumed(sequences: list[Sequence], options: argparse.Namespace) -> list[str]:
    actions = [sequence for sequence in sequences if sequence.recorded is None]
    return assumed(
        options,
        space=any(not sequence.control_space for sequence in actions),
        dt=any(sequence.dt is None for sequence in actions),
        start=any("position" not in sequence.start for sequence in actions),
    )


def _given(options: argparse.Namespace, end: str) -> dict[str, list[float]]:
    values = {name: getattr(options, f"{end}_{name}") for name in STATE}
    return {name: row for name, row in values.items() if row is not None}


def _integrate_all(
    sequences: list[Sequence], robot: Robot, options: argparse.Namespace, progress: Progress
) -> tuple[list[Integrated], list[str], float]:
    """Integrate, find what exceeds a limit, and measure the time of that [s]."""
    from .integration_motion import request_of  # brings torch with it, which a wrong file does not need

    engines: dict[tuple[int, ...], TrajectoryIntegrator] = {}
    progress.stage("Integrating", float(len(sequences)), "sequences" if len(sequences) > 1 else "sequence")
    results, exceeded = [], []
    begin = time.monotonic()
    for number, sequence in enumerate(sequences):
        try:
            schemes = {name: getattr(options, name) for name in ("finite_difference", "acceleration_integrator")}
            request = request_of(sequence, DEFAULT_DT_S, **schemes)
            if options.rows:
                results.append(_integrate(sequence, request, options, engines))
                exceeded += _exceeded_in_rows(results[-1], robot)
            else:
                result, told = _planned(sequence, request, robot, options)
                results.append(result)
                exceeded += told
        except ValueError as error:
            which = f", sequence {number}" if len(sequences) > 1 else ""
            raise UserError(f"{options.file}{which}: {error}") from None
        progress.update(float(number + 1))
    return results, exceeded, time.monotonic() - begin


def _planned(
    sequence: Sequence, request: ActionRequest, robot: Robot, options: argparse.Namespace
) -> tuple[Integrated, list[str]]:
    from .integration_motion import integrated, limits_of, motions_of, stopped, told_steps, told_violations

    limits = limits_of(robot, sequence.joint_names)
    with np.errstate(all="ignore"):  # overflow is reported below
        plans = motions = motions_of(sequence, request)
        if all(np.isfinite(motion.coefficients).all() for motion in motions) and options.end == "stop":
            motions = [stopped(motion, limits) for motion in motions]
        result = integrated(sequence, motions)
        if request.spline is not None:
            result = dataclasses.replace(result, curves=tuple(motions))
    _require_finite(result)
    return result, [*told_violations(motions, limits, robot.units), *told_steps(plans, limits)]


def _require_finite(result: Integrated) -> None:
    for name in QUANTITIES:
        if not np.isfinite(getattr(result, name)).all():
            raise ValueError(f"expected a finite trajectory, got a {name} that is not")


def _exceeded_in_rows(result: Integrated, robot: Robot) -> list[str]:
    if robot.limits is None:
        return []
    from .drawing import violations

    rows = [result.samples(row, "") for row in range(len(result.position))]
    return [line for row in rows for line in violations(row, robot.limits, units=robot.units)]


def _integrate(sequence: Sequence, request: ActionRequest, options: argparse.Namespace, engines: dict) -> Integrated:
    from ..engine.integrator import IntegratorConfig, TrajectoryIntegrator

    if differences_of(sequence, options):
        return _differentiate(sequence)
    shape = request.actions.shape
    if shape not in engines:
        config = IntegratorConfig(
            dof=shape[2],
            finite_difference=options.finite_difference,
            acceleration_integrator=options.acceleration_integrator,
            device=options.device,
            dtype=options.dtype,
            max_batch=shape[0],
            max_horizon=shape[1],
        )
        engines[shape] = TrajectoryIntegrator(config)
    engine, space = engines[shape], request.control_map.control_space
    trajectory = engine.integrate_array(request.start, request.actions, request.dt, **request.map_and_rows)
    time_s = engine.time_from_start(request.dt, *shape[:2], space, request.spline)
    result = Integrated(sequence.joint_names, time_s, *trajectory.astype(np.float64))
    _require_finite(result)
    return result


def differences_of(sequence: Sequence, options: argparse.Namespace) -> bool:
    """Whether this is a motion of positions at uneven times, which the node takes on ~/position_trajectory.

    The kernels for actions divide by the individual step, and are exact for even steps.
    """
    uneven = sequence.recorded is not None and len(sequence.dt) > 1
    return uneven and sequence.control_space == "position" and options.finite_difference == "backward"


def _differentiate(sequence: Sequence) -> Integrated:
    import torch

    from ..kernels import differentiate_positions

    recorded = sequence.recorded
    arrays = (recorded.position, recorded.time, *(sequence.start[name][0] for name in STATE[1:]))
    trajectory = differentiate_positions(*(torch.from_numpy(np.array(values)) for values in arrays))
    return Integrated(sequence.joint_names, recorded.time, *(values.numpy()[None] for values in trajectory))


def _write(sequences: list[Sequence], results: list[Integrated], robot: Robot, options: argparse.Namespace) -> None:
    batch = len(results[0].position)
    if options.row >= batch:
        raise UserError(f"--row: expected less than {batch} (the batch), got {options.row}")
    chosen = results[0].samples(options.row, str(options.file))
    if options.out is not None and options.out.suffix == ".csv":
        write_table(options.out, chosen)
    elif options.out is not None and options.out.suffix == ".npz":
        write_archive(options.out, results, sequences[0] if options.fit is not None else None)
    elif options.out is not None:
        source = str(options.file)
        samples = [one.samples(row, source) for one in results for row in range(len(one.position))]
        write_bag(options.out, samples, results[0].with_accelerations)
    if options.plot is not None:
        from .drawing import draw_motion
        from .integration_motion import drawn

        shown = drawn(results[0], options.row, str(options.file))
        title = _title(sequences[0], options)
        draw_motion(options.plot, shown, robot.limits, reference=sequences[0].recorded, title=title, units=robot.units)


def _title(sequence: Sequence, options: argparse.Namespace) -> str:
    """What the figure shows: of which file, and what was done with it."""
    count, space = sequence.actions.shape[1], sequence.control_space
    if space == BSPLINE:
        what = f"{count} control points of degree {sequence.degree or 3}"
        what = f"fitted by {what}" if sequence.fitted else what
    else:
        what = f"integrated from its {space if sequence.recorded is not None else f'{count} {space} actions'}"
    row = f", trajectory {options.row} of {len(sequence.actions)}" if len(sequence.actions) > 1 else ""
    return f"{options.file.name}{row}: {what}"


def _conclude(
    sequences: list[Sequence],
    results: list[Integrated],
    robot: Robot,
    options: argparse.Namespace,
    seconds: float,
    told: list[str],
) -> None:
    trajectories = sum(len(one.position) for one in results)
    horizon, dof = results[0].position.shape[1:]
    of = f" of {len(sequences)} sequences" if len(sequences) > 1 else ""
    print(
        f"{trajectories} {'trajectory' if trajectories == 1 else 'trajectories'}{of}, {horizon} points, "
        f"{dof} {'joint' if dof == 1 else 'joints'}, "
        f"integrated in {1e3 * seconds:.1f} ms"
    )
    first = sequences[0]
    notes = [first.note] if first.note and options.rows else []
    if not options.rows and first.recorded is not None and first.recorded.velocity is None:
        notes.append("start velocity by differences")
    if not options.rows and options.end == "stop":
        notes.append("at rest in the end, after a brake where the plan does not stop (--end as_planned: without)")
    if options.rows and differences_of(first, options):
        notes.append("uneven steps: divided differences, as on ~/position_trajectory")
    for note in (*notes, *told):
        print(f"note: {note}")
    if first.fitted:
        print(f"fit: {first.fitted}")
    elif first.recorded is not None:
        differences = _differences(results[0].samples(0, ""), first.recorded, robot.units)
        print(f"RMS difference from the recording: {', '.join(differences)}")
    if options.out is not None and options.out.suffix == ".csv" and trajectories > 1:
        print(f"note: {options.out} has trajectory {options.row} of the first sequence; NPZ and bags take all")
    for path in (options.out, options.plot):
        if path is not None:
            print(f"written: {path}")


def _differences(integrated: Samples, recorded: Samples, units: JointUnits) -> list[str]:
    found = []
    for order, name in enumerate(QUANTITIES):
        expected, got = getattr(recorded, name), getattr(integrated, name)
        if expected is not None:
            rows = min(len(expected), len(got))
            away = got[:rows] - expected[:rows]
            found.append(f"{name} {units.rms(away, order, recorded.joint_names)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
