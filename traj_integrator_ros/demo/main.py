"""The main job from the command line: load or plan a motion, start the node, run, draw, report."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..motions.extras import require
from ..motions.writing import write_table
from ..tools.command_line import EXIT_FAILED, ToolFailure, ToolParser, UserError, note, number, run_tool
from ..tools.progress import Progress
from ..wire.transport import prepare_transport
from .node import NodeProcess

# Torch, ROS and scipy are imported where they are needed, so that a wrong argument is reported at once.
if TYPE_CHECKING:
    from ..client import IntegratorClient
    from .main_job import MainJob
    from .optimizer import Result
    from .recording import Motion
    from .report import Report

MAX_SECONDS, PLAY_AT_LEAST = 30.0, 8.0
"""Longer motions are cut, so that the demo ends within a minute; shorter ones are played several times."""
BATCH = 32
"""Candidates in a sequence."""
NODE_WITHIN_S, ANSWERS_WITHIN_S = 30.0, 5.0
NAME = "demo"
EXAMPLES = (
    (NAME, "a Panda motion planned on the spot"),
    (f"{NAME} recording.db3 --out build/demo", "a recording of joint states"),
)
RESULTS = REPORT, TRAJECTORIES, OPTIMIZER, GOAL = "report.json", "trajectories.png", "optimizer.png", "goal.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns 0 if every sequence is answered and the optimum found, or a code of all tools."""
    told = "Sends a robot's motion through the integrator node over DDS, measures and draws what comes back."
    parser = ToolParser(NAME, told, EXAMPLES, uses_ros=True)
    kinds = (
        "rosbag2 folder, .db3 or .mcap; CSV (time, position_<joint>, velocity_<joint>, or a UR RTDE log); YAML of a "
        "RobotTrajectory. Default: a Panda motion planned on the spot"
    )
    parser.add_argument("recording", nargs="?", type=Path, metavar="RECORDING", help=kinds)
    parser.option("--topic", "JointState topic of a bag (default: /joint_states, or the only one)")
    parser.option("--out", "default: %(default)s", "DIR", Path, Path("build/demo"))
    parser.option("--seconds", "use the first S seconds of the motion only", "S", _seconds, MAX_SECONDS)
    parser.option("--device", "device parameter of the node (default: %(default)s)", default="auto")
    parser.flag("--external-node", "use the node traj_integrator that runs already (started by a launch file)")
    parser.option("--write-node-params", "write the parameter file of a node for this motion, and end", "FILE", Path)
    parser.option("--write-motion", "write the motion as a table, and end", "FILE.csv", Path)
    options = parser.parse(arguments)
    return run_tool(NAME, lambda: _main(options))


def _seconds(text: str) -> float:
    if (value := number(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1 s, got {text!r}")
    return value


def _main(options: argparse.Namespace) -> int:
    for module in ("matplotlib", "scipy", *([] if options.recording else ["ruckig"])):
        require(module, "the demo", extra="demo")
    from .planned import planned_motion
    from .recording import cut, load_recording, plan_on
    from .windows import write_node_parameters

    recording = load_recording(options.recording, options.topic) if options.recording else planned_motion()
    recording = cut(recording, min(MAX_SECONDS, options.seconds))
    if options.write_motion is not None:
        write_table(options.write_motion, recording)
        print(f"written: {options.write_motion}: {_size(recording)}")
        return 0
    planned = plan_on(recording)
    if options.write_node_params is not None:
        write_node_parameters(recording, planned, BATCH, options.device, options.write_node_params)
        return 0
    return _run(options, recording, planned)


def _size(motion: Motion) -> str:
    return f"{motion.duration:.1f} s, {motion.dof} joints, {motion.samples} samples"


def _run(options: argparse.Namespace, recording: Motion, planned: Motion) -> int:
    """Run, draw and report; returns the exit code."""
    from .recording import write_recordings
    from .windows import horizon_of, write_node_parameters

    begin, out, ros_arguments = time.monotonic(), options.out, options.ros_arguments[1:]
    out.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:
        (out / name).unlink(missing_ok=True)
    print(f"Motion: {recording.source} ({recording.kind}), {_size(recording)}", *planned.notes, sep="\n  ", flush=True)
    recordings, node = write_recordings(recording, out), None
    if not options.external_node:  # nothing reaches another robot, or another machine
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        ros_arguments += ["-r", f"__ns:=/demo_{os.getpid()}"]
    with Progress() as progress, _client(ros_arguments, (BATCH, horizon_of(planned), recording.dof)) as client:
        progress.stage(f"{'Waiting for' if options.external_node else 'Starting'} the node {client.integrator}")
        if not options.external_node:
            parameters = out / "node_params.yaml"
            write_node_parameters(recording, planned, BATCH, options.device, parameters)
            node = NodeProcess(parameters, ros_arguments, out / "node.log")
        with node or nullcontext():
            check = node.check if node else lambda: None
            job, optimized = _job(client, (recording, planned), options.seconds, check, progress)
        progress.stage("Drawing")
        from .drawing import draw_optimizer, draw_trajectories

        draw_trajectories(job, out / TRAJECTORIES)
        for result, name in zip(optimized, (OPTIMIZER, GOAL), strict=True):
            draw_optimizer(result, out / name)
    from .report import report_of

    report = report_of(job, optimized, node.code if node else 0, time.monotonic() - begin)
    return conclude(report, out, recordings)


def _client(ros_arguments: list[str], largest: tuple[int, int, int]) -> IntegratorClient:
    """The client of the node, with transports for messages up to the largest: batch, horizon, dof."""
    try:
        transport = prepare_transport(*largest)
    except ValueError as error:
        raise UserError(str(error)) from None
    if transport.is_short:
        note(transport.reason)
    try:  # the environment must be complete before the middleware is loaded
        from ..client import IntegratorClient
    except ImportError as error:
        raise ToolFailure(f"ROS 2 and the messages of traj_integrator_interfaces are needed: {error}") from None
    try:
        return IntegratorClient(name="demo", ros_arguments=ros_arguments)
    except Exception as error:  # rclpy has several kinds for wrong arguments
        raise UserError(f"--ros-args: {error}") from None


def _job(
    client: IntegratorClient,
    motions: tuple[Motion, Motion],
    seconds: float,
    check: Callable[[], None],
    progress: Progress,
) -> tuple[MainJob, list[Result]]:
    """Play and plan, then optimize; `check` raises ToolFailure where the node has failed."""
    from ..client import Refused
    from .main_job import MainJob
    from .optimizer import minimized, problems_of

    recording, planned = motions
    job, over = MainJob(client, recording, planned, BATCH), threading.Event()
    _wait_for_node(job, check)
    passes = max(1, math.ceil(min(PLAY_AT_LEAST, seconds) / recording.duration - 0.5))
    progress.stage("Playing and planning", passes * (recording.duration + recording.step))
    with ThreadPoolExecutor(1) as threads:
        playing = threads.submit(job.play, passes, over)
        try:
            job.run(lambda: check() or playing.done(), progress.update)
        finally:
            over.set()
        playing.result()
    progress.stage("Optimizing over the services")
    try:
        optimized = [minimized(problem, client) for problem in problems_of(planned)]
    except (Refused, TimeoutError) as error:
        check()
        raise ToolFailure(f"optimizer: {error}") from None
    deadline = time.monotonic() + ANSWERS_WITHIN_S
    while job.lost and time.monotonic() < deadline:
        time.sleep(0.05)
    return job, optimized


def _wait_for_node(job: MainJob, check: Callable[[], None]) -> None:
    """Wait until the node is active, and knows where the robot is."""
    from ..client import Refused

    deadline = time.monotonic() + NODE_WITHIN_S
    while True:
        check()
        try:
            job.client.wait_until_active(2.0)
            job.tell(0)
            job.client.committed(1)
            return
        except (Refused, TimeoutError) as error:
            if time.monotonic() > deadline:
                joints = ", ".join(job.recording.joint_names)
                told = f"no active node {job.client.integrator} within {NODE_WITHIN_S:.0f} s in this ROS domain"
                raise ToolFailure(f"{told} that hears a robot with joints {joints}: {error}") from None
        time.sleep(0.05)


def conclude(report: Report, out: Path, recordings: str) -> int:
    """Write the report, print the summary, and return the exit code."""
    from .report import failures, summary

    failed = failures(report)
    written = {"passed": not failed, "failures": failed, **report}
    (out / REPORT).write_text(json.dumps(written, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    lines = summary(report) | {
        "time": f"{report['wall_s']:.0f} s",
        "written": f"{', '.join(RESULTS)} in {out}",
        "recording": f"{recordings} in {out}, for the tools (docs/tools.md)",
    }
    width = max(map(len, lines))
    print("", *(f"  {name:<{width}}  {value}" for name, value in lines.items()), sep="\n")
    for failure in failed:
        print(f"{NAME}: FAILED: {failure}", file=sys.stderr)
    return EXIT_FAILED if failed else 0
