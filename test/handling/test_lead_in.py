"""publish.lead_in: chunks follow each other without a seam, with lagging joints and from any state that is joined."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from pipelines import HELD, NOW_S, SimulatedNode, at

from traj_integrator_ros.kernels import ControlSpace

LAG, DT, PERIOD, HORIZON = 0.04, 0.05, 0.3, 16
SPEED, RATE = 2.0, 0.15
"""The motion that is meant: 0.15 sin(2 t) rad; at most 0.6 rad/s^2."""


def lagging_controller(jtc: ModuleType, rate: float, from_desired: bool) -> object:
    """The controller's model on joints that follow 40 ms late: what it joins from the measured state begins there."""

    class Lagging(jtc.Controller):
        position = velocity = np.zeros(1)

        def _join(self, now: int) -> None:
            super()._join(now)
            if not from_desired:
                self._before = jtc.Point(now, self.position, self.velocity, None)

        def follow(self, command: np.ndarray) -> None:
            before, self.position = (
                self.position,
                self.position + (1 - np.exp(-1 / rate / LAG)) * (command - self.position),
            )
            self.velocity = (self.position - before) * rate

    return Lagging(["a"], rate=rate, hard_replacement=True, interpolate_from_desired_state=from_desired)


def commanded(jtc: ModuleType, rate: float, from_desired: bool, **parameters: object) -> Iterator[float]:
    """Positions that the controller commands while chunks of the motion replace each other, 1 to 15 ms on their way."""
    random = np.random.default_rng(0)
    node = SimulatedNode(1, start_from="previous", limits__start_deviation=0.0, **parameters)
    controller = lagging_controller(jtc, rate, from_desired)
    arriving: list[tuple[float, object]] = []
    observation = 0.0
    for cycle in range(int(3 * rate)):
        now = cycle / rate
        if now >= observation + 0.1:  # that long it has thought
            rows = RATE * np.sin(SPEED * (observation + DT * np.arange(1, HORIZON + 1)))[:, None]
            node.measure(controller.position, controller.velocity, now=NOW_S + now)
            times = {"dt": DT, "now": NOW_S + now, "stamp": NOW_S + observation}
            arriving.append((now + random.uniform(0.001, 0.015), node.send(rows, space=ControlSpace.POSITION, **times)))
            observation += PERIOD
        if arriving and arriving[0][0] <= now:
            trajectory = arriving.pop(0)[1]
            points, stamp = trajectory.points, trajectory.start_ns * 1e-9
            assert controller.receive(["a"], *points, now=NOW_S + now, stamp=stamp), controller.refusal
        command = controller.update(NOW_S + now)[0]
        controller.follow(command)
        yield float(command[0])


@pytest.mark.parametrize("rate", [500.0, 1000.0])
@pytest.mark.parametrize("from_desired", [False, True], ids=["from measured", "from desired"])
def test_with_a_lead_in_the_controller_joins_nothing_by_itself(models, rate, from_desired):
    positions = np.array(list(commanded(models.jtc, rate, from_desired, publish__lead_in=True)))
    # From second differences of commands, as a drive receives them. The first second begins from rest.
    acceleration = np.diff(positions, 2)[int(rate) :] * rate**2
    assert np.abs(acceleration).max() <= 1.05 * RATE * SPEED**2


@pytest.mark.parametrize("from_desired", [False, True], ids=["from measured", "from desired"])
def test_without_it_the_seams_are_the_controllers_own(models, from_desired):
    positions = np.array(list(commanded(models.jtc, 1000.0, from_desired, publish__lead_in=False)))
    acceleration = np.diff(positions, 2)[1000:] * 1e6
    assert np.abs(acceleration).max() > 100


@pytest.mark.parametrize("ahead", [-0.03, 0.25], ids=["stamp in the past", "stamp in the future"])
@pytest.mark.parametrize("space", HELD)
def test_it_repeats_what_was_published_and_changes_nothing_afterwards(space, ahead):
    random = np.random.default_rng(space.value)
    first, second = (random.normal(scale=0.1, size=(20, 2)) for _ in range(2))
    nodes = [
        SimulatedNode(start_from="previous", limits__start_deviation=0.0, publish__lead_in=on) for on in (False, True)
    ]
    now, trajectories = NOW_S + 0.4, []
    for node in nodes:
        node.measure(0.0)
        before = node.send(first, space=space, dt=0.05, stamp=NOW_S)
        trajectories.append(node.send(second, space=space, dt=0.05, now=now, stamp=now + ahead, took=0.004))
    plain, begun = trajectories
    assert (begun.start_ns, begun.due_ns, begun.dropped) == (round(now * 1e9), plain.start_ns, plain.dropped)
    assert begun.points.time_ns[0] == 0
    assert begun.brakes_at == pytest.approx(plain.brakes_at + (plain.start_ns - begun.start_ns) * 1e-9, abs=1e-8)
    for time in now + np.linspace(0.0001, 0.0199, 9):
        np.testing.assert_allclose(at(begun, time)[:2], at(before, time)[:2], rtol=0, atol=1e-7)
    for time in plain.start_ns * 1e-9 + np.linspace(0.0001, 0.9, 50):
        np.testing.assert_allclose(at(begun, time)[:2], at(plain, time)[:2], rtol=0, atol=1e-7)
    report = nodes[1].published.report()
    assert report.lead_margin_least_s == pytest.approx(begun.due_ns * 1e-9 - now - 0.004, abs=1e-6) and not report.late


def test_a_trajectory_that_has_not_begun_yet_is_led_in_with_its_beginning():
    """Two chunks at once, for a robot at rest: the first is taken up after `publish.lead_time`, the second before."""
    node = SimulatedNode(1, start_from="previous", limits__start_deviation=0.0)
    node.measure(0.0)
    node.execute(0.0)
    rows = 0.1 * np.sin(np.arange(1, 21) * 0.1)[:, None]
    first = node.send(rows, dt=0.05, stamp=NOW_S)
    second = node.send(rows, dt=0.05, now=NOW_S + 0.008, stamp=NOW_S)
    assert first.start_ns < second.start_ns < first.due_ns < second.due_ns
    for time in NOW_S + np.linspace(0.009, 0.0279, 20):
        np.testing.assert_allclose(at(second, time)[:2], at(first, time)[:2], rtol=0, atol=1e-9)
    assert np.abs(second.motion.states_at(np.arange(0, 1, 1e-3))[2]).max() < 15, "no acceleration jumps"


@pytest.mark.parametrize("seed", range(3))
def test_sequences_of_all_kinds_every_few_milliseconds_become_finite_motions_of_few_points(seed):
    random = np.random.default_rng(seed)
    node = SimulatedNode(start_from="measured", limits__start_deviation=0.0, supervision__deviation=0.0)
    node.execute(0.0)
    scales = dict(zip(HELD, (0.01, 0.5, 1.0, 5.0), strict=True))
    now = NOW_S
    for _ in range(150):
        now += random.exponential(4e-4) + 1e-4
        node.measure(0.0, now=now)
        space = HELD[random.integers(len(HELD))]
        actions = scales[space] * random.uniform(-1, 1, (16, 2)).cumsum(axis=0)
        trajectory = node.send(actions, space=space, dt=0.01, now=now)
        if trajectory is not None:
            assert np.isfinite(trajectory.motion.coefficients).all()
            assert (np.diff(trajectory.points.time_ns) > 0).all() and len(trajectory.points.time_ns) < 400
