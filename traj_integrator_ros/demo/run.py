"""The demo's run: a node, the main job around it, the optimizers, figures and a report."""

from __future__ import annotations

import argparse
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from ..client import IntegratorClient, Refused
from ..motions.samples import Samples
from ..tools.command_line import ToolFailure, UserError
from ..tools.progress import Progress
from .drawing import draw_optimizer, draw_trajectories
from .main_job import MainJob
from .node import NodeProcess
from .optimizer import Result, minimized, problems_of
from .recording import mean_step, write_recordings
from .report import FIGURES, REPORT, conclude, report_of
from .windows import BATCH, horizon_of, write_node_parameters

PLAY_AT_LEAST_S = 8.0
"""Motions shorter than this, s, are played several times."""
NODE_WITHIN_S = 30.0
"""Longest wait, s, until the node is active."""
ANSWERS_WITHIN_S = 5.0
"""Longest wait, s, for the last answers after the motion has ended."""


def run(recording: Samples, planned: Samples, options: argparse.Namespace) -> int:
    """Run, draw and report; returns the exit code."""
    begin, out, ros_arguments = time.monotonic(), options.out, options.ros_arguments[1:]
    out.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, *FIGURES):
        (out / name).unlink(missing_ok=True)
    message = f"Motion: {recording.source} ({recording.kind}), {recording.duration:.1f} s, {recording.dof} joints"
    print(message, flush=True)
    recordings, node = write_recordings(recording, out), None
    if not options.external_node:  # the demo's messages reach no other robot and no other machine
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        ros_arguments += ["-r", f"__ns:=/demo_{os.getpid()}"]
    largest = BATCH, horizon_of(planned), recording.dof
    try:
        client = IntegratorClient(name="demo", ros_arguments=ros_arguments, largest=largest)
    except Exception as error:  # rclpy raises one of several errors for wrong arguments
        raise UserError(f"--ros-args: {error}") from None
    progress = Progress()
    with client:
        progress.stage(f"{'Waiting for' if options.external_node else 'Starting'} the node {client.integrator}")
        if not options.external_node:
            write_node_parameters(recording, planned, out / "node_params.yaml")
            node = NodeProcess(out / "node_params.yaml", ros_arguments, out / "node.log")
        with node or nullcontext():
            job = MainJob(client, recording, planned)
            optimized = _run(job, node.check if node else lambda: None, options.seconds, progress)
        progress.stage("Drawing")
        draw_trajectories(job, out / FIGURES[0])
        for result, name in zip(optimized, FIGURES[1:], strict=True):
            draw_optimizer(result, out / name)
    report = report_of(job, optimized, node.code if node else 0, time.monotonic() - begin)
    return conclude(report, out, recordings)


def _run(job: MainJob, check: Callable[[], None], seconds: float, progress: Progress) -> list[Result]:
    """Play and plan, then optimize; `check` raises ToolFailure where the node has ended."""
    _wait_for_node(job, check)
    recording, over = job.recording, threading.Event()
    passes = max(1, math.ceil(min(PLAY_AT_LEAST_S, seconds) / recording.duration - 0.5))
    progress.stage("Playing and planning", passes * (recording.duration + mean_step(recording)))
    with ThreadPoolExecutor(1) as threads:
        playing = threads.submit(job.play, passes, over)
        try:
            job.run(lambda: check() or playing.done(), progress.update)
        finally:
            over.set()
        playing.result()
    progress.stage("Optimizing over the services")
    try:
        optimized = [minimized(problem, job.client) for problem in problems_of(job.planned)]
    except (Refused, TimeoutError) as error:
        check()
        raise ToolFailure(f"optimizer: {error}") from None
    deadline = time.monotonic() + ANSWERS_WITHIN_S
    while job.lost and time.monotonic() < deadline:
        time.sleep(0.05)
    return optimized


def _wait_for_node(job: MainJob, check: Callable[[], None]) -> None:
    """Wait until the node is active, and knows where the robot is."""
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
                message = f"no active node {job.client.integrator} within {NODE_WITHIN_S:.0f} s in this ROS domain"
                joints = ", ".join(job.recording.joint_names)
                raise ToolFailure(f"{message} that hears a robot with joints {joints}: {error}") from None
        time.sleep(0.05)
