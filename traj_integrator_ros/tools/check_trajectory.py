"""`ros2 run traj_integrator_ros check_trajectory`: would a controller take this trajectory, and should a robot?"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from ..execution.limits import extremes
from ..motions.files import read_trajectories
from ..motions.trajectories import PlannedTrajectory, planned_trajectory
from ..motions.units import JointUnits
from .checker import START_TOLERANCE, Expectation, check, motion_between
from .command_line import (
    EXIT_FAILED,
    ToolFailure,
    ToolParser,
    UserError,
    add_unit_options,
    count,
    file,
    names,
    note,
    positive,
    run_tool,
    units_of,
)
from .robot import Robot, add_robot_options, load_robot
from .ros_session import RosSession

NAME = "check_trajectory"
TOPIC = "traj_integrator/joint_trajectory"
ROBOT_TOPIC = "joint_states"
SHOWN_FINDINGS = 20
EXAMPLES = (
    (NAME, f"the next trajectory on {TOPIC}, its start against joint_states"),
    (f"{NAME} --params config/franka.yaml --count 0", "every one until Ctrl-C, against a robot's joints and limits"),
    (f"{NAME} plan.csv --params my_robot.yaml", "a table, NPZ, or a rosbag2 recording"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check trajectories; returns 0 if all are acceptable, 1 if not or if none came, 2 for wrong usage."""
    parser = ToolParser(
        NAME,
        "Checks trajectories for all that joint_trajectory_controller validates, and for what it does not: finite\n"
        "numbers, joints given once, a start where the robot is, limits at the points and in what the controller\n"
        "commands between them. Prints what is wrong, joint by joint, and the peaks of what would be commanded.",
        EXAMPLES,
        uses_ros=True,
    )
    parser.add_argument("file", nargs="?", type=file, metavar="FILE", help="check this instead of a topic")
    parser.option("--topic", f"JointTrajectory topic, also of a bag (default: {TOPIC})")
    add_unit_options(parser)
    add_robot_options(parser, "parameter file of the node: joints and limits")
    parser.option("--joints", "the controller's joints (default: of --params)", "A,B", names)
    parser.flag("--partial", "some of the joints are enough")
    parser.flag("--points-only", "limits need not hold between the points")
    parser.flag("--moving-end", "the last velocity need not be 0")
    parser.option("--robot", "JointState topic of the robot (default: %(default)s)", "TOPIC", default=ROBOT_TOPIC)
    far = "largest distance of the start from the robot (default: %(default)s)"
    parser.option("--start-tolerance", far, "RAD", positive, START_TOLERANCE)
    parser.option("--count", "trajectories to wait for; 0: until Ctrl-C (default: 1)", kind=count, default=1)
    parser.option("--timeout", "longest wait for each (default: %(default)s)", "S", positive, 10.0)
    parser.flag("--quiet", "print findings only")
    return run_tool(NAME, lambda: _check(parser.parse(arguments)))


def _check(options: argparse.Namespace) -> int:
    robot = load_robot(options.params, options.urdf)
    expectation = Expectation(
        # A URDF has more joints than one controller.
        options.joints or (robot.limits.joint_names if options.params is not None else None),
        at_rest=not options.moving_end,
        partial=options.partial,
        start_tolerance=options.start_tolerance,
        limits=robot.limits,
        between_points=not options.points_only,
        units=robot.units,
        turning=robot.continuous,
    )
    if options.file:
        found = read_trajectories(options.file, options.topic, note, robot.unwrapped, units_of(options))
        trajectories = ((one, expectation) for one in found)
    else:
        trajectories = _on_topic(options, robot, expectation)
    of_joints = lru_cache(robot.for_motion)  # joints without limits are named once
    checked = bad = 0
    try:
        for trajectory, expected in trajectories:
            if robot.urdf and trajectory.joint_names:
                expected = dataclasses.replace(expected, limits=of_joints(trajectory.joint_names).limits)
            bad += _is_bad(f"trajectory {checked}", trajectory, expected, options.quiet)
            checked += 1
    except KeyboardInterrupt:
        if options.file or options.count:
            raise
    if checked == 0:
        raise UserError(f"{options.file}: expected a trajectory, got none")
    if not options.quiet and checked > 1:
        print(f"{checked - bad} of {checked} trajectories acceptable")
    return EXIT_FAILED if bad else 0


def _on_topic(
    options: argparse.Namespace, robot: Robot, expectation: Expectation
) -> Iterator[tuple[PlannedTrajectory, Expectation]]:
    """Yield trajectories of a topic as they arrive, each with its expectation at the robot's present position."""
    state: dict[str, float] = {}
    waiting: deque[tuple[PlannedTrajectory, dict[str, object]]] = deque()
    with RosSession(NAME, options.ros_arguments) as session:
        from rclpy.qos import qos_profile_sensor_data
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory

        def on_state(message: JointState) -> None:
            state.update(zip(message.name, message.position, strict=False))

        def on_trajectory(message: JointTrajectory) -> None:
            known = {"robot": dict(state) or None, "now_ns": session.node.get_clock().now().nanoseconds}
            waiting.append((planned_trajectory(message), known))

        topic, of_robot = session.resolve(options.topic or TOPIC), session.resolve(options.robot)
        session.node.create_subscription(JointState, of_robot, on_state, qos_profile_sensor_data)
        # A trajectory may be the first and only one of its publisher: subscribe before there is a publisher.
        session.node.create_subscription(JointTrajectory, topic, on_trajectory, 100)
        number = 0
        try:
            while options.count == 0 or number < options.count:
                if not session.spin_until(lambda: waiting, options.timeout if options.count else None):
                    missing = f"within {options.timeout:g} s ({session.node.count_publishers(topic)} publishers)"
                    raise ToolFailure(f"no trajectory on {topic} {missing}")
                if number == 0:
                    described = robot.described(*session.robot_description())
                    of_urdf = {"units": described.units, "turning": described.continuous}
                    expectation = dataclasses.replace(expectation, **of_urdf)
                trajectory, known = waiting.popleft()
                yield trajectory, dataclasses.replace(expectation, **known)
                number += 1
        except KeyboardInterrupt:
            if options.count or number:
                raise
            raise ToolFailure(f"no trajectory on {topic} before it was interrupted") from None
        finally:
            if number and not state and not options.quiet:
                note(f"no joint state on {of_robot}: starts were not checked")


def _is_bad(label: str, trajectory: PlannedTrajectory, expectation: Expectation, quiet: bool) -> bool:
    """Print what is wrong with a trajectory; returns whether anything is."""
    findings = check(trajectory, expectation)
    if not findings and not quiet:
        size = f"{len(trajectory.joint_names)} joints, {len(trajectory.points)} points"
        end = f"{trajectory.points[-1].time_ns * 1e-9:.3f} s"
        print(f"{label}: ok ({size}, {end}{_commanded(trajectory, expectation.units)})")
    for finding in findings[:SHOWN_FINDINGS]:
        print(f"{label}: {finding}")
    if len(findings) > SHOWN_FINDINGS:
        print(f"{label}: ... and {len(findings) - SHOWN_FINDINGS} more findings")
    sys.stdout.flush()
    return bool(findings)


def _commanded(trajectory: PlannedTrajectory, units: JointUnits) -> str:
    """Describe the exact peaks of the controller's command by kind of joint, and how far they exceed the points."""
    motion = motion_between(trajectory)
    if motion is None:
        return ""
    commanded = np.abs(extremes(motion)).max(axis=0)
    at_points = [trajectory.rows(field) for field in ("velocities", "accelerations")]
    descriptions = []
    for kind, joints in units.kinds(trajectory.joint_names).items():
        parts = []
        for unit, peak, points in zip(kind[1:], commanded[1:, joints].max(axis=1), [*at_points, None], strict=True):
            planned = 0.0 if points is None else np.nanmax(np.abs(points[:, joints]))
            parts.append(f"{peak:.4g} {unit}" + (f" ({peak / planned:.2f} x the points')" if planned else ""))
        descriptions.append(", ".join(parts))
    return f"; commanded at most {'; '.join(descriptions)}"


if __name__ == "__main__":
    sys.exit(main())
