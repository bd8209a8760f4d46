"""The robot's clock, from stamps and their arrivals; and motions when a clock is set."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from pipelines import SECOND, SimulatedNode

from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.governor.committed import CommittedFields
from traj_integrator_ros.governor.controller_reports import ControllerReport, ControllerStatus
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.goals import Goals
from traj_integrator_ros.governor.robot_clock import RobotClock
from traj_integrator_ros.parameters.table import END_GOAL
from traj_integrator_ros.requests.goals import Ended, GoalFields
from traj_integrator_ros.requests.plan import GOALS
from traj_integrator_ros.requests.position_trajectory import PositionFields
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

MS = 1_000_000
BEGIN_NS, LEAD_NS = 1_000_000 * MS, 20 * MS
EPOCH_NS = 2_000_000 * MS


class Clocks:
    """A node's clock and a robot's that differ by `ahead` ms, and reports or joint states that come late by some."""

    def __init__(self, ahead: float = 0.0, *, late: float = 0.3, every: float = 20.0, reports: bool = True) -> None:
        self.clock, self.random = RobotClock(), np.random.default_rng(0)
        self.clock.lead_ns = LEAD_NS
        self.stamps = self.clock.reports if reports else self.clock.states
        self.steady_ns, self.node_ns, self.robot_ns = BEGIN_NS, EPOCH_NS, EPOCH_NS + round(ahead * MS)
        self.late, self.every = late, every

    def go(self, count: int = 50, jitter: float = 0.0) -> list[int]:
        """Let stamps arrive; returns by how much the clock was found to be set, ns."""
        found = []
        for _ in range(count):
            self.steady_ns += round(self.every * MS)
            late_ns = round((self.late + self.random.uniform(0.0, jitter or 1e-9)) * MS)
            self.read()
            before_ns = self.clock.set_ns
            self.clock.take(self.stamps, self.steady_ns + self.robot_ns, self.steady_ns + late_ns)
            self.read()
            found += [self.clock.set_ns - before_ns] * (self.clock.set_ns != before_ns)
        return found

    def read(self) -> float:
        """Difference of the clock's reading from the robot's clock, ms."""
        read_ns = self.clock.read(self.steady_ns + self.node_ns, self.steady_ns) + self.clock.set_ns
        return (read_ns - self.steady_ns - self.robot_ns) / MS

    def set_clock(self, node: float = 0.0, robot: float = 0.0) -> None:
        """Set the clocks forward, by ms."""
        self.node_ns += round(node * MS)
        self.robot_ns += round(robot * MS)


@pytest.mark.parametrize("jitter", [0.0, 15.0])
@pytest.mark.parametrize("ahead", [0.0, 2.0, 15.0, 60.0, 3_600_000.0])
def test_a_clock_ahead_is_read_to_the_shortest_time_on_the_way(ahead: float, jitter: float) -> None:
    clocks = Clocks(ahead)
    clocks.go(jitter=jitter)
    assert abs(clocks.read()) <= 0.3 + (jitter > 0) * 2.0
    assert clocks.clock.offset_ns == pytest.approx((ahead - 0.3) * MS, abs=2 * MS if jitter else 1)
    assert clocks.clock.steps <= (jitter > 0), "the first stamps may all have been late"


@pytest.mark.parametrize("behind", [2.0, 15.0, 60.0, 1000.0])
def test_delays_below_a_lead_are_transport_and_the_rest_a_clock_behind(behind: float) -> None:
    """The remaining offset makes messages begin earlier: by at most a lead, and at least by the error."""
    clocks = Clocks(-behind)
    clocks.go()
    assert clocks.read() == pytest.approx(min(behind, 20.0 - 0.3), abs=1e-3)
    assert clocks.read() <= clocks.clock.unsure_ns / MS <= 20.0
    same = Clocks(late=behind if behind < 20 else 19.0)
    same.go()
    assert same.read() == 0.0, "transport is no offset"


def test_late_joint_states_say_nothing_about_a_clock_behind() -> None:
    clocks = Clocks(-60.0, reports=False)
    clocks.go()
    assert clocks.read() == pytest.approx(60.0)
    stamp_ns = clocks.steady_ns + clocks.robot_ns
    assert clocks.clock.of_states(stamp_ns) == stamp_ns and clocks.clock.of_states(0) == 0


def test_neither_the_first_joint_state_nor_a_late_one_raises_a_doubt() -> None:
    clocks = Clocks(reports=False)
    clocks.go(1)
    assert not clocks.clock.is_doubted
    clocks.go(50)
    clocks.late += 200.0
    clocks.go(1)
    assert not clocks.clock.is_doubted and abs(clocks.read()) < 1.0


@pytest.mark.parametrize("every", [2.0, 20.0, 100.0])
@pytest.mark.parametrize("by", [-200.0, -25.0, 30.0])
@pytest.mark.parametrize("whose", ["node", "robot", "both"])
def test_a_clock_that_is_set_is_noticed_and_read_again_soon(whose: str, by: float, every: float) -> None:
    clocks = Clocks(300.0, every=every)
    clocks.go()
    time_ns = clocks.clock.at(0)
    clocks.set_clock(by * (whose != "robot"), by * (whose != "node"))
    before = clocks.read()
    assert clocks.clock.is_doubted == (whose != "robot")
    assert before == pytest.approx(-0.3 - by * (whose != "node"), abs=1e-3), "until then, it is what it was"
    found = clocks.go(2 + math.ceil((300.0 if by < 0 else 40.0) / every))
    assert clocks.read() == pytest.approx(-0.3, abs=1e-3) and not clocks.clock.is_doubted
    assert clocks.clock.steps == 1 + (whose == "both")
    assert found == ([] if whose == "node" else [pytest.approx(by * MS, abs=MS)])
    assert clocks.clock.at(0) == pytest.approx(time_ns, abs=MS // 100), "the time of motions goes on"


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("every", [1.0, 4.0, 10.0])
def test_stamps_that_were_held_up_and_arrive_at_once_are_no_step(every: float, reports: bool) -> None:
    clocks = Clocks(0.0, every=every, reports=reports)
    clocks.go()
    for _ in range(10):
        made_ns = [clocks.steady_ns + round(every * MS * index) for index in range(1, round(200 / every) + 1)]
        clocks.steady_ns = made_ns[-1]
        for index, stamp_ns in enumerate(made_ns):
            clocks.read()
            arrived_ns = clocks.steady_ns + 20_000 * index
            clocks.clock.take(clocks.stamps, stamp_ns + clocks.robot_ns, arrived_ns)
            assert clocks.clock.set_ns == 0
        assert clocks.go(20) == []
    assert not clocks.clock.steps and not clocks.clock.is_doubted


class Machine(Clocks):
    """A node, and a controller that executes its trajectories by a clock that counts cycles, or by one that is read.

    It reports the command of the next cycle.
    """

    def __init__(self, *, reports: bool, counts: bool, cycle: float = 0.0) -> None:
        super().__init__(reports=reports)
        self.node = SimulatedNode(start_from="previous", limits__start_deviation=0.0)
        self.clock, self.counts = self.node.published.clock, counts
        self.reports, self.base_ns, self.cycle = reports, 0, cycle
        self.executed: Motion | None = None
        self.before: Motion | None = None
        self.made: list[ExecutableTrajectory] = []
        """Trajectories that the node published by itself."""
        self.on_the_way = 0.0
        """Time, ms, that reports need to the node."""
        self.go(10)

    @property
    def robot_time_ns(self) -> int:
        return self.steady_ns + self.robot_ns

    def now_ns(self) -> int:
        return self.clock.read(self.steady_ns + self.node_ns, self.steady_ns)

    def commanded(self, ahead: float = 0.0) -> State:
        """The controller's command some ms from now: position, velocity and acceleration."""
        time_ns = self.robot_time_ns - self.base_ns + round(ahead * MS)
        begun = (one for one in (self.executed, self.before) if one and one.start_ns <= time_ns)
        one = next(begun, self.executed)
        return one.at(time_ns) if one else State(*np.zeros((3, 2)))

    def execute(self, made: ExecutableTrajectory) -> None:
        """Let the controller take a message."""
        if self.executed is not None:
            self.before = self.executed._replace(start_ns=self.executed.start_ns + self.base_ns)
        self.executed, self.base_ns = made.motion._replace(start_ns=self.clock.set_ns + made.start_ns), 0

    def refuses(self) -> bool:
        """Whether plans are refused because a clock was set; otherwise, they wait."""
        was = self.executed
        try:
            self.send()
        except Rejected as rejected:
            assert rejected.reason is RejectionReason.CLOCK_JUMPED_BACK and "a clock was set" in rejected.message
            return True
        assert self.executed is was, "nothing is published"
        return False

    def send(self, place: np.ndarray | None = None) -> None:
        """Send positions at 0.5 rad/s from a place, by default from where that leads since the beginning."""
        place = 0.5 * (self.steady_ns - BEGIN_NS) * 1e-9 * np.ones(2) if place is None else place
        rows, now, stamp = (
            place + 0.025 * np.arange(1, 21)[:, None],
            self.now_ns() * 1e-9,
            (self.steady_ns + self.node_ns) * 1e-9,
        )
        if (made := self.node.send(rows, dt=0.05, now=now, stamp=stamp)) is not None:
            self.execute(made)

    def go(self, count: int = 5, jitter: float = 0.0) -> list[int]:
        """Let reports and joint states arrive."""
        for _ in range(count):
            period_ns = round(self.every * MS)
            self.steady_ns += period_ns - (self.steady_ns - BEGIN_NS) % period_ns
            self.now_ns()
            late = self.on_the_way
            stamp_ns, state = self.robot_time_ns - round(late * MS), self.commanded(-late)
            self.clock.take(self.clock.states, stamp_ns, self.steady_ns)
            if self.reports:
                self.clock.take(self.clock.reports, stamp_ns, self.steady_ns)
            names = self.node.parameters.joint_names
            with suppress(Rejected):
                self.node.pipeline.joint_state(state.position, state.velocity, self.now_ns(), stamp_ns, names)
            if self.reports:
                reference = State(*self.commanded(self.cycle - late))
                self.node.pipeline.report(ControllerReport(stamp_ns, reference), self.now_ns())
            if (made := self.node.tick(self.now_ns() * 1e-9)) is not None:
                self.made.append(made)
                self.execute(made)
        return []

    def set_clock(self, node: float = 0.0, robot: float = 0.0) -> None:
        """Set the clocks forward, by ms."""
        super().set_clock(node, robot)
        if self.counts:
            self.base_ns += round(robot * MS)


# A controller that reads the clock stands still where that is set back to before its motion.
@pytest.mark.parametrize(("counts", "by"), [*product([True, False], [-30.0, 30.0, 200.0]), (True, -200.0)])
@pytest.mark.parametrize("whose", ["node", "robot", "both"])
@pytest.mark.parametrize("just_sent", [False, True])
def test_a_clock_that_is_set_in_motion_brings_it_to_rest(just_sent: bool, whose: str, by: float, counts: bool) -> None:
    machine = Machine(reports=True, counts=counts, cycle=1.0)
    for _ in range(10):
        machine.send()
        machine.go(5)
    if just_sent:  # the plan has not been reported yet
        machine.steady_ns += round(0.7 * machine.every * MS)
        machine.send()
    machine.set_clock(by * (whose != "robot"), by * (whose != "node"))
    if whose != "robot":
        machine.refuses()
    before, refused = machine.commanded(), 0
    for _ in range(100):
        machine.go(1)
        now = machine.commanded()
        moved = (
            np.abs(now.position - before.position) - np.maximum(now.velocity, before.velocity) * machine.every * 1e-3
        )
        assert moved.max() < 1e-3, "it stops where it is"
        before = now
        if not now.velocity.any():
            break
        refused += machine.refuses()
    assert refused and not before.velocity.any()
    machine.go(20)
    machine.send(machine.commanded().position)
    machine.go(10)
    assert machine.commanded().velocity.min() > 0.1 and machine.clock.steps == 1 + (whose == "both")
    assert machine.node.published.status(0) is ControllerStatus.EXECUTING


@pytest.mark.parametrize("by", [-200.0, -30.0, 30.0, 200.0])
@pytest.mark.parametrize("whose", ["node", "robot", "both"])
def test_the_brake_after_a_clock_was_set_begins_at_the_command(whose: str, by: float) -> None:
    """Stamps tell by how much a clock was set but for the time on the way, and late; the motion tells it at once."""
    machine = Machine(reports=True, counts=True, cycle=1.0)
    for _ in range(10):
        machine.send()
        machine.go(5)
    machine.set_clock(by * (whose != "robot"), by * (whose != "node"))
    machine.on_the_way = 0.7
    for _ in range(2):
        before = [machine.commanded(ahead) for ahead in (22.0, 24.0, 26.0)]
        machine.go(1)
        if machine.made:
            break
    for ahead, state in zip((2.0, 4.0, 6.0), before, strict=True):
        np.testing.assert_allclose(machine.commanded(ahead), state, atol=1e-6)
        assert np.abs(machine.commanded(ahead).position - state.position).max() < 2e-9
    machine.go(20)
    assert not machine.commanded().velocity.any() and len(machine.made) == 1


def test_without_reports_a_clock_set_in_motion_waits_for_rest() -> None:
    machine = Machine(reports=False, counts=True)
    for _ in range(10):
        machine.go(5)
        with suppress(Rejected):
            machine.send()
    assert machine.commanded().velocity.min() > 0.1
    machine.set_clock(30.0, 30.0)
    machine.go(5)
    with pytest.raises(Rejected, match="a clock was set") as refused:
        machine.send()
    assert refused.value.reason is RejectionReason.CLOCK_JUMPED_BACK
    assert machine.node.pipeline.planner.stop(machine.now_ns()) is not None, "but a stop is possible"
    machine.node.published.guard.stopped_until_rest = False
    machine.go(200)
    assert not machine.commanded().velocity.any()
    machine.send()


@pytest.mark.parametrize("by", [-200.0, 200.0])
@pytest.mark.parametrize("counts", [True, False])
def test_without_reports_no_brake_begins_where_the_command_may_not_be(by: float, counts: bool) -> None:
    """The motion ends by itself: nobody knows where the controller is in it."""
    machine = Machine(reports=False, counts=counts)
    for _ in range(10):
        machine.go(5)
        with suppress(Rejected):
            machine.send()
    machine.made.clear()
    machine.set_clock(by, by)
    machine.go(100)
    assert not machine.made and not machine.commanded().velocity.any()
    machine.go(60)
    machine.send()
    assert machine.commanded(500.0).velocity.any()


def test_committed_rows_are_by_the_clock_of_who_asks() -> None:
    machine = Machine(reports=True, counts=True)
    machine.set_clock(robot=200.0)
    machine.go(5)
    for count in (5, 5, 15):
        machine.send()
        machine.go(count)
    now_ns, lead, dt = machine.steady_ns + machine.node_ns, machine.node.parameters.publish_lead_time, 0.04
    asked = CommittedFields(now_ns - 100 * MS, dt, 12, 4)
    found = machine.node.pipeline.committed(asked, machine.now_ns())
    assert found.now_ns == now_ns and found.executing and found.lead == pytest.approx(lead, abs=1e-3)
    assert found.committed == 1 + (0.1 + found.lead) // dt
    for first, position, velocity in (
        (0, found.position, found.velocity),
        (-4, found.commanded_position, found.commanded_velocity),
        (-4, found.measured_position, found.measured_velocity),
    ):
        expected = [machine.commanded(1e3 * dt * row - 100.0) for row in range(first, first + len(position))]
        np.testing.assert_allclose(position, [state.position for state in expected], atol=1e-3)
        np.testing.assert_allclose(velocity, [state.velocity for state in expected], atol=0.05)
    asked = asked._replace(stamp_ns=now_ns + 1001 * MS)
    with pytest.raises(Rejected, match=r"at most 1 s ahead .* got 1\.001 s"):
        machine.node.pipeline.committed(asked, machine.now_ns())


@pytest.mark.parametrize("by", [-500.0, 500.0])
def test_a_clock_that_is_set_on_the_way_aborts_a_goal_by_name(by: float) -> None:
    machine, results = Machine(reports=True, counts=True), []
    goals = Goals(machine.node.pipeline, lambda _, result: results.append(result), lambda *_: None)
    joints, goal = list(machine.node.parameters.joint_names), np.full(2, 0.3)
    fields, now_ns = PositionFields(joints, 0, 1, [SECOND], [goal], [], []), machine.now_ns()
    plan = machine.node.pipeline.plan(fields, now_ns, end=END_GOAL, topic=GOALS)
    made = goals.begin("goal", GoalFields([], [], 0.05, False), plan, now_ns)
    machine.node.published.record(made, machine.now_ns())
    goals.published(made)
    machine.executed = made.motion._replace(start_ns=machine.clock.set_ns + made.start_ns)
    for tick in range(20):
        if tick == 10:
            machine.set_clock(by, by)
        machine.go(1)
        assert goals.look(machine.now_ns()) is None
    assert results[0].ended is Ended.ABORTED and "a clock was set" in results[0].text
    machine.go(50)
    assert not machine.commanded().velocity.any()


@pytest.mark.parametrize("known", [False, True], ids=["its first", "one of many"])
def test_what_waits_for_a_disbelieved_controller_is_refused_in_the_end(
    known,
) -> None:
    machine = Machine(reports=known, counts=True)
    machine.reports = False
    machine.steady_ns += 20 * MS
    stamp_ns, now_ns = machine.robot_time_ns + 200 * MS, machine.now_ns()
    machine.clock.take(machine.clock.reports, stamp_ns, machine.steady_ns)
    machine.node.pipeline.report(ControllerReport(stamp_ns, State(*np.zeros((3, 2)))), now_ns)
    machine.send()
    machine.go(23)
    assert machine.executed is None and not machine.node.refused, "it may report again"
    machine.go(4)
    ((reason, _),) = machine.node.refused
    assert reason is RejectionReason.CONTROLLER_UNAVAILABLE and machine.executed is None
    with pytest.raises(Rejected, match="expected reports of the controller, got none for"):
        machine.send()
