"""`ros2 run traj_integrator_ros integrate`: actions or joint states of a file to trajectories, without a node."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence as Arguments
from pathlib import Path

import numpy as np

from ..handling.limits import JointLimits
from ..handling.time_grid import DT_MAX_S, DT_MIN_S
from ..motions.extras import require
from ..motions.files import ARRAY_SUFFIXES
from ..motions.samples import QUANTITIES, Samples
from .command_line import ToolParser, UserError, count, numbers, positive, run_tool
from .integration_input import Sequence, read_sequences
from .integration_motion import integrated, limits_in_order, motions_of, stopped, told_violations
from .integration_output import Integrated, write_archive, write_bag, write_table
from .plot_trajectory import PICTURES
from .progress import Progress, make_progress
from .robot import limits_of, load_limits

NAME = "integrate"
DEFAULT_DT_S = 0.02
SHOWN_VIOLATIONS = 20
OF_ROWS = {"finite_difference": "backward", "device": "cpu", "dtype": "float64"}
"""Options that matter with --rows only, and their defaults."""
EXAMPLES = (
    (f"{NAME} recording.db3 --out trajectory.csv --plot trajectory.png", "recorded positions, as position control"),
    (f"{NAME} motion.csv --control-space acceleration --out out.npz", "its accelerations, integrated from its start"),
    (f"{NAME} sequences_bag --out integrated_bag", "every ActionSequence of a bag, to a bag"),
    (f"{NAME} actions.csv --dt 0.05 --start-position 0.1,0.2,0.3 --out out.csv", "a table of action_<joint> columns"),
)


def main(arguments: Arguments[str] | None = None) -> int:
    """Integrate a file; returns the exit code."""
    options = _parse(list(sys.argv[1:] if arguments is None else arguments))
    return run_tool(NAME, lambda: _run(options))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = ToolParser(
        NAME,
        "Integrates actions to trajectories with position, velocity, acceleration and jerk, as the node sends them\n"
        "to a controller, but without one: every action is executed, and a brake follows. In: a rosbag2 recording\n"
        "(ActionSequence messages, else joint states), CSV (action_<joint>, or time, position_<joint> ...), NPZ\n"
        "(actions, or time, position ...), YAML of a planned trajectory.",
        EXAMPLES,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="actions or a motion")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="trajectory: .csv, .npz, or a folder (no suffix) for a bag"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="figure of one trajectory, with what was recorded")
    parser.add_argument("--params", type=Path, metavar="FILE", help="parameter file of the node: limits")
    parser.add_argument("--topic", help="topic of a bag (default: the only one of its type)")
    parser.add_argument(
        "--control-space", choices=QUANTITIES, default="position", help="what actions are, or which of a motion's"
        " quantities are taken as actions (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--dt", type=_step, metavar="S", help="time step (default: that of the file, else 0.02)")
    for name in ("position", "velocity", "acceleration"):
        parser.add_argument(
            f"--start-{name}", type=numbers, metavar="A,B", help="start of actions that bring none (default: 0)"
        )
    parser.add_argument("--acceleration-integrator", choices=("zoh", "semi_implicit_euler"), default="zoh")
    parser.add_argument(
        "--end", choices=("stop", "as_planned"), default="stop", help="brake to rest after the last action, or not"
    )
    parser.add_argument(
        "--rows", action="store_true", help="the rows of ~/trajectory_batch and ~/integrate instead: no brake, and the"
        " last action leads to none of them",
    )  # fmt: skip
    rows = parser.add_argument_group("with --rows")
    rows.add_argument("--finite-difference", choices=("backward", "central"), help="default: backward")
    rows.add_argument("--device", help="cpu, cuda, cuda:N or auto (default: cpu)")
    rows.add_argument("--dtype", choices=("float32", "float64"), help="default: float64")
    parser.add_argument("--sequence", type=count, metavar="N", help="take this message of a bag only")
    parser.add_argument("--row", type=count, default=0, help="trajectory of a batch for CSV and figure (default: 0)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args(arguments)
    for name, default in OF_ROWS.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif not options.rows:
            parser.error(
                f"--{name.replace('_', '-')}: expected with --rows only: nothing else goes through the kernels"
            )
    return options


def _run(options: argparse.Namespace) -> int:
    if options.out is None and options.plot is None:
        raise UserError("--out, --plot: expected at least one of them, got none")
    if options.out is not None and options.out.suffix not in (".csv", *ARRAY_SUFFIXES, ""):
        raise UserError(f"--out: expected .csv, .npz or a folder without a suffix for a bag, got {options.out}")
    if options.plot is not None and options.plot.suffix not in PICTURES:
        raise UserError(f"--plot: expected a file ending in {', '.join(PICTURES)}, got {options.plot}")
    if options.plot is not None:
        require("matplotlib", "--plot")
    if options.out is not None and options.out.suffix == "":
        require("rosbags", "--out: writing bags")
    if options.params is not None:
        load_limits(options.params)  # before the work: it may be wrong
    start = {name: getattr(options, f"start_{name}") for name in ("position", "velocity", "acceleration")}
    with make_progress(quiet=options.quiet) as progress:
        progress.stage("Reading")
        given = {name: values for name, values in start.items() if values is not None}
        sequences = read_sequences(options.file, options.control_space, options.topic, given)
        if options.sequence is not None:
            if options.sequence >= len(sequences):
                raise UserError(f"--sequence: expected less than {len(sequences)}, got {options.sequence}")
            sequences = [sequences[options.sequence]]
        limits = limits_of(options.params, sequences[0].joint_names) if options.params is not None else None
        results, exceeded, seconds = _integrate_all(sequences, limits, options, progress)
        progress.stage("Writing")
        _write(sequences, results, limits, options)
    _conclude(sequences, results, options, seconds)
    for line in exceeded[:SHOWN_VIOLATIONS]:
        print(f"limit exceeded: {line}")
    if len(exceeded) > SHOWN_VIOLATIONS:
        print(f"limit exceeded: ... and {len(exceeded) - SHOWN_VIOLATIONS} more")
    return 0


def _integrate_all(
    sequences: list[Sequence], limits: JointLimits | None, options: argparse.Namespace, progress: Progress
) -> tuple[list[Integrated], list[str], float]:
    """Integrate, find what exceeds a limit, and measure the time of that [s]."""
    if options.rows:
        from ..engine.integrator import TrajectoryIntegrator  # brings torch with it: not for a wrong file

        engines: dict[tuple[int, ...], TrajectoryIntegrator] = {}
    progress.stage("Integrating", float(len(sequences)), "sequences")
    results, exceeded = [], []
    begin = time.monotonic()
    for number, sequence in enumerate(sequences):
        try:
            _check_steps(sequence)
            if options.rows:
                results.append(_integrate(sequence, options, engines))
                exceeded += _exceeded_in_rows(results[-1], limits)
            else:
                result, told = _planned(sequence, limits, options)
                results.append(result)
                exceeded += told
        except ValueError as error:
            which = f", sequence {number}" if len(sequences) > 1 else ""
            raise UserError(f"{options.file}{which}: {error}") from None
        progress.update(float(number + 1))
    return results, exceeded, time.monotonic() - begin


def _planned(
    sequence: Sequence, limits: JointLimits | None, options: argparse.Namespace
) -> tuple[Integrated, list[str]]:
    space = sequence.control_space or options.control_space
    for name in ("actions", "start_position", "start_velocity", "start_acceleration"):
        values = getattr(sequence, name)
        if values is not None and not np.isfinite(values).all():
            raise ValueError(f"{name}: expected finite numbers, got others")
    own = limits_in_order(limits, sequence.joint_names)
    with np.errstate(all="ignore"):  # what overflows is told of below
        motions = motions_of(sequence, space, options.acceleration_integrator, options.dt or _default_dt(sequence))
        if all(np.isfinite(motion.coefficients).all() for motion in motions) and options.end == "stop":
            motions = [stopped(motion, own, sequence.joint_names) for motion in motions]
        result = integrated(sequence, motions)
    if not all(np.isfinite(getattr(result, name)).all() for name in QUANTITIES):
        raise ValueError("expected a finite trajectory, got one that is not")
    return result, list(told_violations(motions, own, sequence.joint_names))


def _default_dt(sequence: Sequence) -> float | None:
    return DEFAULT_DT_S if sequence.dt is None else None


def _exceeded_in_rows(result: Integrated, limits: JointLimits | None) -> list[str]:
    if limits is None:
        return []
    from .drawing import violations

    return [line for row in range(len(result.position)) for line in violations(result.samples(row, ""), limits)]


def _step(text: str) -> float:
    """An argument that is a time step as the node takes them."""
    value = positive(text)
    if not DT_MIN_S <= value <= DT_MAX_S:
        raise argparse.ArgumentTypeError(f"expected {DT_MIN_S:g} to {DT_MAX_S:g} s, as the node, got {text!r}")
    return value


def _check_steps(sequence: Sequence) -> None:
    steps = np.ravel(sequence.dt) if sequence.dt is not None else np.zeros(0)
    wrong = steps[~((steps >= DT_MIN_S) & (steps <= DT_MAX_S))]
    if wrong.size:
        raise ValueError(f"dt: expected {DT_MIN_S:g} to {DT_MAX_S:g} s, as the node, got {wrong[0]:g}")


def _integrate(sequence: Sequence, options: argparse.Namespace, engines: dict) -> Integrated:
    from ..engine.integrator import IntegratorConfig, StartState, TrajectoryIntegrator
    from ..kernels import ControlSpace

    if differences_of(sequence, options):
        return _differentiate(sequence)
    shape = sequence.actions.shape
    if shape not in engines:
        config = IntegratorConfig(
            dof=shape[2],
            finite_difference=options.finite_difference,
            acceleration_integrator=options.acceleration_integrator,
            dt=options.dt or DEFAULT_DT_S,
            device=options.device,
            dtype=options.dtype,
            max_batch=shape[0],
            max_horizon=shape[1],
        )
        engines[shape] = TrajectoryIntegrator(config)
    engine = engines[shape]
    space = ControlSpace[(sequence.control_space or options.control_space).upper()]
    dt = None if options.dt or sequence.dt is None else sequence.dt
    dt = float(dt[0]) if dt is not None and dt.shape == (1,) else dt
    start = StartState(sequence.start_position, sequence.start_velocity, sequence.start_acceleration)
    trajectory = engine.integrate(start, sequence.actions, dt, control_space=space, start_index=sequence.start_index)
    arrays = [values.numpy().astype(np.float64) for values in trajectory]
    for name, values in zip(QUANTITIES, arrays, strict=True):
        if not np.isfinite(values).all():
            raise ValueError(f"expected a finite trajectory, got a {name} that is not")
    return Integrated(sequence.joint_names, engine.time_from_start(dt, shape[0], shape[1], space), *arrays)


def differences_of(sequence: Sequence, options: argparse.Namespace) -> bool:
    """Whether this is a motion of positions at uneven times, which the node takes on ~/position_trajectory.

    The kernels for actions divide by each step alone, and are exact for even steps.
    """
    uneven = sequence.recorded is not None and sequence.dt is not None and len(sequence.dt) > 1 and not options.dt
    return uneven and sequence.control_space == "position" and options.finite_difference == "backward"


def _differentiate(sequence: Sequence) -> Integrated:
    import torch

    from ..kernels import differentiate_positions

    recorded = sequence.recorded
    arrays = (recorded.position, recorded.time, sequence.start_velocity[0], sequence.start_acceleration[0])
    trajectory = differentiate_positions(*(torch.from_numpy(np.array(values)) for values in arrays))
    return Integrated(sequence.joint_names, recorded.time, *(values.numpy()[None] for values in trajectory))


def _write(
    sequences: list[Sequence], results: list[Integrated], limits: JointLimits | None, options: argparse.Namespace
) -> None:
    batch = len(results[0].position)
    if options.row >= batch:
        raise UserError(f"--row: expected less than {batch} (the batch), got {options.row}")
    chosen = results[0].samples(options.row, str(options.file))
    if options.out is not None and options.out.suffix == ".csv":
        write_table(options.out, chosen)
    elif options.out is not None and options.out.suffix in ARRAY_SUFFIXES:
        write_archive(options.out, results)
    elif options.out is not None:
        source = str(options.file)
        samples = [one.samples(row, source) for one in results for row in range(len(one.position))]
        write_bag(options.out, samples, results[0].with_accelerations)
    if options.plot is not None:
        from .drawing import draw_motion

        draw_motion(options.plot, chosen, limits, reference=sequences[0].recorded)


def _conclude(
    sequences: list[Sequence], results: list[Integrated], options: argparse.Namespace, seconds: float
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
    for note in notes:
        print(f"note: {note}")
    if first.recorded is not None:
        differences = _differences(results[0].samples(0, ""), first.recorded)
        print(f"RMS difference from the recording: {', '.join(differences)}")
    if options.out is not None and options.out.suffix == ".csv" and trajectories > 1:
        print(f"note: {options.out} has trajectory {options.row} of the first sequence; NPZ and bags take all")
    for path in (options.out, options.plot):
        if path is not None:
            print(f"written: {path}")


def _differences(integrated: Samples, recorded: Samples) -> list[str]:
    found = []
    for name, unit in zip(QUANTITIES, ("rad", "rad/s", "rad/s^2", "rad/s^3"), strict=True):
        expected, got = getattr(recorded, name), getattr(integrated, name)
        if expected is not None:
            rows = min(len(expected), len(got))
            found.append(f"{name} {np.sqrt(np.mean((got[:rows] - expected[:rows]) ** 2)):.3g} {unit}")
    return found


if __name__ == "__main__":
    sys.exit(main())
