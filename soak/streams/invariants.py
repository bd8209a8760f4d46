"""Invariants of a stream, judged by the rig's rules; a failure says where one does not hold, and by how much.

Every stream keeps limits, has no jumps and ends at rest, and no motion goes on if the robot is not measured or does
not follow. A feasible plan is executed and ends at its goal. If every chunk continues the one before and arrives in
time, the robot is always where its plan is at that time, and never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kit.controller import SECOND
from rig import judge
from rig.simulated import Refusal
from traj_integrator_ros.governor.executable import ExecutableTrajectory

from .plans import Bounds, sampled
from .policies import JERK, POSITION, Chunk
from .scenes import BEGIN_S, DEAD, FREEZE, Disturbance
from .simulation import Run

STATE_TIMEOUT_S = 0.5
"""Default of the node: largest age of a joint state, s."""
DEVIATION = 0.05
"""Default of the node: deviation of the robot from its command, rad, at which it is braked."""
START_DEVIATION = 0.1
"""Default of the node: distance from the robot, rad, beyond which the start of a chunk is refused."""
CATCH_UP = 1.5
"""Default of the node: speed with which a robot catches up with its plan, relative to the plan's own."""
SEEN_S = 0.1
"""Time, s, in which the node has to notice a disturbance that it can notice."""
_CAUGHT_UP_S = 2.0
"""Time to catch up after the first chunk has arrived, s."""
_SETTLED_S = 1.0
"""Time after a disturbance in which the node may wait for rest, and the policy may begin again, s."""
_FADING_RAD = 1e-3
"""Largest growth, rad, of a difference from the plan while it fades."""
_BESIDE_RAD = 0.03
"""Distance from a chunk beyond assumed limits, rad, up to which it is followed as these allow."""
_BACK_RAD = 1e-3
"""Distance, rad, by which a joint may go back further than the plans: a difference fades, as of noisy rows."""


@dataclass(frozen=True)
class Failure:
    """One invariant that fails, where it is worst."""

    seed: int
    invariant: str
    joint: str
    time: float
    """Time since the first cycle, s; NaN: at no single time."""
    value: float
    limit: float
    words: str = ""

    def __str__(self) -> str:
        place = f"{self.joint} " * bool(self.joint) + f"at {self.time:.3f} s" * bool(np.isfinite(self.time))
        words = f" ({self.words})" * bool(self.words)
        return f"seed {self.seed}: {self.invariant} {place}: {self.value:.6g}, limit {self.limit:.6g}{words}"


_NAMES = {"v": "velocity", "a": "acceleration", "j": "jerk", "lo": "position", "hi": "position"}


def failures(run: Run) -> list[Failure]:
    """All invariants of a run that do not hold, one failure for each."""
    found = _Judge(run)
    if found.finite():
        found.limits()
        found.rest()
        found.follows()
        found.notices()
    found.accepted()
    return list(found.found.values())


class _Judge:
    def __init__(self, run: Run) -> None:
        self.run, self.scene, self.rate = run, run.scene, SECOND / run.period_ns
        self.position = run.commands[0]
        self.found: dict[str, Failure] = {}

    def finite(self) -> bool:
        wrong = ~np.isfinite(self.run.commands).all(axis=0) & ~self.run.off[:, None]
        if wrong.any():
            cycle, joint = np.argwhere(wrong)[0]
            self._fail("finite", joint, cycle, np.nan, np.inf)
        return not wrong.any()

    def limits(self) -> None:
        """Judge the limits of position to jerk; without given limits, judge that nothing jumps."""
        limits = limits_of(self.run)
        for begin, end in _segments(self.run.off):
            for found in judge.held_against(judge.differences(self.position[begin:end], self.rate), limits):
                if not found.good:
                    name, cycle = _NAMES[found.quantity], begin + 3 + found.cycle
                    self._fail(name, found.joint, cycle, found.value, found.most)

    def rest(self) -> None:
        """Judge that the robot rests at the end, and exactly at the end of the last plan if that rests."""
        answers, run, last = self.run.answers, self.run, len(self.run.off) - 1
        speed = judge.last_speed(np.diff(self.position[~run.off], axis=0) * self.rate)
        if speed > judge.REST_RAD_S:
            self._fail("rest", None, last, speed, judge.REST_RAD_S)
        if not answers or self.scene.disturbances:
            return
        chunk = answers[-1].chunk
        is_newest = chunk.observed_ns == max(answer.chunk.observed_ns for answer in answers)
        is_taken = isinstance(answers[-1].answer, ExecutableTrajectory) and is_newest
        if is_taken and chunk.rests and chunk.space == POSITION and self._feasible(chunk):
            self._below("end", np.abs(self.position[last:] - chunk.data[-1]), judge.GOAL_RAD, last)

    def follows(self) -> None:
        """Judge that a plan that comes in time is executed by the clock, and not backwards."""
        run, scene, sending, form = self.run, self.scene, self.scene.sending, self.scene.form
        lasts = form.horizon * form.dt > sending.inference[1] + 1.5 / sending.rate + scene.lead_time + form.dt
        if not scene.perfect or form.space != POSITION or not lasts or run.policy.anchors:
            return
        if not all(self._feasible(answer.chunk) for answer in run.answers):
            return
        times = sending.begin, sending.begin + sending.inference[1] + _CAUGHT_UP_S, sending.end - form.dt
        first, begin, end = map(run.cycle, times)
        cycles = np.arange(first, end)
        meant = run.policy.motion_at((run.begin_ns + (cycles + 1) * run.period_ns) / SECOND)
        asked = _asked(run)
        # A spline through rows misses the motion by dt^2 / 8 times the difference of their second derivatives, and its
        # own is at most 3 times the motion's; besides, a difference that fades may grow.
        allowed = asked.acceleration * form.dt**2 / 2 + _FADING_RAD
        if run.assumed is not None:
            peaks = np.max([np.stack(answer.chunk.peaks) for answer in run.answers], axis=0)
            allowed = allowed + np.where((peaks > np.stack(run.assumed)).any(axis=0), _BESIDE_RAD, 0.0)
        if begin < end:
            self._below("follows", np.abs(self.position[begin:end] - meant[begin - first :]), allowed, begin)
        if scene.forward is not None and scene.complete:
            back = judge.way_back(self.position * scene.forward)
            self._below("retreat", back[None], _planned_back(run) + _BACK_RAD, len(run.off) - 1)

    def notices(self) -> None:
        """Judge that the motion ends if nothing is measured, or the robot does not follow."""
        scene, run = self.scene, self.run
        _, a, j = scene.bounds if scene.complete else run.assumed
        v = np.minimum(CATCH_UP * _asked(run).velocity, scene.bounds.velocity)
        stop_s = float((v / a + 2 * a / j).max())  # for a joint that still accelerates
        stop_way = v * (v / a + 3 * a / j) / 2
        for it in scene.disturbances:
            last = run.cycle(it.end)
            seen_s = SEEN_S + scene.lag + 2 * scene.transport[1] + 1 / scene.joint_rate + scene.lead_time
            if it.kind == DEAD and it.end - it.begin > STATE_TIMEOUT_S + seen_s + stop_s:
                moved = np.abs(np.diff(self.position[last - 1 : last + 1], axis=0)) * self.rate
                self._below("unnoticed", moved, judge.REST_RAD_S, last, it.kind)
            if it.kind == FREEZE:
                off = np.abs(self.position[last : last + 1] - self.position[run.cycle(it.begin - scene.lag)])
                self._below("unnoticed", off, DEVIATION + v * seen_s + stop_way, last, it.kind)

    def accepted(self) -> None:
        """Judge that feasible chunks are executed, except soon after a disturbance, and motion never stops for long."""
        run, scene = self.run, self.scene
        if refusals := [sent for sent in run.sent if sent.refusal not in ("", "off")]:
            at = run.cycle_at(refusals[0].arrived_ns)
            self._fail("unfit", None, at, np.nan, np.nan, f"controller: {refusals[0].refusal}")
        excused = [self._excused_until(it) for it in scene.disturbances]
        newest, calm, refused = 0, [], []
        for answer in run.answers if scene.form.space == POSITION else []:
            chunk, at = answer.chunk, answer.arrived_ns / SECOND
            is_older = bool(chunk.stamp_ns) and chunk.observed_ns <= newest
            newest = max(newest, chunk.observed_ns)
            over = bool(chunk.stamp_ns) and chunk.end_ns <= answer.arrived_ns + (scene.lead_time + 0.006) * SECOND
            if is_older or over or not self._feasible(chunk) or any(begin <= at <= end for begin, end in excused):
                continue
            if self._begins_away(chunk) and not isinstance(answer.answer, ExecutableTrajectory):
                continue
            calm.append(at)
            refused += [answer] * isinstance(answer.answer, Refusal)
        if refused:
            words = f"{refused[0].answer.reason}: {refused[0].answer.message}"[:160]
            self._fail("refused", None, run.cycle_at(refused[0].arrived_ns), len(refused), 0, words)
        after = max((end for _, end in excused), default=scene.sending.begin)
        late = [at for at in calm if at > after]
        taken = (
            answer.arrived_ns / SECOND for answer in run.answers if isinstance(answer.answer, ExecutableTrajectory)
        )
        if late and late[-1] - late[0] > _SETTLED_S and not any(at > after for at in taken):
            self._fail("stuck", None, run.cycle_at(late[0] * SECOND), late[-1] - late[0], 1.0, "nothing is executed")

    def _excused_until(self, it: Disturbance) -> tuple[float, float]:
        """Return the times in which chunks may be refused: 1 s after a disturbance, and after a new plan began."""
        ends = [it.end, *(at for at in self.run.policy.anchors if at < it.end + 3.0)]
        return it.begin, max(ends) + _SETTLED_S + self.scene.sending.inference[1]

    def _feasible(self, chunk: Chunk) -> bool:
        """Return whether the spline through the rows of a chunk keeps the limits that the node has."""
        scene, positions = self.scene, chunk.position
        inside = (positions >= scene.position_min).all() and (positions <= scene.position_max).all()
        known = slice(None if scene.complete else 1)
        parts = zip(chunk.peaks[known], scene.bounds[known], strict=True)
        return bool(inside) and all((asked <= limit).all() for asked, limit in parts)

    def _begins_away(self, chunk: Chunk) -> bool:
        """Return whether a chunk begins away from the robot's command, so that it may be refused.

        A single row says nothing about the speed at which it is reached: it counts as the begin of the chunk.
        """
        commanded = self.position[self.run.cycle(chunk.observed_ns / SECOND)]
        begins = chunk.position[-1 if self.scene.form.horizon == 1 else 0]
        return not (np.abs(begins - commanded) <= START_DEVIATION).all()

    def _below(
        self, invariant: str, values: np.ndarray, limit: np.ndarray | float, first: int, words: str = ""
    ) -> None:
        """Compare values `[T, D]` from a cycle on with limits `[D]`, and keep the worst failure of each invariant."""
        limit = np.broadcast_to(limit, self.scene.dof)
        if (values > limit).any():
            cycle, joint = np.unravel_index(int((values / np.maximum(limit, 1e-12)).argmax()), values.shape)
            self._fail(invariant, joint, first + cycle, float(values[cycle, joint]), float(limit[joint]), words)

    def _fail(self, invariant: str, joint: int | None, cycle: int, value: float, limit: float, words: str = "") -> None:
        name = "" if joint is None else self.scene.joints[joint]
        time = self.run.time(cycle) - BEGIN_S
        other = self.found.get(invariant)
        if other is None or (other.limit > 0 and limit > 0 and value / limit > other.value / other.limit):
            self.found[invariant] = Failure(self.scene.seed, invariant, name, time, float(value), float(limit), words)


def limits_of(run: Run) -> dict[str, np.ndarray]:
    """Return limits for the judge; a limit that nobody gave becomes one that only a jump exceeds.

    Chunks of jerks demand no acceleration, which follows from the chunks before.
    """
    scene = run.scene
    limits = {"v": scene.bounds.velocity, "lo": scene.position_min, "hi": scene.position_max}
    if scene.complete:
        return limits | {"a": scene.bounds.acceleration, "j": scene.bounds.jerk}
    asked = run.assumed.at_least(_asked(run))
    limits["j"] = judge.JUMP * asked.jerk
    return limits if scene.form.space == JERK else limits | {"a": judge.JUMP * asked.acceleration}


def _asked(run: Run) -> Bounds:
    """Return the largest demand of any plan; without plans, the assumed bounds."""
    peaks = [answer.chunk.peaks for answer in run.answers]
    return Bounds(*(np.max(part, axis=0) for part in zip(*peaks, strict=True))) if peaks else run.assumed


def _planned_back(run: Run) -> np.ndarray:
    """Return the distance by which plans go back, `[D]`: any course, any chunk, and chunks while they are the newest.

    Rows with noise may be further ahead in one chunk than later ones are in the next.
    """
    taken = [it for it in run.answers if isinstance(it.answer, ExecutableTrajectory)]
    begins = np.array([it.arrived_ns / SECOND + run.scene.lead_time for it in taken] + [np.inf])
    observed = np.array([it.chunk.observed_ns / SECOND for it in taken])
    spans = zip(taken, begins[:-1] - observed, begins[1:] - observed, strict=True)
    newest = [run.scene.start[None], *(sampled(it.chunk.spline, begin, end) for it, begin, end in spans)]
    ways = np.concatenate(newest), *(sampled(it.chunk.spline) for it in run.answers)
    return np.max([run.policy.retreat(), *(judge.way_back(run.scene.forward * way) for way in ways)], axis=0)


def _segments(off: np.ndarray) -> list[tuple[int, int]]:
    """First and last + 1 of the runs of more than 3 cycles with a controller."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], off, [True]]).astype(int)))
    return [(int(low), int(high)) for low, high in zip(edges[::2], edges[1::2], strict=True) if high - low > 3]
