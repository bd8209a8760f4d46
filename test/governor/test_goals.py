"""Action goals on a simulated clock: when and why they end; test/node has their sender's view."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, Later, SimulatedNode, ns, rejected

from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.goals import Goals
from traj_integrator_ros.parameters.table import END_GOAL
from traj_integrator_ros.requests.goals import Ended, Feedback, GoalFields, Result, ResultCode
from traj_integrator_ros.requests.plan import GOALS
from traj_integrator_ros.requests.position_trajectory import PositionFields
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

GOAL = np.array([0.5, -0.2])
AWAY = [0.4, -0.2]
WITHOUT_TIMES = [0.0, 0.0]


class GoalsOfNode:
    """The goals of a simulated node, and their results, by the names that the tests give them."""

    def __init__(self, **parameters: object) -> None:
        limits = {f"limits__{name}": [value] * 2 for name, value in (("velocity", 2.0), ("acceleration", 10.0))}
        self.node = SimulatedNode(**limits, position_trajectory__without_times="path", **parameters)
        self.node.pipeline.planner._refuse = lambda rejected, plan: self.goals.refuse(str(rejected))
        self.results: dict[str, Result] = {}
        self.feedback: list[Feedback] = []
        self.goals = Goals(
            self.node.pipeline,
            lambda name, result: self.results.update({name: result}),
            lambda name, feedback: self.feedback.append(feedback),
        )
        self.reports = self.measures = True

    def begin(self, name: str, at: float, times: object = (1.0,), rows: object = None) -> None:
        """Send a goal."""
        rows = np.outer(np.linspace(0, 1, len(times) + 1)[1:], GOAL) if rows is None else np.asarray(rows)
        joints = list(self.node.parameters.joint_names)
        fields = PositionFields(joints, 0, len(rows), [ns(time) for time in times], list(rows))
        now_ns = ns(NOW_S + at)
        plan = self.node.pipeline.plan(fields, now_ns, end=END_GOAL, topic=GOALS)
        self._published(self.goals.begin(name, GoalFields([], [], 0.0, False), plan, now_ns), at)

    def run(self, begin: float, end: float, where: object = None) -> None:
        """Let the time pass in steps of 10 ms, with a robot that follows, or stands somewhere."""
        for at in np.arange(begin, end, 0.01):
            now = NOW_S + at
            state = self.node.published.commanded(ns(now))
            position, velocity = (state or [np.zeros(2)] * 2)[:2]
            if self.reports:
                self.node.report(position, velocity, now=now)
            if self.measures:
                self.node.measure(*((position, velocity) if where is None else (where, 0.0)), now=now)
            self._recorded(self.node.tick(now))
            self._published(self.goals.look(ns(now)), at)

    def _published(self, trajectory: ExecutableTrajectory | None, at: float) -> None:
        if trajectory is not None:
            self.node.published.record(trajectory, ns(NOW_S + at))
        self._recorded(trajectory)

    def _recorded(self, trajectory: ExecutableTrajectory | None) -> None:
        if trajectory is not None and trajectory.topic == GOALS:
            self.goals.published(trajectory)


@pytest.fixture
def of_node() -> GoalsOfNode:
    """Goals of a node whose robot rests at 0."""
    made = GoalsOfNode()
    made.run(-0.1, 0.0)
    return made


@pytest.fixture
def waiting(of_node: GoalsOfNode) -> GoalsOfNode:
    """Goals of a node whose robot moves to one, while the motion to another one is sought."""
    of_node.begin("executed", 0.0)
    of_node.run(0.0, 0.5)
    of_node.node.seek_in(Later())
    of_node.begin("waits", 0.5, WITHOUT_TIMES)
    return of_node


def test_a_goal_is_over_when_the_robot_was_measured_there_and_not_before(of_node):
    of_node.begin("one", 0.0)
    of_node.run(0.0, 1.02)
    assert not of_node.results, "lead_time and 1 s"
    of_node.run(1.02, 1.05)
    assert of_node.results["one"].ended is Ended.SUCCEEDED and of_node.goals.state == "idle"
    assert len(of_node.feedback) == pytest.approx(20, abs=2)


@pytest.mark.parametrize(("scale", "times"), [(0.5, 2.0), (0.0, np.inf)])
def test_the_time_that_is_left_is_told_at_the_present_speed(of_node: GoalsOfNode, scale: float, times: float):
    of_node.begin("one", 0.0)
    of_node.run(0.0, 0.5)
    of_node.reports = False
    of_node.node.pipeline.published.follow_scaling(scale, ns(NOW_S + 0.5))
    of_node.run(0.5, 0.6)
    told, duration_s = of_node.feedback[-1], 1.0
    assert told.left_s == pytest.approx(times * (duration_s - told.into_s)) and told.into_s > 0.4


def test_a_goal_needs_joint_states_by_which_it_is_judged():
    made = GoalsOfNode()
    made.measures = False
    made.run(-0.1, 0.0)
    assert rejected(made.begin, "one", 0.0).reason is RejectionReason.NO_JOINT_STATE


def test_the_newest_of_several_goals_that_wait_is_executed(waiting):
    waiting.begin("newer", 0.5, WITHOUT_TIMES)
    assert waiting.results["waits"].text.startswith("superseded: ")
    waiting.node.threads.waits = False
    waiting.node.threads.work()
    waiting.run(0.5, 3.0)
    assert waiting.results["executed"].text.startswith("superseded: ")
    assert waiting.results["newer"].ended is Ended.SUCCEEDED


def test_a_goal_that_waits_and_is_refused_then_says_why(waiting):
    waiting.node.stop(NOW_S + 0.51)
    assert waiting.results["waits"].text.startswith("stopped: ")
    assert waiting.results["waits"].code is ResultCode.INVALID_GOAL


def test_a_goal_that_is_canceled_while_it_waits_is_never_begun(waiting):
    assert waiting.goals.has("waits")
    assert waiting.goals.cancel("waits", ns(NOW_S + 0.5)) is None
    waiting.node.threads.work()
    waiting.run(0.5, 3.0)
    assert waiting.results["waits"].ended is Ended.CANCELED and not waiting.goals.has("waits")
    assert waiting.results["executed"].ended is Ended.SUCCEEDED


@pytest.mark.parametrize(
    "happens",
    [
        lambda waiting: waiting.begin("newer", 0.5, WITHOUT_TIMES),
        lambda waiting: waiting.goals.abort(Rejected(RejectionReason.NOT_ACTIVE, "node: deactivated")),
    ],
    ids=["another goal", "deactivated"],
)
def test_a_goal_canceled_while_it_waits_is_over_for_good(waiting, happens):
    waiting.goals.cancel("waits", ns(NOW_S + 0.5))
    happens(waiting)
    assert waiting.results["waits"].ended is Ended.CANCELED


@pytest.fixture
def away() -> GoalsOfNode:
    """Goals of a node whose robot is not where the motion of a goal has ended."""
    made = GoalsOfNode(**{"constraints.a.goal": 0.01, "supervision__deviation": 0.0})
    made.run(-0.1, 0.0)
    made.begin("one", 0.0)
    made.run(0.0, 1.2, where=AWAY)
    assert not made.results
    return made


def test_a_newer_plan_from_elsewhere_ends_a_goal(of_node):
    of_node.begin("one", 0.0)
    of_node.run(0.0, 0.3)
    of_node.node.plan([1.0], [[0.1, 0.1]], now=NOW_S + 0.3)
    of_node.run(0.3, 0.32)
    assert of_node.results["one"].text == "superseded: goal: a newer trajectory came on ~/position_trajectory"


def test_a_controller_that_is_off_ends_a_goal_but_a_gap_does_not(of_node):
    of_node.begin("one", 0.0, [2.0])
    of_node.run(0.0, 0.3)
    of_node.reports = False
    of_node.run(0.3, 0.6)
    of_node.reports = True
    of_node.run(0.6, 0.7)
    assert not of_node.results
    of_node.reports = False
    of_node.run(0.7, 1.3)
    assert of_node.results["one"].text.startswith("controller_unavailable: node: expected reports")


def test_a_clock_that_jumps_back_ends_a_goal(of_node):
    of_node.begin("one", 0.0)
    of_node.run(0.0, 0.3)
    of_node.run(-500.0, -499.9)
    assert of_node.results["one"].code is ResultCode.INVALID_GOAL
    assert of_node.results["one"].text.startswith("clock_jumped_back: ")


def test_joint_states_that_end_after_the_motion_end_the_goal(away):
    away.measures = False
    away.run(1.2, 1.8)
    assert away.results["one"].text.startswith("state_too_old: ")


def test_an_unheard_robot_ends_its_goal_a_second_after_its_time():
    made = GoalsOfNode(**{"constraints.goal_time": 0.2, "state_timeout": 0.0})
    made.run(-0.1, 0.0)
    made.begin("one", 0.0)
    made.run(0.0, 0.5)
    made.measures = False
    made.run(0.5, 2.2)
    assert not made.results, "1.02 + 0.2 + 1 s"
    made.run(2.2, 2.3)
    assert made.results["one"].code is ResultCode.GOAL_TOLERANCE_VIOLATED


def test_a_goal_missed_for_two_seconds_is_told_once_with_joint_and_tolerance(away):
    away.node.warnings.clear()
    away.run(1.2, 3.0, where=AWAY)
    assert not away.node.warnings, "the motion has ended at 1.02 s"
    away.run(3.0, 4.0, where=AWAY)
    (told,) = away.node.warnings
    assert told.reason is RejectionReason.DEVIATION and not away.results
    assert "a: position 0.1 away from the goal, expected at most 0.01, 2.0 s after the end" in told.message


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_a_held_gripper_misses_no_goal_but_its_own_tolerance(tolerance: float) -> None:
    made = GoalsOfNode(**{"joints.kind": ["arm", "gripper"], "constraints.b.trajectory": tolerance})
    measure = made.node.measure
    made.node.measure = lambda position, velocity, now: measure(position * [1.0, 0.0], velocity * [1.0, 0.0], now)
    made.run(-0.1, 0.0)
    made.begin("one", 0.0)
    made.run(0.0, 1.2)
    assert not made.node.published.guard.brakes
    expected = ResultCode.PATH_TOLERANCE_VIOLATED if tolerance else ResultCode.SUCCESSFUL
    assert made.results["one"].code is expected, made.results


class OfTwoPublishers(GoalsOfNode):
    """Goals of a node whose second joint is measured less often, by a publisher of its own; the robot follows."""

    def __init__(self, every: int, ahead: float = 0.0, **parameters: object) -> None:
        super().__init__(**parameters)
        self.every, self.count, self.ahead = every, 0, ahead
        self.silent = False
        self.node.measure = self._measure

    def _measure(self, position: np.ndarray, velocity: np.ndarray, now: float) -> None:
        self.count += 1
        for joint, name in enumerate("ab"):
            if joint and (self.count % self.every or self.silent):
                continue
            stamp_ns = ns(now + joint * self.ahead)
            values = (np.array([part[joint]]) for part in (position, velocity))
            self.node.pipeline.joint_state(*values, ns(now), stamp_ns, [name])


@pytest.mark.parametrize(("every", "ahead"), [(1, 0.0), (10, 0.0), (20, 0.0), (40, 0.0), (1, 3.0), (10, 3.0)])
def test_each_joint_is_compared_at_its_own_time(every: int, ahead: float) -> None:
    made = OfTwoPublishers(every, ahead, **{"constraints.a.trajectory": 1e-3, "constraints.b.trajectory": 1e-3})
    made.run(-0.5, 0.0)
    made.begin("one", 0.0, rows=[[0.5, -0.6]])
    made.run(0.0, 1.02)
    assert not made.results, made.results
    made.run(1.02, 1.5)
    assert made.results["one"].ended is Ended.SUCCEEDED, made.results
    assert max(np.abs(one.error.position).max() for one in made.feedback) < 1e-6
    assert not made.node.published.guard.brakes
