"""The main job from the command line: load or plan a motion, start the node, run, judge, draw."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..motions.extras import require
from ..motions.samples import RecordingError
from ..tools.command_line import EXIT_FAILED, ToolFailure, ToolParser, UserError, number, run_tool
from ..tools.progress import Progress
from .motion import Motion, cut, load_recording, write_motion, write_recordings

# Torch and ROS are imported where they are needed, so that a faulty recording is reported at once.
if TYPE_CHECKING:
    from .report import Outcome
    from .windows import Prepared

MAX_SECONDS = 30.0
"""Longer motions are cut, so that the demo ends within a minute."""
PLAY_AT_LEAST = 8.0
"""Motions shorter than this [s] are played several times, but never longer than requested."""
NAME = "demo"
EXAMPLES = (
    (NAME, "a Panda motion planned on the spot"),
    (f"{NAME} recording.db3 --out build/demo", "a recording of joint states"),
)
RESULTS = REPORT, TRAJECTORIES, OPTIMIZER, GOAL = "report.json", "trajectories.png", "optimizer.png", "goal.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code.

    0: nothing lost, everything in bounds; 1: otherwise, or the node failed; 2: wrong arguments or recording;
    130: interrupted; 143: terminated.
    """
    begin = time.monotonic()
    parser = ToolParser(
        NAME,
        "Sends a robot's motion through the integrator node over DDS, measures and draws what comes back.",
        EXAMPLES,
        uses_ros=True,
    )
    parser.add_argument("recording", nargs="?", type=Path, metavar="PATH", help="the same as --data PATH")
    kinds = (
        "recording: rosbag2 folder, .db3 or .mcap; CSV (time, position_<joint>, velocity_<joint>, or a UR RTDE log); "
        "YAML of a RobotTrajectory. Default: a Panda motion planned on the spot"
    )
    parser.option("--data", kinds, "PATH", Path)
    parser.option("--topic", "JointState topic of a bag (default: /joint_states, or the only one)")
    parser.option("--out", "default: %(default)s", "DIR", Path, Path("build/demo"))
    parser.option("--seconds", "use the first S seconds of the motion only", "S", _seconds)
    parser.option("--batch", "candidates in a sequence (default: %(default)s)", "B", _batch, 32)
    parser.option("--device", "device parameter of the node (default: %(default)s)", default="auto")
    parser.flag("--external-node", "use the node traj_integrator that runs already (started by a launch file)")
    parser.option("--write-node-params", "write the parameter file of a node for this motion, and end", "FILE", Path)
    as_files = "write the motion as a table (.csv) or as a bag (.db3, .mcap, or a folder, no suffix), and end"
    parser.option("--write-motion", as_files, "FILE", Path)
    options = parser.parse(arguments)
    if options.recording is not None and options.data is not None:
        parser.error("give the recording once, as PATH or as --data PATH")
    options.data = options.data or options.recording
    return run_tool(NAME, lambda: _main(options, begin))


def _seconds(text: str) -> float:
    if (value := number(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1 s, got {text!r}")
    return value


def _batch(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 256, got {text!r}")
    return int(text)


def _main(options: argparse.Namespace, begin: float) -> int:
    motion = _motion(options)
    from .windows import prepare, write_node_parameters

    prepared = prepare(motion)
    if options.write_node_params is not None:
        write_node_parameters(prepared, options.batch, options.device, options.write_node_params)
        return 0
    if options.write_motion is None:
        return _run(options, prepared, begin)
    try:
        write_motion(motion, options.write_motion)
    except (RecordingError, UserError) as error:
        raise UserError(f"--write-motion: {str(error).removeprefix('--out: ')}") from None
    print(f"written: {options.write_motion}: {_size(motion)}")
    return 0


def _motion(options: argparse.Namespace) -> Motion:
    require("matplotlib", "drawing", extra="demo")
    if options.data is not None:
        motion = load_recording(options.data, options.topic)
    else:
        require("ruckig", "planning a motion (without --data)", extra="demo")
        from .planned import planned_motion

        motion = planned_motion()
    return cut(motion, min(MAX_SECONDS, options.seconds or MAX_SECONDS))


def _size(motion: Motion) -> str:
    return f"{motion.duration:.1f} s, {motion.dof} joints, {motion.samples} samples"


def _run(options: argparse.Namespace, prepared: Prepared, begin: float) -> int:
    from ..traffic.local_dds import stay_local
    from ..traffic.node_process import NodeProcess, ProcessEnded
    from ..wire.transport import prepare_transport
    from .windows import MAX_HORIZON, write_node_parameters

    motion, out = prepared.recording, options.out
    out.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:
        (out / name).unlink(missing_ok=True)
    if not options.external_node:
        stay_local()
    try:
        transport = prepare_transport(options.batch, MAX_HORIZON, motion.dof)
    except ValueError as error:
        raise UserError(str(error)) from None
    if transport.is_short:
        print(f"demo: {transport.reason}", file=sys.stderr)
    print(f"Motion: {motion.source} ({motion.kind}), {_size(motion)}", flush=True)
    for note in prepared.planned.notes:
        print(f"  {note}")
    recordings = write_recordings(motion, out)
    try:
        # The environment must be complete before the middleware is loaded.
        from .session import run_session
    except ImportError as error:
        raise ToolFailure(f"ROS 2 and the messages of traj_integrator_interfaces are needed: {error}") from None

    node = None
    play_at_least = min(PLAY_AT_LEAST, options.seconds or PLAY_AT_LEAST)
    with Progress() as progress:
        try:
            if not options.external_node:
                progress.stage("Starting the node")
                parameters = out / "node_params.yaml"
                write_node_parameters(prepared, options.batch, options.device, parameters)
                node = NodeProcess(out, parameters)
            outcome = run_session(prepared, options.batch, play_at_least, options.ros_arguments, node, progress)
        except ProcessEnded as error:  # with the last lines of its log
            print(f"{NAME}: {error}", file=sys.stderr)
            return EXIT_FAILED
        finally:
            code = node.stop().code if node is not None else 0
        progress.stage("Drawing")
        from .drawing import draw_goal, draw_optimizer, draw_trajectories

        draw_trajectories(outcome, out / TRAJECTORIES)
        draw_optimizer(outcome.optimized, out / OPTIMIZER)
        draw_goal(outcome.optimized, out / GOAL)
    return _conclude(outcome, code, out, recordings, time.monotonic() - begin)


def _conclude(outcome: Outcome, node_exit_code: int, out: Path, recordings: str, seconds: float) -> int:
    """Write the report, print the summary, and judge."""
    from .report import as_json, summary, write_report

    report = as_json(outcome, node_exit_code, seconds)
    write_report(report, out / REPORT)
    lines = [
        *summary(outcome),
        ("time", f"{seconds:.0f} s"),
        ("written", f"{', '.join(RESULTS)} in {out}"),
        ("motion", f"{recordings} in {out}, for the tools (docs/tools.md)"),
    ]
    width = max(len(name) for name, _ in lines)
    print()
    for name, value in lines:
        print(f"  {name:<{width}}  {value}")
    for failure in report["failures"]:
        print(f"demo: FAILED: {failure}", file=sys.stderr)
    return EXIT_FAILED if report["failures"] else 0
