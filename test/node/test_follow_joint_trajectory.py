"""Action goals: what their sender is told, and what the arm does, when all goes well and when it does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from node_fixtures import JOINTS, plan
from rclpy.action import ActionClient
from rclpy.task import Future
from simulated_arm import SimulatedArm
from test_what_an_arm_is_commanded import LIMITS, MakeArm, arm_of_node, make_arm, node
from trajectory_msgs.msg import JointTrajectory, MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint

from kit.messages import SECOND_NS
from traj_integrator_interfaces.srv import Stop
from traj_integrator_ros.requests.goals import ResultCode

__all__ = ["arm_of_node", "make_arm", "node"]
pytestmark = [pytest.mark.ros, pytest.mark.slow]
GOAL = [0.6, -0.3, 0.2]
PATH = plan([0.5, 1.0, 1.5], np.outer([0.3, 0.8, 1.0], GOAL))
LONG = plan([2.0, 4.0], np.outer([0.5, 1.0], [1.6, 0.0, 0.0]))
MESSAGES_S = 5.0  # real time; far more than a message takes on a loaded machine
SUCCEEDED, CANCELED, ABORTED = GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED


@dataclass
class Sent:
    """A goal, and everything that its sender has been told."""

    accepted: bool
    handle: object
    feedback: list[object]
    result: Future | None = None

    @property
    def is_over(self) -> bool:
        return self.result.done()

    @property
    def ended(self) -> tuple[int, ResultCode, str]:
        """Status, code and text."""
        answer = self.result.result()
        return answer.status, ResultCode(answer.result.error_code), answer.result.error_string


class GoalSender:
    """Sends goals to the node that moves an arm, whose time passes while it waits."""

    def __init__(self, arm: SimulatedArm, action: type) -> None:
        self.arm, self.action = arm, action
        self.client = ActionClient(arm.client.node, action, arm.client.topic("~/follow_joint_trajectory"))
        self.client.wait_for_server(10.0)

    def __call__(self, trajectory: JointTrajectory, **fields: object) -> Sent:
        """Send a goal, and wait until it is accepted or rejected."""
        feedback: list[object] = []
        goal = self.action.Goal(trajectory=trajectory, **fields)
        answer = self.client.send_goal_async(goal, feedback_callback=lambda one: feedback.append(one.feedback))
        self.wait_for(answer.done, 2.0)
        handle = answer.result()
        return Sent(handle.accepted, handle, feedback, handle.get_result_async() if handle.accepted else None)

    def result(self, sent: Sent, within_s: float = 6.0) -> tuple[int, ResultCode, str]:
        self.wait_for(lambda: sent.is_over, within_s)
        return sent.ended

    def wait_for(self, condition: Callable[[], object], within_s: float) -> None:
        """Let the arm's time pass until a condition holds, for at most this long.

        Messages take real time: what the node sent within the arm's time may still be on its way at the end.
        """
        end_ns = self.arm.now_ns + round(within_s * SECOND_NS)
        while not condition() and self.arm.now_ns < end_ns:
            self.arm.go(0.02)
        arrived = time.monotonic() + MESSAGES_S
        while not condition():
            assert time.monotonic() < arrived, "in time"
            self.arm.client.spin_once(0.01)

    def tolerance(self, **values: float) -> list[object]:
        """Tolerances of position by joint."""
        from control_msgs.msg import JointTolerance

        return [JointTolerance(name=name, position=value) for name, value in values.items()]


@pytest.fixture
def sender(arm_of_node: SimulatedArm, make_arm: MakeArm) -> Iterator[Callable[..., GoalSender]]:
    """Makes an arm for a node with these parameters, and a sender of goals; leaves the node active."""
    made: list[GoalSender] = []

    def make(**parameters: object) -> GoalSender:
        arm = make_arm(**parameters)
        from control_msgs.action import FollowJointTrajectory

        made.append(GoalSender(arm, FollowJointTrajectory))
        return made[-1]

    yield make
    for one in made:
        one.client.destroy()
    if arm_of_node.client.state() == "inactive":
        assert arm_of_node.client.change_state("activate")


def test_the_codes_are_those_of_the_action(report_type: type) -> None:
    from control_msgs.action import FollowJointTrajectory

    for code in ResultCode:
        assert getattr(FollowJointTrajectory.Result, code.name) == code.value


def test_a_goal_is_reached_when_the_robot_is_there(sender: Callable[..., GoalSender]) -> None:
    send = sender()
    send.arm.robot.lag = 25  # cycles: 50 ms
    goal = send(PATH)
    assert send.result(goal) == (SUCCEEDED, ResultCode.SUCCESSFUL, "the goal is reached")
    send.arm.assert_at_rest()
    send.arm.assert_within(LIMITS)
    np.testing.assert_allclose(send.arm.robot.measured()[0], GOAL, atol=2e-3)
    seconds = (send.arm.now_ns - send.arm.begin_ns) * 1e-9
    assert 0.5 * 20 <= len(goal.feedback) <= 22 * seconds
    told = [[one.desired.time_from_start, one.error.time_from_start] for one in goal.feedback]
    seconds = np.array([[time.sec + 1e-9 * time.nanosec for time in times] for times in told])
    assert (np.diff(seconds, axis=0) * [1, -1] >= 0).all() and seconds[-1, 1] < 0.1 < seconds[0, 1]
    for one in goal.feedback:
        assert list(one.joint_names) == list(JOINTS)
        for quantity in ("positions", "velocities"):
            desired, actual, error = (
                np.array(getattr(point, quantity)) for point in (one.desired, one.actual, one.error)
            )
            np.testing.assert_allclose(error, desired - actual, atol=1e-9)
    errors = np.abs([one.error.positions for one in goal.feedback]).max()
    assert 0.01 < errors < 0.06, "up to 1 rad/s, 50 ms behind"


PAST = plan([0.5], [GOAL])
PAST.header.stamp.sec = 1
SEVERAL = MultiDOFJointTrajectory(points=[MultiDOFJointTrajectoryPoint()])
REFUSED = {
    "a joint that the node does not have": (plan([1.0], [[0.1]], ["elbow"]), {}, "INVALID_JOINTS", "elbow"),
    "a joint twice": (plan([1.0], [[0.1, 0.1]], ["joint_a"] * 2), {}, "INVALID_JOINTS", "joint_a"),
    "no joints": (plan([1.0], [[]], []), {}, "INVALID_JOINTS", "joint_names"),
    "no points": (JointTrajectory(joint_names=list(JOINTS)), {}, "INVALID_GOAL", "points"),
    "times that do not increase": (plan([1.0, 1.0], [GOAL, GOAL]), {}, "INVALID_GOAL", "points[1].time_from_start"),
    "too fast, with limits.action: reject": (
        plan([0.1, 0.2, 0.3], np.outer([0.2, 0.8, 1.0], GOAL)), {}, "INVALID_GOAL", "joint_a",
    ),
    "beyond a limit of position": (plan([9.0], [[7.0, 0.0, 0.0]]), {}, "INVALID_GOAL", "joint_a"),
    "not a number": (plan([1.0], [[np.nan, 0.0, 0.0]]), {}, "INVALID_GOAL", "points.positions"),
    "a trajectory of the past": (PAST, {}, "OLD_HEADER_TIMESTAMP", "header.stamp"),
    "joints with several degrees of freedom": (
        PATH, {"multi_dof_trajectory": SEVERAL}, "INVALID_JOINTS", "multi_dof_trajectory",
    ),
    "a tolerance of another joint": (PATH, {"path_tolerance": {"elbow": 0.1}}, "INVALID_JOINTS", "elbow"),
    "a tolerance that is no number": (PATH, {"goal_tolerance": {"joint_a": np.nan}}, "INVALID_GOAL", "goal_tolerance"),
}  # fmt: skip


def test_goals_that_cannot_be_executed_say_why_and_do_not_disturb_another(sender: Callable[..., GoalSender]) -> None:
    send = sender()
    other = send(LONG)
    for case, (trajectory, given, code, named) in REFUSED.items():
        fields = {name: send.tolerance(**one) if isinstance(one, dict) else one for name, one in given.items()}
        status, found, text = send.result(send(trajectory, **fields), 1.0)
        assert (status, found.name) == (ABORTED, code) and named in text, case
        assert not other.is_over, case
    assert send.result(other)[0] == SUCCEEDED


def test_a_canceled_goal_stops_fast_and_the_next_one_is_taken(
    sender: Callable[..., GoalSender],
) -> None:
    send = sender()
    goal = send(LONG)
    send.arm.go(1.0)
    speed, begin = send.arm.commands[-1, 1, 0], send.arm.cycles
    assert speed > 0.4
    canceled = goal.handle.cancel_goal_async()
    status, code, _ = send.result(goal, 1.0)
    assert (status, code) == (CANCELED, ResultCode.SUCCESSFUL) and canceled.done()
    send.arm.assert_at_rest()
    send.arm.assert_within(LIMITS)
    assert (send.arm.cycles - begin) / 500 < 0.6, "lead, stop within 0.15 s, and what messages take"
    assert send.result(send(PATH))[0] == SUCCEEDED


def leave_cut_off(arm: SimulatedArm) -> None:
    """Deactivate the node while a stop would wait for messages of the robot."""
    arm.reporting = arm.speaking = False
    arm.go(0.1)
    assert arm.client.change_state("deactivate")


LEFT = {
    "stopped": (lambda arm: arm.client.call(Stop, "stop", Stop.Request()), "INVALID_GOAL", "stopped: "),
    "stands still": (
        lambda arm: setattr(arm.robot, "frozen", True), "PATH_TOLERANCE_VIOLATED", "deviation: node: joint_a ",
    ),
    "deactivated": (
        lambda arm: arm.client.change_state("deactivate"), "INVALID_GOAL", "not_active: node: deactivated",
    ),
    "deactivated while nothing comes from the robot": (
        leave_cut_off, "INVALID_GOAL", "not_active: node: deactivated",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("happens", "expected", "said"), LEFT.values(), ids=LEFT)
def test_a_goal_that_is_left_is_aborted_with_the_reason(
    sender: Callable[..., GoalSender], happens: Callable[[SimulatedArm], object], expected: str, said: str
) -> None:
    send = sender()
    goal = send(LONG)
    send.arm.go(1.0)
    assert not goal.is_over
    happens(send.arm)
    status, code, text = send.result(goal, 2.0)
    assert (status, code.name) == (ABORTED, expected) and text.startswith(said), text
    send.arm.go(2.0)  # after a brake, the command goes back by up to 0.1 rad, at 0.1 rad/s
    send.arm.assert_at_rest()
    assert send.arm.place[0] < 1.2, "it does not go on to the goal"


def test_goals_are_rejected_while_the_node_is_not_active(sender: Callable[..., GoalSender]) -> None:
    send = sender()
    assert send.arm.client.change_state("deactivate")
    keys, before = ("rejected.not_active", "trajectories_rejected"), send.arm.client.counts()
    assert not send(PATH).accepted
    after = send.arm.client.counts()
    assert [int(after[key]) - int(before[key]) for key in keys] == [1, 1]
