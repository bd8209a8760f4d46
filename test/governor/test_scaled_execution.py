"""Motions behind a speed slider: the node's processing and the model of a scaled controller, without middleware."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, limits, ns, rejected

from kit.arm import Robot
from rig.simulated import Answer, Refusal, Sent, Simulated
from soak.streams.core import NodeCore
from traj_integrator_ros.governor.controller_reports import ControllerReport, ControllerStatus
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.inputs import Positions
from traj_integrator_ros.requests.rejection import RejectionReason

CYCLE_S = 0.002
TIMES = np.linspace(0, 0.8, 33)[1:]
GOAL = np.array([0.4, -0.3])
Slider = Callable[[float], float]


def shape(times: np.ndarray) -> np.ndarray:
    """A plan from rest to rest in 0.8 s, `[N, 2]`."""
    s = np.clip(times / 0.8, 0, 1)[:, None]
    return s**3 * (10 - 15 * s + 6 * s**2) * GOAL


class Scaled(Simulated):
    """A node, and a controller with a slider, whose reports may have the stamp of the cycle before (`early`)."""

    def __init__(
        self, slider: Slider, *, keeps_clock: bool = False, from_desired: bool = False, early: bool = False,
        computing: tuple[float, float] = (3e-4, 3e-4), transport: tuple[float, float] = (3e-3, 3e-3), seed: int = 5,
        **parameters: object,
    ) -> None:  # fmt: skip
        self.slider = slider
        robot = Robot(
            "ab", rate=500, hard_replacement=True, interpolate_from_desired_state=from_desired, keeps_clock=keeps_clock
        )
        given = limits(velocity=2.0, acceleration=10.0, jerk=200.0) | parameters
        core = NodeCore([*"ab"], refuse=self._refused, **given)
        times = {"transport": transport, "computing": computing, "seed": seed}
        super().__init__(robot, core, states_hz=500, reports_hz=100, report_is_next=early, **times)

    def move(self, times: Sequence[float], rows: np.ndarray) -> Answer:
        """Let the node execute a plan."""
        return self.answer(self._ns, Positions(0, times, rows))

    def is_moving(self) -> bool:
        """True while a motion is executed."""
        return self.core.published.is_moving(self._ns)

    def smooth(self) -> bool:
        """True if nothing was refused, by the node or the controller, and no brake was made."""
        return not self.refused and not self.core.published.guard.brakes

    def off_plan(self, plan: Callable[[np.ndarray], np.ndarray]) -> float:
        """Largest distance of the command from a plan's path, rad."""
        rows = plan(np.arange(0, 0.9, 1e-4))
        return max(np.abs(rows - place).max(axis=1).min() for place in self.played()[1])

    def jumps(self) -> tuple[np.ndarray, np.ndarray]:
        """Jumps of the command from cycle to cycle, compared with their neighbours, and speeds: rad, rad/s."""
        moved = np.diff(self.played()[1], axis=0)
        usual = np.median([moved[:-2], moved[1:-1], moved[2:]], axis=0)
        return np.abs(moved[1:-1] - usual).max(axis=1), np.abs(moved).max(axis=1) / CYCLE_S

    def _cycle(self) -> None:
        self.robot.scaling = self.slider(self.now)
        super()._cycle()

    def _received(self, at_ns: int, sent: Sent) -> None:
        super()._received(at_ns, sent)
        assert not sent.refusal


def changing(*scales: float) -> Slider:
    """A slider that is moved every 0.2 s, from 0.3 s on."""
    return lambda t: (1.0, *scales)[min(max(int((t - 0.1) / 0.2), 0), len(scales))]


SLIDERS = {
    "1": lambda _: 1.0,
    "0.3": lambda _: 0.3,
    "steps": changing(0.3, 0.7, 0.1, 1.0, 0.5),
    "pause": changing(1.0, 0.0, 0.0, 0.0, 0.3),
    "ramp": lambda t: float(np.clip(abs(t - 0.7), 0.1, 1.0)),
}


@pytest.mark.parametrize("slider", SLIDERS.values(), ids=SLIDERS)
def test_a_plan_is_executed_to_its_end_at_any_scale(slider: Slider) -> None:
    run = Scaled(slider)
    run.go(0.1)
    run.move(TIMES, shape(TIMES))
    run.go(0.5)
    assert run.is_moving()
    run.go(2.5)
    np.testing.assert_allclose(run.place, GOAL, atol=1e-9)
    assert run.off_plan(shape) < 1e-3 and run.smooth() and not run.is_moving()


def test_reports_with_the_stamp_of_an_earlier_cycle_hurry_no_motion() -> None:
    placed = []
    for early in (False, True):
        run = Scaled(SLIDERS["1"], early=early, start_from="previous")
        run.go(0.1)
        for k in range(20):
            times = 0.1 * k + 0.04 * np.arange(1, 16)[:, None]
            run.sequence(0.3 * (1 - np.cos(2 * times)) * [1, -1], 0.04)
            run.go(0.1)
        assert not run.refused and run.jumps()[0].max() < 1e-4
        placed.append(run.played()[1])
    np.testing.assert_allclose(*placed, atol=1e-5)


def test_a_message_to_a_scaled_controller_does_not_depend_on_its_clock() -> None:
    behind = [Scaled(changing(0.0, 0.0, 0.4), keeps_clock=keeps, start_from="previous") for keeps in (False, True)]
    for run in behind:
        run.go(1.0)
        assert run.move(TIMES, shape(TIMES)).stamp_ns == 0
        run.go(3.0)
        np.testing.assert_allclose(run.place, GOAL, atol=1e-9)
    np.testing.assert_allclose(*(run.played()[1] for run in behind), atol=1e-6)


def test_a_stop_at_0_is_what_goes_on_afterwards() -> None:
    run = Scaled(lambda t: 1.0 if t < 0.4 else 0.0 if t < 1.4 else 0.5)
    run.go(0.1)
    run.move(TIMES, shape(TIMES))
    run.go(0.8)
    stop = run.stop()
    assert np.isinf(run.core.published.motion_clock.lasts_s(stop.motion.duration))
    assert run.move(TIMES, shape(TIMES)).reason == RejectionReason.STOPPED.value
    run.go(2.0)
    np.testing.assert_allclose(run.place, stop.motion.end.position, atol=1e-9)
    assert isinstance(run.move([1.0], GOAL[None]), ExecutableTrajectory)
    run.go(3.0)
    np.testing.assert_allclose(run.place, GOAL, atol=1e-9)


def test_a_scale_above_1_is_refused() -> None:
    run = Scaled(lambda t: 1.0 if t < 0.15 else 1.2)
    run.go(0.3)
    assert run.core.published.status(round(run.clock_s * 1e9)) is ControllerStatus.FASTER
    refused = run.move(TIMES, shape(TIMES))
    assert isinstance(refused, Refusal) and refused.reason == RejectionReason.CONTROLLER_UNAVAILABLE.value


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


# A slider that steps at any moment, between any report and chunk: how far the command jumps at a new message. The node
# cannot know a step that no report has told: until the message is taken, the command goes on differently, by speed x
# change of the factor. Beyond that it may jump by as much as a message comes earlier or later than usual.

SPEED, SECONDS, ROWS, STEP = 0.4, 2.0, 20, 0.04
MOST_RAD = 1e-3
SPACES = {
    "positions": ControlSpace.POSITION,
    "velocities": ControlSpace.VELOCITY,
    "accelerations": ControlSpace.ACCELERATION,
}
Moves = list[tuple[float, float]]
"""Times, s, and factors of a slider."""


class Streamed(Scaled):
    """A slider's moves, and a planner, each at moments of its own; goals replace each other in motion."""

    def __init__(self, kind: str, moves: Moves, random: np.random.Generator) -> None:
        self.kind, self.moves, self.reported_s = kind, moves, 0.0
        self.known_s: list[float] = []
        """Stamps, s, of the latest report when each message was made."""
        self.taken: list[int] = []
        """Index of the first command of each message."""
        times = {"transport": (3e-4, 1.5e-3), "computing": (4e-4, 2e-3), "seed": random}
        super().__init__(self._factor, from_desired=True, start_from="previous", **times)
        for time_s in np.arange(0.3, SECONDS, 0.1) + random.uniform(-0.01, 0.01, 17):
            self._later(self._ns + ns(time_s), self._plan)
        self.go(SECONDS + 0.5)

    def _factor(self, time_s: float) -> float:
        return [1.0, *(factor for at_s, factor in self.moves if at_s <= time_s)][-1]

    def _plan(self, at_ns: int) -> None:
        time_s, steps = self.now - 0.3, np.arange(1, ROWS + 1)[:, None]
        pace, place = SPEED * np.clip(min(time_s, SECONDS - 0.4 - time_s) / 0.5, 0, 1), self.robot.reference.position
        if self.kind == "goals":
            self.answer(at_ns, Positions(0, [1.0], np.add(place, [0.3, -0.3])[None]))
            return
        rising = 2 * SPEED if time_s < 0.5 else -2 * SPEED if SECONDS - 0.4 - time_s < 0.5 else 0.0
        rows = {"positions": place + pace * STEP * steps * [1, -1], "velocities": pace, "accelerations": rising}
        self.sequence(rows[self.kind] * np.ones((ROWS, 2)), STEP, space=SPACES[self.kind].value)

    def _take_report(self, at_ns: int, stamp_ns: int, *report: object) -> None:
        super()._take_report(at_ns, stamp_ns, *report)
        self.reported_s = (stamp_ns - self._begin_ns) * 1e-9

    def _publish(self, made: ExecutableTrajectory | None, at_ns: int) -> ExecutableTrajectory | None:
        self.known_s += [self.reported_s] * (made is not None)
        return super()._publish(made, at_ns)

    def _received(self, at_ns: int, sent: Sent) -> None:
        super()._received(at_ns, sent)
        self.taken.append(len(self.rows))

    def beyond(self) -> float:
        """Largest jump of the command at a message, rad, beyond what no report could tell by then."""
        jumps, speeds = self.jumps()
        worst = 0.0
        for number, known_s in zip(self.taken, self.known_s, strict=False):
            speed = max(SPEED, speeds[max(number - 30, 0) : number + 30].max(initial=0.0))
            end_s, befores = (number + 1) * CYCLE_S, [1.0, *(factor for _, factor in self.moves)]
            unknown_s = sum(
                abs(factor - before) * (end_s - at_s)
                for before, (at_s, factor) in zip(befores, self.moves, strict=False)
                if known_s < at_s <= end_s
            )
            worst = max(worst, jumps[max(number - 3, 0) : number].max(initial=0.0) - speed * unknown_s)
        return worst


def steps(random: np.random.Generator) -> Moves:
    """A slider that is moved five times."""
    times = np.sort(random.uniform(0.4, SECONDS, 5))
    return [*zip(times.tolist(), random.choice([0.0, 0.1, 0.3, 0.5, 0.9, 1.0], 5).tolist(), strict=True)]


def dips(random: np.random.Generator) -> Moves:
    """A slider that is moved and moved back within a period of the reports."""
    times = np.arange(0.5, SECONDS, 0.3) + random.uniform(0, 0.2, 5)
    moved = zip(times, random.uniform(3e-3, 7e-3, 5), random.choice([0.0, 0.2], 5).tolist(), strict=True)
    return [one for time, length, factor in moved for one in ((time, factor), (time + length, 1.0))]


def pause(_: np.random.Generator) -> Moves:
    """A slider that stands at 0 for many chunks, and goes on slowly."""
    return [(0.7, 0.0), (1.3, 0.3)]


@pytest.mark.parametrize("kind", [*SPACES, "goals"])
@pytest.mark.parametrize("moved", [steps, dips, pause])
def test_a_message_steps_the_command_by_no_more_than_reports_leave_open(moved: Callable, kind: str) -> None:
    random = np.random.default_rng(1)
    run = Streamed(kind, moved(random), random)
    assert len(run.taken) > 15 and run.smooth() and run.beyond() < MOST_RAD
