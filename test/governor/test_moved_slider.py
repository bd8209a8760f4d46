"""A slider that steps at any moment, between any report and chunk: how far the command jumps at a new message.

The node cannot know a step that no report has told: until the message is taken, the command goes on differently, by
speed x change of the factor. Beyond that it may jump by as much as a message comes earlier or later than usual.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from kit.arm import Robot
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.governor.controller_reports import ControllerReport
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.executor import Actions, Executor, NodeParameters, Positions
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import Rejected

BEGIN_NS, MS, CYCLE_NS = 10**12, 10**6, 2 * 10**6
LIMITS = {"limits__velocity": [2.0, 2.0], "limits__acceleration": [10.0, 10.0], "limits__jerk": [200.0, 200.0]}
SPEED, SECONDS, ROWS, STEP = 0.4, 2.0, 20, 0.04
MOST_RAD = 1e-3
SPACES = {
    "positions": ControlSpace.POSITION,
    "velocities": ControlSpace.VELOCITY,
    "accelerations": ControlSpace.ACCELERATION,
}
TAKEN = tuple[int, int, int]
"""Index of the first command of a message, its time, and the stamp of the latest report when it was made."""


class Streamed:
    """An executor, a controller of 500 Hz with a slider, and a planner, each at moments of its own.

    Args:
        kind: what is sent; goals replace each other in motion.
        steps: times, ns, and factors of the slider.
        period: cycles from report to report.
        random: moments, and times on the way.

    """

    def __init__(self, kind: str, steps: list[tuple[int, float]], period: int, random: np.random.Generator) -> None:
        self.kind, self.steps, self.period, self.random = kind, steps, period, random
        self.executor = Executor(NodeParameters.of(["a", "b"], device="cpu", start_from="previous", **LIMITS))
        self.robot = Robot("ab", rate=500, hard_replacement=True, interpolate_from_desired_state=True)
        self.commands: list[np.ndarray] = []
        self.taken: list[TAKEN] = []
        self.refused: list[str] = []
        self._under_way: list[tuple[int, ExecutableTrajectory, int]] = []
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._number, self._reported_ns = itertools.count(), 0
        self._at(self._some(0.0, 2.0), self._cycle)
        for time_s in np.arange(0.3, SECONDS, 0.1):
            self._at(round(time_s * 1e9) + self._some(-10.0, 10.0), self._plan)
        while self._events[0][0] < (SECONDS + 0.5) * 1e9:
            time_ns, _, happens = heapq.heappop(self._events)
            happens(time_ns)

    def _at(self, time_ns: int, happens: Callable[[int], None]) -> None:
        heapq.heappush(self._events, (time_ns, next(self._number), happens))

    def _some(self, least_ms: float, most_ms: float) -> int:
        return round(self.random.uniform(least_ms, most_ms) * MS)

    def _cycle(self, now_ns: int) -> None:
        self.robot.scaling = ([1.0] + [factor for time_ns, factor in self.steps if time_ns <= now_ns])[-1]
        while self._under_way and self._under_way[0][0] <= now_ns:
            _, made, known_ns = self._under_way.pop(0)
            stamps = {"now_ns": BEGIN_NS + now_ns, "stamp_ns": made.stamp_ns}
            assert self.robot.receive(["a", "b"], *made.points, **stamps), self.robot.refusal
            self.taken.append((len(self.commands), now_ns, known_ns))
        if len(self.commands) % self.period == 0:
            report = ControllerReport(BEGIN_NS + now_ns, State(*self.robot.controller_state()[0]), self.robot.scaling)
            self._at(now_ns + self._some(0.2, 0.8), lambda later_ns: self._report(later_ns, report))
        self.commands.append(self.robot.update(BEGIN_NS + now_ns)[0])
        measured = self.robot.measured()
        self._at(now_ns, lambda _: self.executor.joint_state(*measured, BEGIN_NS + now_ns))
        self._at(now_ns + CYCLE_NS, self._cycle)

    def _report(self, now_ns: int, report: ControllerReport) -> None:
        self.executor.report(report, BEGIN_NS + now_ns)
        self._reported_ns = report.stamp_ns - BEGIN_NS
        self._sent(self.executor.tick(BEGIN_NS + now_ns), now_ns)

    def _plan(self, now_ns: int) -> None:
        time_s, steps = now_ns * 1e-9 - 0.3, np.arange(1, ROWS + 1)[:, None]
        pace, place = SPEED * np.clip(min(time_s, SECONDS - 0.4 - time_s) / 0.5, 0, 1), self.robot.reference.position
        if self.kind == "goals":
            plan = Positions(0, [1.0], np.add(place, [0.3, -0.3])[None], end="goal")
        else:
            rising = 2 * SPEED if time_s < 0.5 else -2 * SPEED if SECONDS - 0.4 - time_s < 0.5 else 0.0
            rows = {"positions": place + pace * STEP * steps * [1, -1], "velocities": pace, "accelerations": rising}
            data = np.broadcast_to(rows[self.kind] * np.ones((ROWS, 2)), (ROWS, 2))
            plan = Actions(BEGIN_NS + now_ns, SPACES[self.kind], STEP, data)
        later_ns = now_ns + self._some(0.4, 2.0)
        try:
            self._sent(self.executor.execute(plan, BEGIN_NS + now_ns, lambda: BEGIN_NS + later_ns), later_ns)
        except Rejected as rejected:
            self.refused.append(str(rejected))

    def _sent(self, made: ExecutableTrajectory | None, now_ns: int) -> None:
        if made is not None:
            self._under_way.append((now_ns + self._some(0.3, 1.5), made, self._reported_ns))

    def beyond(self) -> float:
        """Largest jump of the command at a message, rad, beyond what no report could tell by then."""
        moved = np.diff(self.commands, axis=0)
        usual = np.median([moved[:-2], moved[1:-1], moved[2:]], axis=0)
        jumps, speeds = np.abs(moved[1:-1] - usual).max(axis=1), np.abs(moved).max(axis=1) / CYCLE_NS
        worst = 0.0
        for number, time_ns, known_ns in self.taken:
            speed = max(SPEED * 1e-9, speeds[max(number - 30, 0) : number + 30].max(initial=0.0))
            factors = zip([1.0, *(factor for _, factor in self.steps)], self.steps, strict=False)
            unknown_s = sum(
                abs(factor - before) * (time_ns + CYCLE_NS - step_ns)
                for before, (step_ns, factor) in factors
                if known_ns < step_ns <= time_ns + CYCLE_NS
            )
            worst = max(worst, jumps[max(number - 3, 0) : number].max(initial=0.0) - speed * unknown_s)
        return worst


def steps(random: np.random.Generator) -> list[tuple[int, float]]:
    """A slider that is moved five times."""
    times = np.sort(random.uniform(0.4, SECONDS, 5) * 1e9).astype(int)
    return [*zip(times.tolist(), random.choice([0.0, 0.1, 0.3, 0.5, 0.9, 1.0], 5).tolist(), strict=True)]


def dips(random: np.random.Generator) -> list[tuple[int, float]]:
    """A slider that is moved and moved back within a period of the reports."""
    times = (np.arange(0.5, SECONDS, 0.3) + random.uniform(0, 0.2, 5)) * 1e9
    lengths = random.uniform(3, 7, 5) * MS
    pairs = zip(times.tolist(), lengths.tolist(), random.choice([0.0, 0.2], 5).tolist(), strict=True)
    return [one for time, length, factor in pairs for one in ((round(time), factor), (round(time + length), 1.0))]


@pytest.mark.parametrize("kind", [*SPACES, "goals"])
@pytest.mark.parametrize("moved", [steps, dips])
def test_a_message_steps_the_command_by_no_more_than_reports_leave_open(moved: Callable, kind: str) -> None:
    random = np.random.default_rng(1)
    streamed = Streamed(kind, moved(random), 5, random)
    assert not streamed.refused and not streamed.executor.published.guard.brakes
    assert streamed.beyond() < MOST_RAD
