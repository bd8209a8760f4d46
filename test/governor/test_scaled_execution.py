"""Motions behind a speed slider: a pipeline and the model of a scaled controller, without middleware."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, limits, ns, rejected

from kit.arm import Robot
from traj_integrator_ros.governor.controller_reports import ControllerReport, ControllerStatus
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import RejectionReason

CYCLE_S, REPORTS, ARRIVES = 0.002, 5, 2
"""Cycle of the controller, s; cycles between reports, and until a message arrives."""
TIMES = np.linspace(0, 0.8, 33)[1:]
GOAL = np.array([0.4, -0.3])
SCALES = (1.0, 0.3)
Slider = Callable[[float], float]


def shape(times: np.ndarray) -> np.ndarray:
    """A plan from rest to rest in 0.8 s, `[N, 2]`."""
    s = np.clip(times / 0.8, 0, 1)[:, None]
    return s**3 * (10 - 15 * s + 6 * s**2) * GOAL


class Scaled(SimulatedNode):
    """A node, and a controller whose slider moves; `at` are the commanded positions of all cycles.

    Stamps of the controller's reports are those of `early` cycles before.
    """

    def __init__(self, slider: Slider, *, keeps_clock: bool = False, early: int = 0, **parameters: object) -> None:
        super().__init__(**limits(velocity=2.0, acceleration=10.0, jerk=200.0), **parameters)
        self.robot = Robot("ab", rate=500, hard_replacement=True, keeps_clock=keeps_clock)
        self.slider, self.time_s, self.cycle, self.early_s = slider, NOW_S, 0, early * CYCLE_S
        self.under_way: list[tuple[int, ExecutableTrajectory]] = []
        self.at: list[np.ndarray] = []
        self.go(0.1)

    def go(self, seconds: float) -> None:
        """Run some cycles."""
        for _ in range(round(seconds / CYCLE_S)):
            self.robot.scaling = self.slider(self.time_s - NOW_S)
            now_ns = ns(self.time_s)
            while self.under_way and self.under_way[0][0] <= self.cycle:
                _, made = self.under_way.pop(0)
                stamp = {"now_ns": now_ns, "stamp_ns": made.stamp_ns}
                assert self.robot.receive(["a", "b"], *made.points, **stamp), self.robot.refusal
            self.at.append(self.robot.update(now_ns)[0])
            self.time_s, self.cycle = self.time_s + CYCLE_S, self.cycle + 1
            if self.cycle % REPORTS == 0:
                self.measure(self.robot.measured()[0], now=self.time_s)
                (position, velocity, acceleration), _ = self.robot.controller_state()
                report = self.pipeline.controller_reports.report(
                    ("a", "b"), position, velocity, acceleration, ns(self.time_s - self.early_s),
                    self.slider(self.time_s - NOW_S),
                )  # fmt: skip
                self.pipeline.report(report, ns(self.time_s))
                self.sent(self.tick(self.time_s))

    def sent(self, made: ExecutableTrajectory | None) -> ExecutableTrajectory | None:
        """Give the controller a published trajectory."""
        if made is not None:
            self.under_way.append((self.cycle + ARRIVES, made))
        return made

    def off_plan(self, plan: Callable[[np.ndarray], np.ndarray]) -> float:
        """Largest distance of the command from a plan's path, rad."""
        rows = plan(np.arange(0, 0.9, 1e-4))
        return max(np.abs(rows - place).max(axis=1).min() for place in self.at)

    def jump(self) -> float:
        """Largest jump of the command from one cycle to the next, compared with its neighbours, rad."""
        steps = np.diff(self.at, axis=0)
        usual = np.median([steps[:-2], steps[1:-1], steps[2:]], axis=0)
        return float(np.abs(steps[1:-1] - usual).max())


def changing(*scales: float) -> Slider:
    """A slider that is moved every 0.2 s, from 0.3 s on."""
    return lambda t: (1.0, *scales)[min(max(int((t - 0.1) / 0.2), 0), len(scales))]


SLIDERS = {
    **{f"{scale:g}": (lambda _, scale=scale: scale) for scale in SCALES},
    "steps": changing(0.3, 0.7, 0.1, 1.0, 0.5),
    "pause": changing(1.0, 0.0, 0.0, 0.0, 0.3),
    "ramp": lambda t: float(np.clip(abs(t - 0.7), 0.1, 1.0)),
}

STREAMED = ("steps", "pause")


@pytest.mark.parametrize("slider", SLIDERS.values(), ids=SLIDERS)
def test_a_plan_is_executed_to_its_end_at_any_scale(slider: Slider) -> None:
    node = Scaled(slider)
    node.sent(node.plan(TIMES, shape(TIMES), now=node.time_s))
    node.go(0.5)
    assert node.published.is_moving(ns(node.time_s))
    node.go(2.5)
    np.testing.assert_allclose(node.at[-1], GOAL, atol=1e-9)
    assert node.off_plan(shape) < 1e-3 and not node.refused and not node.published.guard.brakes
    assert not node.published.is_moving(ns(node.time_s))


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.VELOCITY, ControlSpace.ACCELERATION])
@pytest.mark.parametrize("slider", [SLIDERS[name] for name in STREAMED], ids=STREAMED)
def test_chunks_are_taken_up_where_the_command_is(slider: Slider, space: ControlSpace) -> None:
    node, speed = Scaled(slider, start_from="previous"), 0.3
    for k in range(12):
        if space is ControlSpace.POSITION:
            rows = node.robot.controller_state()[0][0] + speed * 0.04 * np.arange(1, 16)[:, None] * [1, 1]
        else:
            pace = speed if space is ControlSpace.VELOCITY else (0.6 if k < 5 else 0.0)
            rows = np.full((15, 2), pace)
        node.sent(node.send(rows, dt=0.04, space=space, now=node.time_s, stamp=node.time_s))
        node.go(0.1)
    assert not node.refused and not node.published.guard.brakes
    moved_by_slider = 0.7 * 0.7 * CYCLE_S  # at the moment at which the slider is moved, all at once
    assert node.jump() < moved_by_slider + 1e-3


def test_reports_with_the_stamp_of_an_earlier_cycle_hurry_no_motion() -> None:
    placed = []
    for early in (0, 1):
        node = Scaled(SLIDERS["1"], early=early, start_from="previous")
        for k in range(20):
            times = 0.1 * k + 0.04 * np.arange(1, 16)[:, None]
            node.sent(node.send(0.3 * (1 - np.cos(2 * times)) * [1, -1], dt=0.04, now=node.time_s, stamp=node.time_s))
            node.go(0.1)
        assert not node.refused and node.jump() < 1e-4
        placed.append(node.at)
    np.testing.assert_allclose(*placed, atol=1e-5)


def test_a_message_to_a_scaled_controller_does_not_depend_on_its_clock() -> None:
    behind = [Scaled(changing(0.0, 0.0, 0.4), keeps_clock=keeps, start_from="previous") for keeps in (False, True)]
    for node in behind:
        node.go(0.9)
        made = node.sent(node.plan(TIMES, shape(TIMES), now=node.time_s))
        assert made.stamp_ns == 0
        node.go(3.0)
        np.testing.assert_allclose(node.at[-1], GOAL, atol=1e-9)
    np.testing.assert_allclose(*(node.at for node in behind), atol=1e-6)


def test_a_stop_at_0_is_what_goes_on_afterwards() -> None:
    node = Scaled(lambda t: 1.0 if t < 0.4 else 0.0 if t < 1.4 else 0.5)
    node.sent(node.plan(TIMES, shape(TIMES), now=node.time_s))
    node.go(0.8)
    stop = node.sent(node.stop(node.time_s))
    assert np.isinf(node.published.motion_clock.lasts_s(stop.motion.duration))
    assert rejected(node.plan, TIMES, shape(TIMES), now=node.time_s).reason is RejectionReason.STOPPED
    node.go(2.0)
    np.testing.assert_allclose(node.at[-1], stop.motion.end.position, atol=1e-9)
    assert node.sent(node.plan([1.0], [GOAL], now=node.time_s)) is not None
    node.go(3.0)
    np.testing.assert_allclose(node.at[-1], GOAL, atol=1e-9)


def test_a_scale_above_1_is_refused() -> None:
    node = Scaled(lambda t: 1.0 if t < 0.15 else 1.2)
    node.go(0.2)
    assert node.published.status(ns(node.time_s)) is ControllerStatus.FASTER
    assert rejected(node.plan, TIMES, shape(TIMES), now=node.time_s).reason is RejectionReason.CONTROLLER_UNAVAILABLE


@pytest.mark.parametrize("scale", [0.0, 0.4])
def test_a_driver_tells_the_scale_that_nobody_reports(scale: float) -> None:
    node = SimulatedNode()
    node.measure([0.0, 0.0])
    node.pipeline.take_speed_scaling(scale, ns(NOW_S))
    assert node.published.motion_clock.at(ns(NOW_S + 1)) == ns(NOW_S + scale)
    for endless in (np.nan, 1e306):
        refused = rejected(node.pipeline.take_speed_scaling, endless, ns(NOW_S))
        assert refused.reason is RejectionReason.NOT_FINITE and node.published.motion_clock.rate == scale
    assert node.plan(TIMES, shape(TIMES)).stamp_ns == 0
    report = node.pipeline.controller_reports.report(("a", "b"), np.zeros(2), np.zeros(2), np.zeros(2), ns(NOW_S), 0.0)
    assert isinstance(report, ControllerReport) and report.speed_scaling == scale
