"""The time from now until a new plan is taken up: as given, or as long as computing and transport take."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import GIVEN, NOW_S, SimulatedNode, limits, ns

from traj_integrator_ros.governor.controller_reports import ControllerReport
from traj_integrator_ros.governor.lead import Lately

LIMITED = {f"limits__{name}": values for name, values in GIVEN.items()}
TRANSPORT_S, TOOK_S = 0.06, 0.004


def late_reports(node: SimulatedNode, until: float, count: int = 50, transport: float = TRANSPORT_S) -> None:
    """Send reports of a controller at rest every 20 ms, each delayed by its transport to the node."""
    for stamp in until - transport - 0.02 * np.arange(count)[::-1]:
        report = ControllerReport(ns(stamp), node._state(0.0))
        node.pipeline.report(report, ns(stamp + transport))


def sent(node: SimulatedNode, now: float) -> float:
    """Time from the arrival of a sequence, which takes `TOOK_S` to publish, until it is taken up, s."""
    node.measure(0.0, now=now)
    trajectory = node.send(np.full((16, 2), 0.01), now=now, took=TOOK_S, start=(np.zeros(2), np.zeros(2)))
    return trajectory.due_ns * 1e-9 - now


@pytest.mark.parametrize("is_auto", [False, True])
def test_a_plan_is_taken_up_once_it_can_be_at_the_controller(is_auto: bool) -> None:
    node = SimulatedNode(**LIMITED, publish__lead_time_auto=is_auto)
    late_reports(node, NOW_S)
    first = sent(node, NOW_S)
    late_reports(node, NOW_S + 1.5)
    second = sent(node, NOW_S + 1.5)
    assert first == pytest.approx(TRANSPORT_S if is_auto else 0.02, abs=1e-6)
    assert second == pytest.approx(TRANSPORT_S + TOOK_S if is_auto else 0.02, abs=1e-6)
    assert node.published.report().lead_s == pytest.approx(second, abs=1e-6)


def test_the_lead_is_at_least_the_parameter_and_at_most_the_longest_wait() -> None:
    node = SimulatedNode(**LIMITED, publish__lead_time_auto=True, publish__longest_wait=0.03)
    assert node.published.lead.seconds == 0.02
    late_reports(node, NOW_S)
    assert node.published.lead.seconds == 0.03


def test_a_stop_is_taken_up_when_it_can_be_at_the_controller() -> None:
    node = SimulatedNode(**LIMITED, publish__lead_time_auto=True)
    late_reports(node, NOW_S)
    node.measure(0.0)
    node.send(np.linspace(0.01, 0.5, 50)[:, None] * np.ones(2), start=(np.zeros(2), np.zeros(2)))
    stop = node.pipeline.commands.stop(ns(NOW_S + 0.1))
    assert stop.due_ns * 1e-9 - NOW_S - 0.1 == pytest.approx(TRANSPORT_S, abs=1e-6)


def test_trajectories_that_came_too_late_are_taken_up_later() -> None:
    far = {"publish__lead_time_auto": True, "limits__start_deviation": 0.0}
    node = SimulatedNode(**limits(velocity=10.0, acceleration=100.0, jerk=2e4), **far)
    aside, late, motions = 0.3 * np.ones((20, 2)), 0.05, []
    node.measure(0.0)
    for number, sent_at in enumerate(NOW_S + np.arange(0.0, 3.0, 0.2)):
        sign = 1 - 2 * (number % 2)
        node.send(sign * aside, now=sent_at, start=(np.zeros(2), np.zeros(2)) if not motions else ())
        motions = [*motions[-1:], node.published.present.own(ns(sent_at)).planned]
        for time in sent_at + np.arange(0.005, 0.2, 0.005):
            state = motions[0 if time < sent_at + late else -1].state_at(ns(time))
            node.measure(state.position, state.velocity, now=time)
            node.report(state.position, state.velocity, now=time)
    assert late - 0.011 <= node.published.lead.seconds <= late, "up to two reports beside it: one in a hundred is late"


def test_slow_work_is_forgotten_after_a_minute_or_a_clock_set_back() -> None:
    lately = Lately()
    for second in range(70):
        lately.take(ns(second), 1.0 if second < 5 else 0.1)
    assert lately.value == pytest.approx(0.1)
    lately.take(ns(80), 2.0)
    lately.take(ns(1), 0.3)
    assert lately.value == 0.3


def test_one_in_a_hundred_may_take_longer() -> None:
    lately = Lately()
    for index in range(1, 1000):
        lately.take(ns(0.06 * index), 1.0 if index % 150 == 0 else 0.01)
    assert lately.value == pytest.approx(0.01)
