"""What must hold in every cycle of a stream, and of its end; a failure says where and by how much it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .core import Message
from .plans import Bounds, retreats
from .policies import JERK, POSITION, VELOCITY, Chunk
from .retreats import DEVIATION, HELD_RAD, begun_behind, begun_otherwise, measured_off
from .scenes import BEGIN_S, DEAD, FREEZE, Disturbance
from .simulation import SECOND, Refusal, Run

SLACK = 1e-3
"""Relative slack of limits."""
STATE_TIMEOUT_S = 0.5
"""Default of the node: oldest joint state."""
_REST = 1e-6
_KNOT_S = 1.4 * 2 * 1e-6
"""Knots less than 1 us apart become one: a change of jerk by twice its limit is moved by that, and the longer piece
beside it makes up for it, by 1.4 times as much at its end (3 s - 12 s^2 + 10 s^3, from its least value on).
"""
_SHOWN_S = 0.2
"""Least of a plan that must be left in order to come back to it: it is met where it is stopped otherwise."""
_BRIDGED_S, _CATCHES_UP_S = 0.25, 0.5
"""Longest time in which the controller comes to the first point; what a robot needs to get faster than its plan."""
_SLOWED_S = 0.2
"""How long a joint that moves on and is told to hold may still slow down."""
_ROUNDED_RAD = 2e-3
"""Most by which a corner may be rounded where a joint stands or turns."""
_PARTS = 10
"""Of a step of held jerks, at whose ends the states that it leads to are judged."""
_FASTER, _MORE, _MORE_JERK = 1.3, 1.2, 1.5
"""Of what a plan asks for: the node's spline through its rows may begin and end otherwise than ours."""
_PASSING = 1.25
"""Of an assumed jerk that a slowed plan uses: it may pass into the next one with more."""


@dataclass(frozen=True)
class Failure:
    """One invariant that does not hold, where it is worst."""

    seed: int
    invariant: str
    joint: str
    time: float
    """Since the first cycle, s; NaN: at no single time."""
    value: float
    limit: float
    words: str = ""

    def __str__(self) -> str:
        place = f"{self.joint} " * bool(self.joint) + f"at {self.time:.3f} s" * bool(np.isfinite(self.time))
        words = f" ({self.words})" * bool(self.words)
        return f"seed {self.seed}: {self.invariant} {place}: {self.value:.6g}, limit {self.limit:.6g}{words}"


def failures(run: Run) -> list[Failure]:
    """All invariants of a run that do not hold, one failure for each."""
    judge = _Judge(run)
    if judge.finite():
        judge.limits()
        judge.forward()
        judge.rest()
        judge.follows()
        judge.notices()
    judge.accepted()
    return list(judge.found.values())


class _Judge:
    def __init__(self, run: Run) -> None:
        self.run, self.scene = run, run.scene
        self.found: dict[str, Failure] = {}
        self.period = run.period_ns / SECOND
        self.bounds = bounds_of(run)
        self.segments = _segments(run.off)
        peaks = [answer.chunk.peaks for answer in run.answers]
        self.meant = Bounds(*(np.max(part, axis=0) for part in zip(*peaks, strict=True))) if peaks else None
        """The most that any plan asks for."""

    def finite(self) -> bool:
        wrong = ~np.isfinite(self.run.commands).all(axis=0) & ~self.run.off[:, None]
        if wrong.any():
            cycle, joint = np.argwhere(wrong)[0]
            self._fail("finite", joint, cycle, np.nan, np.inf)
        return not wrong.any()

    def limits(self) -> None:
        """Position, velocity, acceleration, jerk; and that each of them is the derivative of the one before."""
        dt, bounds, low, high = self.period, self.bounds, self.scene.position_min, self.scene.position_max
        speed, acceleration, jerk = (part * (1 + SLACK) for part in bounds)
        for begin, end in self.segments:
            p, v, a = commands = self.run.commands[:, begin:end]
            dp, dv, da = np.diff(commands, axis=1)
            # What the trapezoidal rule may be wrong by, of a motion whose jerk is bounded.
            off_v, off_p = jerk * dt**2 / 4 + 1e-7, jerk * dt**3 / 12 + 1e-8
            for invariant, values, limit, words in (
                ("position", p, high + SLACK * np.abs(high), ""),
                ("position", -p, -low + SLACK * np.abs(low), ""),
                ("velocity", np.abs(v), speed, ""),
                ("velocity", np.abs(dp) / dt, speed + 1e-7, "step of position"),
                ("acceleration", np.abs(a), acceleration, ""),
                ("acceleration", np.abs(dv) / dt, acceleration + 1e-5, "step of velocity"),
                ("jerk", np.abs(da) / dt, jerk + bounds.jerk * _KNOT_S / dt + 1e-3, "step of acceleration"),
                ("c2", np.abs(dv - dt * (a[1:] + a[:-1]) / 2), off_v, "velocity of acceleration"),
                ("c2", np.abs(dp - dt * (v[1:] + v[:-1]) / 2), off_p, "position of velocity"),
            ):
                self._below(invariant, values, limit, end - len(values), words)
        if self.meant and self.scene.form.space != JERK:  # held jerks say a speed only by what they are added to
            again = measured_off(self.run) * self.scene.sending.rate  # each plan begins there
            fastest = self.meant.velocity
            most = np.where(fastest > _REST, 1.5 * _FASTER * fastest + 0.05 + again, np.inf)
            moving = np.where(self._told_to_hold(), 0.0, np.abs(self.run.commands[1]))
            for begin, end in self.segments:
                self._below("catch_up", moving[begin:end], most, begin, "1.5 times the plan's speed")

    def _told_to_hold(self) -> np.ndarray:
        """Joints that are told to hold a position by what is left of the chunk in execution, bool `[T, D]`."""
        holds = np.zeros((*self.run.off.shape, self.scene.dof), bool)
        for answer in self.run.answers:
            if isinstance(answer.answer, Refusal):
                continue
            chunk, met = answer.chunk, answer.arrived_ns + self.scene.lead_time * SECOND
            over = int((met - chunk.observed_ns) / SECOND / chunk.dt) if chunk.stamp_ns else 0
            left = np.ptp(chunk.position[min(over + 1, len(chunk.position) - 1) :], axis=0) <= HELD_RAD
            first = self.run.cycle_at(answer.arrived_ns)
            holds[first + round(_SLOWED_S / self.period) :, ~left] = False
            holds[first:, left] = True
        return holds

    def forward(self) -> None:
        """A forward stream does not go back, but for what its own spline does and what its beginnings are off by."""
        run, direction = self.run, self.scene.forward
        if direction is None:
            return
        own = [run.policy.retreat(), begun_otherwise(run), *(answer.chunk.retreat for answer in run.answers)]
        allowed = 1.5 * np.max(own, axis=0) + 2e-4 + measured_off(run) + self._rounded()
        stops = self.bounds if self.scene.complete else run.assumed  # raised only to what the plan uses then
        for low, high in self.segments:
            way = run.commands[0, low:high] * direction
            behind = begun_behind(run, stops, way, low, low > self.segments[0][0])
            self._below("retreat", retreats(way), allowed + behind, low)

    def _rounded(self) -> np.ndarray:
        """How far corners of a plan may lead in which a joint stands and that ask for more than an assumed jerk `[D]`.

        An acceleration that changes in a step takes longer then: by the step^3 (asked^3 / assumed^2 - asked) / 24.
        """
        if self.scene.complete or not self.meant:
            return np.zeros(self.scene.dof)
        asked = self.meant.jerk
        longer = (np.maximum(asked / self.run.assumed.jerk, 1.0) ** 2 - 1) * asked
        return np.minimum(self.scene.form.dt**3 * longer / 24, _ROUNDED_RAD)

    def rest(self) -> None:
        """At the end the robot rests; where the last plan ends at rest, exactly there."""
        answers, last = self.run.answers, len(self.run.off) - 1
        for order, name in ((1, "velocity"), (2, "acceleration")):
            self._below("rest", np.abs(self.run.commands[order, last:]), _REST, last, name)
        if not answers or self.scene.disturbances:
            return
        chunk = answers[-1].chunk
        is_newest = chunk.observed_ns == max(answer.chunk.observed_ns for answer in answers)
        if isinstance(answers[-1].answer, Message) and is_newest and chunk.rests and chunk.space == POSITION:
            off = np.abs(self.run.commands[0, last:] - chunk.data[-1])
            self._below("end", off, 1e-5 if self._feasible(chunk) else 2e-3, last, "from where the last plan ends")

    def follows(self) -> None:
        """A plan that is there in time is executed, by the clock."""
        run, scene, sending, form = self.run, self.scene, self.scene.sending, self.scene.form
        needed = sending.inference[1] + 1.5 / sending.rate + scene.lead_time + _SHOWN_S
        if not scene.perfect or form.space != POSITION or form.horizon * form.dt < needed or run.policy.anchors:
            return
        sent = sending.begin + sending.inference[1]
        first, begin, end = map(run.cycle, (sent + _BRIDGED_S, sent + 2.0, sending.end - 0.02))
        if begin >= end or not all(self._feasible(answer.chunk) for answer in run.answers):
            return
        cycles = np.arange(first, end)
        meant = run.policy.motion_at((run.begin_ns + (cycles + 1) * run.period_ns) / SECOND)
        off = np.abs(run.commands[0, first:end] - meant)
        # As far as it can have caught up at 1.5 times the plan's speed, or its limit, a while after the first message.
        moved = np.abs(np.diff(meant, axis=0))
        closed = np.clip(self.bounds.velocity * self.period - moved, 0.0, 0.5 * moved).cumsum(axis=0)
        closed = np.pad(closed, ((1 + round(_CATCHES_UP_S / self.period), 0), (0, 0)))[: len(off)]
        off[(closed < off[0]) | (cycles < begin)[:, None]] = 0.0
        a = self.meant.acceleration
        allowed = 2.5e-3 + a * form.dt**2 / 6  # a spline through rows is not what they are from
        if not scene.complete:  # a corner is rounded within the assumed jerk: from an acceleration to its opposite
            allowed = allowed + (2 * a) ** 3 / (24 * run.assumed.jerk**2)
        self._below("follows", off, allowed, first, "from the plan at this time")

    def notices(self) -> None:
        """Where nothing is measured, or the robot does not follow, it does not go on."""
        scene, run = self.scene, self.run
        if not self.meant:
            return
        v, a, j = 1.5 * self.meant.velocity, self.bounds.acceleration, self.bounds.jerk
        stop_s = float((v / a + 2 * a / j).max()) + 0.15
        for it in scene.disturbances:
            last = run.cycle(it.end)
            if it.kind == DEAD and it.end - it.begin > STATE_TIMEOUT_S + stop_s:
                self._below("unnoticed", np.abs(run.commands[1, last : last + 1]), _REST, last, it.kind)
            if it.kind == FREEZE:
                seen_s = 0.15 + scene.lag + 2 * scene.transport[1] + 1 / scene.joint_rate + scene.lead_time
                reach = DEVIATION + v * seen_s + v**2 / a + v / 1.5 * a / j
                off = np.abs(run.commands[0, last : last + 1] - run.commands[0, run.cycle(it.begin - scene.lag)])
                self._below("unnoticed", off, reach, last, it.kind)

    def accepted(self) -> None:
        """Feasible chunks are executed, but for what is stated here; and never is nothing executed for long."""
        run, scene = self.run, self.scene
        if refusals := [sent for sent in run.sent if sent.refusal not in ("", "off")]:
            at = run.cycle_at(refusals[0].arrived_ns)
            self._fail("unfit", None, at, np.nan, np.nan, f"controller: {refusals[0].refusal}")
        excused = [self._excused_until(it) for it in scene.disturbances]
        newest, calm, first = 0, [], None
        for answer, is_feasible in zip(run.answers, self._executable(), strict=True):
            chunk, at = answer.chunk, answer.arrived_ns / SECOND
            is_older = bool(chunk.stamp_ns) and chunk.observed_ns <= newest
            newest = max(newest, chunk.observed_ns)
            over = bool(chunk.stamp_ns) and chunk.end_ns <= answer.arrived_ns + (scene.lead_time + 0.006) * SECOND
            if is_older or over or not is_feasible or any(begin <= at <= end for begin, end in excused):
                continue
            calm.append(at)
            if isinstance(answer.answer, Refusal) and first is None:
                first = answer
        if first is not None:
            refused = sum(isinstance(answer.answer, Refusal) for answer in run.answers)
            words = f"{first.answer.reason}: {first.answer.message}"[:160]
            self._fail("refused", None, run.cycle_at(first.arrived_ns), refused, 0, words)
        after = max((end for _, end in excused), default=scene.sending.begin)
        late = [at for at in calm if at > after]
        taken = (answer.arrived_ns / SECOND for answer in run.answers if isinstance(answer.answer, Message))
        if late and scene.form.space != JERK and late[-1] - late[0] > 1.0 and not any(at > after for at in taken):
            self._fail("stuck", None, run.cycle_at(late[0] * SECOND), late[-1] - late[0], 1.0, "nothing is executed")

    def _excused_until(self, it: Disturbance) -> tuple[float, float]:
        """When chunks may be refused for a disturbance: until 1 s after it, and after the plan was begun anew."""
        ends = [it.end, *(at for at in self.run.policy.anchors if at < it.end + 3.0)]
        return it.begin, max(ends) + 1.0 + self.scene.sending.inference[1]

    def _executable(self) -> Iterator[bool]:
        """Whether each chunk keeps the limits that the node has, from where it begins.

        Velocities begin with the command that they meet, if the run is not over. Held jerks begin with the chunk that
        was executed before; where none was, or one that leads nobody knows where, all that follow are not judged.
        """
        run, newest, unknown = self.run, 0, False
        before: tuple[Chunk, np.ndarray] | None = None
        for it in run.answers:
            chunk, met = it.chunk, run.met(it)
            meets = chunk.space == VELOCITY and met < len(run.off)
            is_feasible = self._feasible(chunk, run.commands[0, met] if meets else None)
            if chunk.space == JERK:
                led = self._led(chunk, before)
                is_feasible &= self._keeps(led)
                unknown |= it.answer is None or not (is_feasible or chunk.observed_ns <= newest)
                unknown |= before is not None and chunk.observed_ns > before[0].end_ns
                newest = max(newest, chunk.observed_ns)
                before = (chunk, led) if isinstance(it.answer, Message) else before
            yield is_feasible and not unknown

    def _feasible(self, chunk: Chunk, begun_at: np.ndarray | None = None) -> bool:
        """Whether the spline through the rows of a chunk, or from another place, keeps the limits that the node has."""
        scene, positions = self.scene, chunk.position
        if begun_at is not None:
            positions = positions + (begun_at - positions[0])
        inside = (positions >= scene.position_min).all() and (positions <= scene.position_max).all()
        told = slice(None if scene.complete else 1)
        parts = zip(chunk.peaks[told], scene.bounds[told], strict=True)
        return bool(inside) and all((asked <= limit).all() for asked, limit in parts)

    def _led(self, chunk: Chunk, before: tuple[Chunk, np.ndarray] | None) -> np.ndarray:
        """States `[3, N, D]` to which held jerks lead, `_PARTS` in a step, from those of the chunk executed before."""
        h = chunk.dt / _PARTS
        state = np.array([self.scene.start, *np.zeros((2, self.scene.dof))])
        if before is not None:
            into = round((chunk.observed_ns - before[0].observed_ns) / SECOND / h)
            state = before[1][:, min(into, before[1].shape[1] - 1)]
        j = np.repeat(chunk.data.astype(float), _PARTS, axis=0)
        a = np.vstack([state[2:], state[2] + h * j.cumsum(axis=0)])
        v = np.vstack([state[1:2], state[1] + (h * a[:-1] + h**2 / 2 * j).cumsum(axis=0)])
        p = np.vstack([state[:1], state[0] + (h * v[:-1] + h**2 / 2 * a[:-1] + h**3 / 6 * j).cumsum(axis=0)])
        return np.stack([p, v, a])

    def _keeps(self, led: np.ndarray) -> bool:
        """Whether states, and a stop after them, keep limits for sure."""
        (p, v, a), bounds, scene = led, self.bounds, self.scene
        over = np.abs(v[-1]) + a[-1] ** 2 / (2 * bounds.jerk)
        way = 1.5 * over * (over / bounds.acceleration + 2 * bounds.acceleration / bounds.jerk)
        kept = np.maximum(np.abs(v).max(axis=0), over) <= bounds.velocity
        kept &= np.abs(a).max(axis=0) <= bounds.acceleration
        kept &= np.minimum(p.min(axis=0), p[-1] - way) >= scene.position_min
        return bool((kept & (np.maximum(p.max(axis=0), p[-1] + way) <= scene.position_max)).all())

    def _below(
        self, invariant: str, values: np.ndarray, limit: np.ndarray | float, first: int, words: str = ""
    ) -> None:
        """Hold values `[T, D]` from a cycle on against limits `[D]`; only the worst of each invariant is kept."""
        limit = np.broadcast_to(limit, self.scene.dof)
        if not (values > limit).any():
            return
        cycle, joint = np.unravel_index(int((values / np.maximum(limit, 1e-12)).argmax()), values.shape)
        self._fail(invariant, joint, first + cycle, float(values[cycle, joint]), float(limit[joint]), words)

    def _fail(self, invariant: str, joint: int | None, cycle: int, value: float, limit: float, words: str = "") -> None:
        name = "" if joint is None else self.scene.joints[joint]
        time = self.run.time(cycle) - BEGIN_S
        other = self.found.get(invariant)
        if other is None or (other.limit > 0 and limit > 0 and value / limit > other.value / other.limit):
            self.found[invariant] = Failure(self.scene.seed, invariant, name, time, float(value), float(limit), words)


def bounds_of(run: Run) -> Bounds:
    """What commands are held against: the limits; where there are none, those assumed, or what plans ask for."""
    scene, assumed = run.scene, run.assumed
    if scene.complete:
        return scene.bounds
    chunks = [it.chunk for it in run.answers if not isinstance(it.answer, Refusal)]  # None: executed later
    asked = assumed
    for chunk in chunks:
        asked = asked.at_least(chunk.peaks.times(1.0, _MORE, _MORE_JERK))
    if any(isinstance(it.answer, Message) and it.answer.slowed for it in run.answers):
        asked = asked.at_least(assumed.times(1.0, 1.0, _PASSING))
    if scene.form.space == JERK:
        asked = asked._replace(acceleration=np.maximum(asked.acceleration, _MORE * _held(chunks, assumed.acceleration)))
    return asked._replace(velocity=scene.bounds.velocity)


def _held(chunks: list[Chunk], braking: np.ndarray) -> np.ndarray:
    """Largest accelerations to which held jerks lead, a chunk's from the one before, or a brake after it `[D]`."""
    largest, begun = np.zeros_like(braking), np.zeros_like(braking)
    before, led = None, np.zeros((1, len(braking)))
    for chunk in chunks:
        into = 0 if before is None else max(round((chunk.observed_ns - before.observed_ns) / SECOND / chunk.dt), 0)
        first, begun = (led[into], begun) if into < len(led) else (np.zeros_like(braking), braking)
        before, led = chunk, first + np.vstack([np.zeros_like(first), chunk.dt * chunk.data.cumsum(axis=0)])
        largest = np.maximum(largest, begun + np.abs(led).max(axis=0))
    return largest


def _segments(off: np.ndarray) -> list[tuple[int, int]]:
    """First and last + 1 of the runs of cycles with a controller."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], off, [True]]).astype(int)))
    return [(int(low), int(high)) for low, high in zip(edges[::2], edges[1::2], strict=True)]
