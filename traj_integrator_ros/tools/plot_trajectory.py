"""`ros2 run traj_integrator_ros plot_trajectory`: position, velocity, acceleration and jerk against limits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..motions.batches import motions_of_batch
from ..motions.extras import require
from ..motions.files import read_samples
from ..motions.read_bag import JOINT_TRAJECTORY, TRAJECTORY_BATCH
from ..motions.samples import Nature, Samples
from ..motions.trajectories import planned_trajectory, samples_of_trajectory
from .command_line import (
    ToolFailure,
    ToolParser,
    UserError,
    add_unit_options,
    count,
    file,
    names,
    note,
    output,
    positive,
    run_tool,
    units_of,
)
from .drawing import PICTURES, draw_motion, violations
from .robot import Robot, add_robot_options, load_robot
from .ros_session import RosSession

NAME = "plot_trajectory"
TOPIC = "traj_integrator/joint_trajectory"
EXAMPLES = (
    (f"{NAME} --params config/franka.yaml", f"the next trajectory on {TOPIC}, against the limits"),
    (
        f"{NAME} --topic traj_integrator/trajectory_batch --row 3",
        "one of a batch, with the jerk that the node computed",
    ),
    (f"{NAME} log.csv --out log.png --joints elbow_joint,wrist_1_joint", "some joints of a file"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw a trajectory and list the limits that it exceeds; returns 0 in any case."""
    parser = ToolParser(
        NAME,
        "Draws position, velocity, acceleration and jerk of every joint against the robot's limits, from a topic or a\n"
        "file: CSV, NPZ, or a rosbag2 recording of trajectories or joint states.",
        EXAMPLES,
        uses_ros=True,
    )
    parser.add_argument("file", nargs="?", type=file, metavar="FILE", help="draw this instead of a topic")
    parser.option("--topic", f"JointTrajectory or TrajectoryBatch topic, also of a bag (default: {TOPIC})")
    add_unit_options(parser)
    add_robot_options(parser, "parameter file of the node: limits")
    parser.option("--joints", "draw these joints only", "A,B", names)
    parser.option("--row", "trajectory of a batch or file (default: %(default)s)", kind=count, default=0)
    parser.option("--out", "figure (default: %(default)s)", "FILE", output, "trajectory.png")
    parser.option("--timeout", "longest wait for a message (default: %(default)s)", "S", positive, 10.0)
    return run_tool(NAME, lambda: _plot(parser.parse(arguments)))


def _plot(options: argparse.Namespace) -> int:
    if options.out.suffix not in PICTURES:
        raise UserError(f"--out: expected a file ending in {', '.join(PICTURES)}, got {options.out}")
    require("matplotlib", "drawing")
    robot = load_robot(options.params, options.urdf)  # Before the wait for a message, because it may be wrong.
    samples, robot = (_from_file(options, robot), robot) if options.file else _from_topic(options, robot)
    unknown = [joint for joint in options.joints or () if joint not in samples.joint_names]
    if unknown:
        raise UserError(f"--joints: expected some of {', '.join(samples.joint_names)}, got {', '.join(unknown)}")
    robot = robot.for_motion(samples.joint_names)
    draw_motion(options.out, samples, robot, options.joints)
    for violation in violations(samples, robot, options.joints):
        print(f"limit exceeded at the points: {violation}")
    shown = f"{len(options.joints)} of {samples.dof} joints" if options.joints else f"{samples.dof} joints"
    print(f"{options.out}: {shown}, {len(samples.time)} points, {samples.duration:.3f} s")
    return 0


def _from_file(options: argparse.Namespace, robot: Robot) -> Samples:
    """Read a motion: joint states become a continuous path, trajectories what a controller makes of them."""
    samples = read_samples(options.file, options.topic, note, options.row, states_first=False, units=units_of(options))
    return robot.unwrapped(samples) if samples.nature is Nature.MEASURED else samples


def _from_topic(options: argparse.Namespace, robot: Robot) -> tuple[Samples, Robot]:
    with RosSession(NAME, options.ros_arguments) as session:
        topic = session.resolve(options.topic or TOPIC)
        kind = session.type_of(topic, (JOINT_TRAJECTORY, TRAJECTORY_BATCH), options.timeout)
        from trajectory_msgs.msg import JointTrajectory

        from traj_integrator_interfaces.msg import TrajectoryBatch

        received: list[JointTrajectory | TrajectoryBatch] = []
        message_type = JointTrajectory if kind == JOINT_TRAJECTORY else TrajectoryBatch
        session.node.create_subscription(message_type, topic, received.append, session.qos_for(topic))
        if not session.spin_until(lambda: bool(received), options.timeout):
            raise ToolFailure(f"no message on {topic} within {options.timeout:g} s")
        robot = robot.described(*session.robot_description())
    if kind == TRAJECTORY_BATCH:
        rows = [*motions_of_batch(received[0], topic)]
        if options.row >= len(rows):
            raise UserError(f"--row: expected less than {len(rows)} (the batch), got {options.row}")
        return rows[options.row].checked(), robot
    return samples_of_trajectory(planned_trajectory(received[0]), topic, note), robot


if __name__ == "__main__":
    sys.exit(main())
