"""Long searches run in threads: the caller goes on, the newest plan counts, and a stop does not wait for them."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, Later, SimulatedNode, largest, limits

from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.requests.rejection import RejectionReason

VELOCITY = 1.0
STEPS = np.arange(1, 51)[:, None] / 50
TOO_FAST = (10 * STEPS**3 - 15 * STEPS**4 + 6 * STEPS**5) * [1.5, 0.2]
"""The plan lasts 1 s, at up to 2.8 rad/s."""
KEPT = 1 + 1e-3
"""Limits are kept to 0.1 %."""
SUPERSEDED, STOPPED = RejectionReason.SUPERSEDED, RejectionReason.STOPPED


class Busy(SimulatedNode):
    """A node whose threads finish when a test says so; it rests at 0."""

    GIVEN = limits(velocity=VELOCITY, acceleration=8.0, jerk=80.0) | {
        "start_from": "previous", "limits__action": "retime",
        "limits__start_deviation": 0.0,
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__(**self.GIVEN)
        self.woken = 0
        self.seek_in(Later(), self._wake)
        self.measure(0.0)
        self.execute(0.0)

    def _wake(self) -> None:
        self.woken += 1

    def fast(self, now: float, size: float = 1.0) -> ExecutableTrajectory | None:
        """Send the rest of a plan that began at NOW_S, with its stamp."""
        into = round((now - NOW_S) / 0.02)
        return self.send(size * TOO_FAST[into:], now=now, stamp=NOW_S + 0.02 * into)

    def made(self, now: float) -> tuple[ExecutableTrajectory, float]:
        """The trajectory that is published once the threads are done, and the time of it."""
        for _ in range(50):  # a search that the machine held up takes several turns
            self.threads.work()
            if (trajectory := self.tick(now)) is not None:
                return trajectory, now
            now += 0.01
        raise AssertionError("nothing was published")


@pytest.fixture
def node() -> Busy:
    return Busy()


def test_a_way_found_late_is_taken_up_as_if_found_at_once(node: Busy) -> None:
    assert node.fast(NOW_S) is None and node.tick(NOW_S + 0.01) is None and not node.woken
    trajectory, now = node.made(NOW_S + 0.1)
    searched, lead = 2.0 * 0.1, node.parameters.publish_lead_time
    assert node.woken and not node.refused
    assert now < trajectory.due_ns * 1e-9 < now + searched + lead and trajectory.start_ns * 1e-9 == pytest.approx(now)
    assert trajectory.delay > 0 and largest(trajectory.motion)[0].max() <= VELOCITY * KEPT
    np.testing.assert_allclose(trajectory.motion.end.position, TOO_FAST[-1], atol=1e-9)
    assert trajectory.topic == "action_sequence" and trajectory.plan.received_ns == round(NOW_S * 1e9)


def test_a_way_from_where_the_command_is_no_more_is_sought_again(node: Busy) -> None:
    node.fast(NOW_S)
    node.execute([0.05, 0.0])
    trajectory, _ = node.made(NOW_S + 0.005)
    due_s = (trajectory.due_ns - trajectory.start_ns) * 1e-9
    np.testing.assert_allclose(trajectory.motion.state_at(due_s).position, [0.05, 0.0], atol=1e-9)


def test_of_faster_plans_than_ways_the_first_and_newest_are_published(node: Busy) -> None:
    for cycle in range(5):
        assert node.fast(NOW_S + 0.02 * cycle) is None
    assert [reason for reason, _ in node.refused] == [SUPERSEDED] * 3
    first, now = node.made(NOW_S + 0.1)
    newest, _ = node.made(now + 0.01)
    assert len(node.refused) == 3 and first.plan.origin_ns < newest.plan.origin_ns == round((NOW_S + 0.08) * 1e9)


@pytest.mark.parametrize(("rows", "submitted"), [(256, False), (257, True)])
def test_only_a_long_chunk_is_planned_in_a_thread(node: Busy, rows: int, submitted: bool) -> None:
    node.pipeline.reconfigure(SimulatedNode(**Busy.GIVEN, max_horizon=300).parameters)
    share = np.arange(1, rows + 1)[:, None] / rows
    node.send(share**3 * (10 - 15 * share + 6 * share**2) * [0.5, 0.2], stamp=NOW_S)
    assert bool(node.threads.submitted) == submitted


def test_a_plan_with_a_quick_way_replaces_those_still_sought(node: Busy) -> None:
    node.fast(NOW_S)
    node.fast(NOW_S + 0.02)
    node.threads.waits = False
    quick = node.send(0.02 * TOO_FAST[:8], now=NOW_S + 0.04, stamp=NOW_S + 0.04)
    assert quick is not None and [reason for reason, _ in node.refused] == [SUPERSEDED] * 2
    node.threads.work()
    assert node.tick(NOW_S + 0.05) is None, "what was sought is dropped"


def test_a_stop_is_made_at_once_and_drops_what_is_sought(node: Busy) -> None:
    node.threads.waits = False
    assert node.send(0.2 * TOO_FAST, now=NOW_S, stamp=NOW_S)
    node.threads.waits, now = True, NOW_S + 0.5
    node.measure(*node.commanded(now)[:2], now=now)
    node.fast(now)
    node.fast(now + 0.02)
    stop = node.stop(now + 0.03)
    assert stop is not None and stop.due_ns * 1e-9 == pytest.approx(now + 0.03 + node.parameters.publish_lead_time)
    assert [reason for reason, _ in node.refused] == [STOPPED] * 2
    told = [last.motion is stop.motion for last in node.last_when_refused]
    assert all(told), "refusals are told after the stop is published"
    node.threads.work()
    assert all(node.tick(now + 0.04 + 0.01 * cycle) is None for cycle in range(40))


def test_limits_that_change_meanwhile_count(node: Busy) -> None:
    node.fast(NOW_S)
    lower = Busy.GIVEN | limits(velocity=VELOCITY / 2)
    node.pipeline.reconfigure(SimulatedNode(**lower).parameters)
    node.threads.work()
    trajectory, _ = node.made(NOW_S + 0.05)
    assert largest(trajectory.motion)[0].max() <= VELOCITY / 2 * KEPT


def test_a_caller_that_only_asks_is_told_and_changes_nothing(node: Busy) -> None:
    asked = node.send(TOO_FAST, only_asked=True)
    assert not asked.done() and node.fast(NOW_S) is None
    node.threads.work()
    assert asked.result(timeout=0) and not node.refused
    assert node.made(NOW_S + 0.1), "the plan that was sent meanwhile"
