"""`ros2 run traj_integrator_ros replay`: publishes recorded joint states at their rate."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from ..motions.files import read_samples
from .command_line import ToolParser, UserError, add_unit_options, file, note, positive, run_tool, units_of
from .progress import Progress
from .ros_session import RosSession

NAME = "replay"
TOPIC = "joint_states"
SUBSCRIBER_WITHIN_S = 2.0
"""Longest wait, s, for subscribers before the first sample."""
EXAMPLES = (
    (f"{NAME} recording.db3", "joint states of a rosbag2 recording on joint_states, as fast as they came"),
    (
        f"{NAME} log.csv --loop --speed 0.5",
        "a table (time, position_<joint>, velocity_<joint>), half as fast, endlessly",
    ),
    (
        f"{NAME} bag --topic /arm/joint_states --ros-args -r joint_states:=/left/joint_states",
        "from and to other topics",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay a recording; returns 0 at its end, and at Ctrl-C with --loop."""
    parser = ToolParser(
        NAME,
        "Publishes the joint states of a recording on joint_states at the times they were recorded, stamped with the\n"
        "time of publishing. Reads rosbag2 folders, .db3 and .mcap files, tables and NPZ.",
        EXAMPLES,
        uses_ros=True,
    )
    parser.option("file", "the recording", "FILE", file)
    parser.option("--topic", "JointState topic of a bag (default: /joint_states, or the only one)")
    add_unit_options(parser)
    parser.option("--speed", "times as fast as recorded (default: 1)", "X", positive, 1.0)
    parser.flag("--loop", "over and over until Ctrl-C")
    parser.flag("--quiet", "show no progress")
    return run_tool(NAME, lambda: _replay(parser.parse(arguments)))


def _replay(options: argparse.Namespace) -> int:
    samples = read_samples(options.file, options.topic, note, units=units_of(options))
    if options.loop and len(samples.time) < 2:
        raise UserError(f"{options.file}: expected at least 2 samples to loop over, got 1")
    time_s, loop, late_s = samples.time / options.speed, options.loop, []
    progress = Progress(options.quiet)
    with RosSession(NAME, options.ros_arguments) as session:
        from sensor_msgs.msg import JointState

        try:
            publisher = session.node.create_publisher(JointState, TOPIC, 10)
            session.spin_until(lambda: publisher.get_subscription_count() > 0, SUBSCRIBER_WITHIN_S)
            stage = f"{samples.dof} joints on {session.resolve(TOPIC)}"
            progress.stage(f"{stage}, again and again" if loop else stage, None if loop else float(time_s[-1]))
            for number, k, due in due_samples(time_s, None if loop else 1):
                time.sleep(max(0.0, due - time.monotonic()))
                late_s.append(time.monotonic() - due)
                message = JointState(name=list(samples.joint_names))
                message.position = array("d", samples.position[k].tobytes())
                if samples.velocity is not None:
                    message.velocity = array("d", samples.velocity[k].tobytes())
                message.header.stamp = session.node.get_clock().now().to_msg()
                publisher.publish(message)
                progress.update(float(time_s[k]), f"pass {number + 1}" if loop else "")
        except KeyboardInterrupt:
            if not loop:
                raise
    if not options.quiet:
        p50, p99 = 1e3 * np.percentile(late_s or [0.0], (50, 99))
        late = f"late by {p50:.2f} ms (p50), {p99:.2f} ms (p99)" if late_s else "none late"
        print(f"{len(late_s)} joint states published, {late}")
    return 0


def due_samples(time_s: np.ndarray, passes: int | None) -> Iterator[tuple[int, int, float]]:
    """Yield pass and index of each sample, and when it is due, s of the monotonic clock; `passes` None is endless.

    The first sample of a pass is due a mean step after the last sample of the pass before.
    """
    begin = time.monotonic()
    pass_s = float(time_s[-1] + np.diff(time_s).mean()) if len(time_s) > 1 else 0.0
    for number in itertools.count() if passes is None else range(passes):
        for k, due in enumerate(time_s + (begin + number * pass_s)):
            yield number, k, float(due)


if __name__ == "__main__":
    sys.exit(main())
