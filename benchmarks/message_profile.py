"""Where the time of one message goes, from socket to socket: `python -m benchmarks.message_profile [--batch N]`.

A client sends sequences to a node whose functions are timed, and receives both outputs. Timing takes part of a
microsecond for each function, so the sum is a little more than what the benchmark `ros_latency` finds.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

RESULT_VARIABLE = "MESSAGE_PROFILE_RESULT"
MESSAGES = 1000
WARM_UP = 200

# Rows of the table: label and depth. Each row is part of the nearest row above with a smaller depth.
TURN, CALLBACK, PUBLISH = "turn of the executor", "callback", "publish both (rclpy, Fast DDS)"
ROWS = (
    (TURN, 0),
    ("take from the middleware", 1),
    (CALLBACK, 1),
    ("joint states that have arrived", 2),
    ("read the bytes", 2),
    ("check the sequence", 2),
    ("engine", 2),
    ("motion for the controller: limits, start, points", 2),
    ("JointTrajectory as bytes", 2),
    ("TrajectoryBatch as bytes", 2),
    (PUBLISH, 2),
    ("everything else", 2),
)


def main() -> int:
    """Run a node and a client; print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.message_profile", description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=1, help="trajectories in a sequence (default 1)")
    parser.add_argument("--default-transports", action="store_true", help="without the shared-memory profile")
    arguments = parser.parse_args()
    from .ros_processes import Transports, running
    from .suites import ros_latency as suite

    transports = Transports(suite.FIXED[suite.DEFAULT if arguments.default_transports else suite.SHARED_MEMORY])
    shape = f"{arguments.batch}x{suite.HORIZON}"
    parameters = {**suite.PARAMETERS, "warmup": [shape]}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "profile.json"
        os.environ[RESULT_VARIABLE] = str(result)
        with running(suite.JOINTS, parameters, transports, __spec__.name) as processes:
            client = processes.client
            client.follow(suite.plan(arguments.batch))
            latencies = [client.batch_latency(suite.OURS) for _ in range(WARM_UP + MESSAGES)][WARM_UP:]
            deadline = time.monotonic() + 10.0
            while not result.is_file() and time.monotonic() < deadline:
                time.sleep(0.1)
        medians_us = json.loads(result.read_text(encoding="utf-8"))
    total_us = statistics.median(latencies) * 1e6
    print(f"{shape}x{suite.DOF}, {MESSAGES} messages, medians in us")
    print(f"{'published by the client until the batch is back':55} {total_us:7.0f}")
    print(f"{'  two ways through the middleware, wake-ups, the client':55} {total_us - medians_us[TURN]:7.0f}")
    for label, depth in ROWS:
        print(f"{'  ' * (depth + 1) + label:55} {medians_us[label]:7.0f}")
    return 0


def run_node() -> None:
    """Run the node with its functions timed; the medians go into a file when enough messages have passed."""
    from rclpy.lifecycle.publisher import LifecyclePublisher

    from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
    from traj_integrator_ros.handling import pipeline
    from traj_integrator_ros.node import executor, node
    from traj_integrator_ros.node.main import main as node_main
    from traj_integrator_ros.wire.joint_trajectory_cdr import JointTrajectoryWriter
    from traj_integrator_ros.wire.received_messages import ActionSequenceReader

    clock = _Clock(Path(os.environ[RESULT_VARIABLE]))
    for owner, name, label in (
        (node.IntegratorNode, "_poll_states", "joint states that have arrived"),
        (ActionSequenceReader, "read", "read the bytes"),
        (pipeline, "check_sequence", "check the sequence"),
        (TrajectoryIntegrator, "integrate_array", "engine"),
        (pipeline.Pipeline, "trajectory", "motion for the controller: limits, start, points"),
        (JointTrajectoryWriter, "serialize", "JointTrajectory as bytes"),
        (node, "_serialized", "TrajectoryBatch as bytes"),
        (LifecyclePublisher, "publish", PUBLISH),
        (node.IntegratorNode, "_on_action_sequence", CALLBACK),
        (executor, "_call_subscription", TURN),
    ):
        setattr(owner, name, clock.timed(getattr(owner, name), label))
    node_main()


class _Clock:
    """Adds up what each message takes under each label, ns, and writes the medians when enough have passed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._current: dict[str, int] = defaultdict(int)
        self._messages: list[dict[str, int]] = []

    def timed(self, function: Callable, label: str) -> Callable:
        @functools.wraps(function)
        def timed(*arguments: object, **options: object) -> object:
            begin = time.perf_counter_ns()
            try:
                return function(*arguments, **options)
            finally:
                self._current[label] += time.perf_counter_ns() - begin
                if label == TURN:
                    self._end_turn()

        return timed

    def _end_turn(self) -> None:
        message, self._current = self._current, defaultdict(int)
        if CALLBACK not in message:  # no sequence
            return
        message["take from the middleware"] = message[TURN] - message[CALLBACK]
        inside = [label for label, depth in ROWS if depth == 2]
        message["everything else"] = message[CALLBACK] - sum(message[label] for label in inside)
        self._messages.append(message)
        if len(self._messages) == WARM_UP + MESSAGES:
            measured = self._messages[WARM_UP:]
            medians_us = {label: statistics.median(one[label] for one in measured) / 1e3 for label, _ in ROWS}
            partial = self._file.with_suffix(".partial")
            partial.write_text(json.dumps(medians_us), encoding="utf-8")
            partial.rename(self._file)


if __name__ == "__main__":
    sys.exit(run_node() if "--ros-args" in sys.argv else main())
