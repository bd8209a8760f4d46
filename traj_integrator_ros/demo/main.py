"""The main job from the command line: load or plan a motion, start the node, run, judge, draw."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..motions.extras import require
from ..motions.samples import RecordingError
from ..tools.command_line import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED, EXIT_USAGE, told_error
from ..tools.progress import make_progress
from .motion import Motion, cut
from .recordings import load_recording

# Torch and ROS are imported where they are needed, so that a faulty recording is reported at once.
if TYPE_CHECKING:
    from .prepare import Prepared
    from .report import Outcome

MAX_SECONDS = 30.0
"""Longer motions are cut, so that the demo ends within a minute."""
PLAY_AT_LEAST = 8.0
"""Motions shorter than this [s] are played several times, but never longer than requested."""
REPORT, TRAJECTORIES, OPTIMIZER, GOAL = "report.json", "trajectories.png", "optimizer.png", "goal.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code.

    0: nothing lost, everything in bounds; 1: otherwise, or the node failed; 2: wrong arguments or recording;
    130: interrupted; 143: terminated.
    """
    begin = time.monotonic()
    options, ros_arguments = _parse(list(sys.argv[1:] if arguments is None else arguments))
    try:
        motion = _motion(options)
    except RecordingError as error:
        print(f"demo: {error}", file=sys.stderr)
        return EXIT_USAGE
    signal.signal(signal.SIGTERM, _on_sigterm)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
    try:
        from .prepare import prepare

        prepared = prepare(motion)
        if options.write_node_params is not None:
            _write_node_parameters(options, prepared, options.write_node_params)
            return 0
        if options.write_motion is not None:
            return _write_motion(motion, options.write_motion)
        return _run(options, ros_arguments, prepared, begin)
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except _Terminated:
        return EXIT_TERMINATED
    except OSError as error:
        print(f"demo: {told_error(error)}", file=sys.stderr)
        return EXIT_FAILED


class _Terminated(BaseException):
    """SIGTERM arrived: unwind, so that the node is stopped."""


def _on_sigterm(number: int, frame: object) -> None:
    raise _Terminated


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="demo",
        description="Sends a robot's motion through the integrator node over DDS, measures and draws what comes back.",
        epilog="Arguments after --ros-args go to ROS 2, for example a namespace.",
    )
    parser.add_argument("recording", nargs="?", type=Path, metavar="PATH", help="the same as --data PATH")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="recording: rosbag2 folder, .db3 or .mcap; CSV (time, position_<joint>, velocity_<joint>, or a UR RTDE "
        "log); YAML of a RobotTrajectory. Default: a Panda motion planned on the spot",
    )
    parser.add_argument("--topic", help="JointState topic of a bag (default: /joint_states, or the only one)")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--seconds", type=_positive, metavar="S", help="use the first S seconds of the motion only")
    parser.add_argument(
        "--batch", type=_batch, default=32, metavar="B", help="candidates in a sequence (default: %(default)s)"
    )
    parser.add_argument("--device", default="auto", help="device parameter of the node (default: %(default)s)")
    parser.add_argument(
        "--external-node",
        action="store_true",
        help="use the node traj_integrator that runs already (started by a launch file)",
    )
    parser.add_argument(
        "--write-node-params",
        type=Path,
        metavar="FILE",
        help="write the parameter file of a node for this motion, and end",
    )
    parser.add_argument(
        "--write-motion",
        type=Path,
        metavar="FILE",
        help="write the motion as a table (.csv) or as a bag (a folder, no suffix), and end",
    )
    split = arguments.index("--ros-args") if "--ros-args" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    if options.recording is not None and options.data is not None:
        parser.error("give the recording once, as PATH or as --data PATH")
    options.data = options.data or options.recording
    return options, arguments[split:]


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1 s, got {text!r}")
    return value


def _batch(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 256, got {text!r}")
    return int(text)


def _motion(options: argparse.Namespace) -> Motion:
    require("matplotlib", "drawing", extra="demo")
    if options.data is not None:
        motion = load_recording(options.data, options.topic)
    else:
        require("ruckig", "planning a motion (without --data)", extra="demo")
        from .planned import planned_motion

        motion = planned_motion()
    return cut(motion, min(MAX_SECONDS, options.seconds or MAX_SECONDS))


def _write_node_parameters(options: argparse.Namespace, prepared: Prepared, path: Path) -> None:
    from .node_parameters import node_parameters

    path.parent.mkdir(parents=True, exist_ok=True)
    text = node_parameters(prepared.recording, prepared.paths, options.batch, options.device)
    path.write_text(text, encoding="utf-8")


def _write_motion(motion: Motion, path: Path) -> int:
    from ..tools.command_line import UserError
    from .recording_files import write_motion

    try:
        write_motion(motion, path)
    except (RecordingError, UserError) as error:
        print(f"demo: --write-motion: {str(error).removeprefix('--out: ')}", file=sys.stderr)
        return EXIT_USAGE
    print(f"written: {path}: {motion.duration:.1f} s, {motion.dof} joints, {motion.samples} samples")
    return 0


def _run(options: argparse.Namespace, ros_arguments: list[str], prepared: Prepared, begin: float) -> int:
    from ..traffic.local_dds import stay_local
    from ..traffic.node_process import NodeProcess, ProcessEnded
    from ..wire.transport import prepare_transport
    from .recording_files import write_recordings
    from .windows import MAX_HORIZON

    options.out.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, TRAJECTORIES, OPTIMIZER, GOAL):
        (options.out / name).unlink(missing_ok=True)
    if not options.external_node:
        stay_local()
    try:
        transport = prepare_transport(options.batch, MAX_HORIZON, len(prepared.recording.joint_names))
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return EXIT_USAGE
    if transport.is_short:
        print(f"demo: {transport.reason}", file=sys.stderr)
    _tell_source(prepared)
    recordings = write_recordings(prepared.recording, options.out)
    try:
        # The environment must be complete before the middleware is loaded.
        from .session import SessionError, run_session
    except ImportError as error:
        print(f"demo: ROS 2 and the messages of traj_integrator_interfaces are needed: {error}", file=sys.stderr)
        return EXIT_FAILED

    node = None
    play_at_least = min(PLAY_AT_LEAST, options.seconds or PLAY_AT_LEAST)
    with make_progress() as progress:
        try:
            if not options.external_node:
                progress.stage("Starting the node")
                parameters = options.out / "node_params.yaml"
                _write_node_parameters(options, prepared, parameters)
                node = NodeProcess(options.out, parameters)
            outcome = run_session(prepared, options.batch, play_at_least, ros_arguments, node, progress)
        except (SessionError, ProcessEnded) as error:
            failure: Exception | None = error
        else:
            failure = None
        finally:
            code = node.stop().code if node is not None else 0
        if failure is None:
            progress.stage("Drawing")
            from .draw_optimizer import draw_goal, draw_optimizer
            from .draw_trajectories import draw_trajectories

            draw_trajectories(outcome, options.out / TRAJECTORIES)
            draw_optimizer(outcome.optimized, options.out / OPTIMIZER)
            draw_goal(outcome.optimized, options.out / GOAL)
    if failure is not None:
        print(f"demo: {failure}", file=sys.stderr)
        return EXIT_FAILED
    return _conclude(outcome, code, options.out, recordings, time.monotonic() - begin)


def _conclude(outcome: Outcome, node_exit_code: int, out: Path, recordings: str, seconds: float) -> int:
    """Write the report, print the summary, and judge."""
    from .report import as_json, summary, write_report

    report = as_json(outcome, node_exit_code, seconds)
    write_report(report, out / REPORT)
    lines = [
        *summary(outcome),
        ("time", f"{seconds:.0f} s"),
        ("written", ", ".join((REPORT, TRAJECTORIES, OPTIMIZER, GOAL)) + f" in {out}"),
        ("motion", f"{recordings} in {out}, for the tools (docs/tools.md)"),
    ]
    width = max(len(name) for name, _ in lines)
    print()
    for name, value in lines:
        print(f"  {name:<{width}}  {value}")
    for failure in report["failures"]:
        print(f"demo: FAILED: {failure}", file=sys.stderr)
    return EXIT_FAILED if report["failures"] else 0


def _tell_source(prepared: Prepared) -> None:
    motion = prepared.recording
    size = f"{motion.duration:.1f} s, {motion.dof} joints, {motion.samples} samples"
    print(f"Motion: {motion.source} ({motion.kind}), {size}", flush=True)
    for note in prepared.planned.notes:
        print(f"  {note}")
