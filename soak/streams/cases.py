"""Cases that once made an arm jump, run away or stand still for ever: a scene, what is sent in it, what must hold.

They are deterministic. `run_case` simulates one with the node's processing; the same can be played to a node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from .checks import beyond, ends_at, moves, never_refused, reaches_speed, refused_between, retreats, stays, taken
from .core import ActionFields, Positions
from .invariants import failures
from .model import Models
from .plain_scenes import FIRST_S, LIMITS, MEANT, along, quiet, replace_speed, streaming, streaming_velocity
from .plans import Bounds, Course, Way
from .policies import POSITION, VELOCITY, Form
from .retreats import DEVIATION
from .scenes import DEAD, FREEZE, RESTART, Disturbance, Scene
from .simulation import SECOND, STOP, Run, Step, simulate


@dataclass(frozen=True)
class Case:
    """A scene, a script, and what must hold beside limits, C2 and rest at the end."""

    name: str
    scene: Scene
    script: tuple[Step, ...] = ()
    check: Callable[[Run], list[str]] = lambda run: []
    parameters: dict = field(default_factory=dict)


def run_case(case: Case, models: Models, **options: object) -> tuple[Run, list[str]]:
    """Simulate a case; returns what happened, and what does not hold."""
    run = simulate(case.scene, models, script=case.script, **options, **case.parameters)
    always = {"finite", "position", "velocity", "acceleration", "jerk", "c2", "rest", "unfit"}
    found = [str(failure) for failure in failures(run) if failure.invariant in always]
    return run, found + case.check(run)


def all_cases() -> list[Case]:
    """Every case, with the numbers that were found."""
    return [
        *(late_stamp(age) for age in (0.3, 1.0, 1.5)),
        *(goal_beside(how) for how in ("one point", "two points", "start")),
        *(single_goal(complete) for complete in (True, False)),
        *(noisy_rest(complete) for complete in (True, False)),
        *(velocities_from_rest(speed) for speed in (0.1, 0.3)),
        *(stop_while_moving(how) for how in STOPS),
        *(controller_off(length) for length in (0.05, 0.1, 0.15)),
        protective_stop(),
        joint_states_end(),
        noisy_actions(),
        fast_with_lag(),
        *(droop(speed) for speed in (0.0, 0.3)),
        long_steps(),
        *(late_chunk(late) for late in (0.2, 0.4)),
        older_chunk(),
        short_rest(),
    ]


# Stamps, starts and goals


def late_stamp(age: float) -> Case:
    """A position trajectory of 2 s that was stamped some time ago, the robot at rest."""
    way = Way(0.0, np.zeros((3, 1)), np.array([1.2]), MEANT)
    times = np.append(np.arange(0.05, 2.0, 0.05), 2.0)
    rows = way.states(times)[0]

    def make(now_ns: int, measured: np.ndarray) -> Positions:
        return Positions(now_ns - round(age * SECOND), np.rint(times * SECOND).astype(int), rows)

    return Case(
        f"a position trajectory stamped {age:g} s ago",
        quiet(end=0.1),
        (Step(FIRST_S, make),),
        lambda run: ends_at(run, 1.2) if taken(run) else stays(run),
    )


def goal_beside(how: str) -> Case:
    """A point at time 0 that is 0.09 rad away, alone or with another; or a start that is given so far off."""
    away = 0.09

    def make(now_ns: int, measured: np.ndarray) -> Positions | ActionFields:
        if how == "one point":
            return Positions(0, [0], np.array([[away]]))
        if how == "two points":
            return Positions(0, [0, 20_000_000], np.array([[away], [away]]))
        rows = np.full((20, 1), away, np.float32)
        return ActionFields(0, POSITION, 0.02, rows, [np.array([away], np.float32)])

    return Case(
        f"{how} 0.09 rad off",
        quiet(end=0.1),
        (Step(FIRST_S, make),),
        lambda run: ends_at(run, away) if taken(run) or how == "one point" else stays(run),
    )


def single_goal(complete: bool) -> Case:
    """A single goal, 0.3 rad away in 1 s: ends there, not beyond."""
    return Case(
        f"a goal of 0.3 rad in 1 s, {_limits(complete)}",
        quiet(end=0.1, complete=complete),
        (Step(FIRST_S, lambda now_ns, measured: Positions(0, [SECOND], np.array([[0.3]]))),),
        lambda run: [*ends_at(run, 0.3), *beyond(run, 0.3 + 1e-4)],
    )


def noisy_rest(complete: bool) -> Case:
    """A plan that ends at rest, its rows with 1 mrad of noise, at 50 Hz: no more than some noise beyond the goal."""
    way = Course([Way(FIRST_S, np.zeros((3, 1)), np.array([0.5]), MEANT)])
    scene = streaming(way, Form(POSITION, 0.02, 40, True, noise=1e-3), rate=50, seconds=2.0)
    return Case(
        f"1 mrad of noise in the rows of a plan that ends at rest, {_limits(complete)}",
        replace(scene, complete=complete),
        check=lambda run: [*beyond(run, 0.506), *([] if complete else ends_at(run, 0.5, 6e-3))],
    )


# Starting and stopping


def velocities_from_rest(speed: float) -> Case:
    """Velocities from rest at 50 Hz, as a teleoperator sends them."""
    limits = Bounds(np.array([2.175]), np.array([7.5]), np.array([3750.0]))
    scene = replace(streaming_velocity(speed, seconds=1.5), bounds=limits)

    def check(run: Run) -> list[str]:
        return [*never_refused(run), *reaches_speed(run, speed, FIRST_S + 1.0)]

    return Case(f"velocities of {speed:g} rad/s from rest", scene, check=check)


STOPS = ("velocities 0, H 1", "velocities 0, H 10", "one point", "hold", "ramp", "stop", "silence")


def stop_while_moving(how: str) -> Case:
    """A robot that moves at 1 rad/s is told to stop, in every way that there is."""
    speed, at = 1.0, FIRST_S + 1.0

    def make(now_ns: int, measured: np.ndarray) -> object:
        if how == "stop":
            return STOP
        if how == "silence":
            return None
        if how.startswith("velocities"):
            return ActionFields(0, VELOCITY, 0.02, np.zeros((int(how.split()[-1]), 1), np.float32))
        if how == "one point":
            return Positions(0, [0], measured[:1])
        if how == "hold":
            return ActionFields(0, POSITION, 0.02, np.repeat(measured[:1], 10, axis=0).astype(np.float32))
        slower = speed * np.linspace(1, 0, 25, dtype=np.float32)[:, None]
        return ActionFields(0, VELOCITY, 0.02, slower)

    scene = streaming_velocity(speed, seconds=1.0, horizon=150)
    # Fastest within the limits from when the controller can know; a ramp or a plan that goes on takes longer.
    a, j = LIMITS.acceleration[0], LIMITS.jerk[0]
    fastest = speed**2 / (2 * a) + speed * a / (2 * j) + speed * 0.045
    allowed = {"ramp": 0.27 + fastest, "silence": 3.2 + fastest, "hold": 2 * fastest, "one point": 2 * fastest}

    def check(run: Run) -> list[str]:
        way = run.commands[0, -1, 0] - run.commands[0, run.cycle(at), 0]
        refused = [] if how == "silence" else [*never_refused(run, at)]
        limit = allowed.get(how, fastest)
        far = abs(way) if how not in ("hold", "one point") else np.ptp(run.commands[0, run.cycle(at) :, 0])
        return refused + ([f"stop: expected at most {limit:.3f} rad, got {far:.3f}"] if far > limit else [])

    return Case(f"stop by {how}", scene, (Step(at, make),), check)


# Disturbances


def controller_off(length: float) -> Case:
    """The controller is off for a moment in a stream: an emergency stop that is reset."""
    scene = along(speed=0.6, seconds=4.0)
    at = FIRST_S + 1.0
    off = (Disturbance(RESTART, at, at + length),)

    def check(run: Run) -> list[str]:
        return moves(run, at + length + 1.5, scene.sending.end)

    return Case(f"the controller is off for {length:g} s", replace(scene, disturbances=off, lag=0.02), check=check)


def protective_stop() -> Case:
    """The robot stands still in a slow stream: that is noticed before it is far, and the stream goes on later."""
    speed, at, end = 0.05, FIRST_S + 1.0, FIRST_S + 5.0
    scene = along(speed, seconds=8.0, pause=(end - 0.2, end + 0.5))

    def check(run: Run) -> list[str]:
        stood = run.commands[0, run.cycle(at), 0]
        far = np.abs(run.commands[0, run.cycle(at) : run.cycle(end), 0] - stood).max()
        limit = DEVIATION + 0.02
        found = [f"deviation: expected at most {limit:.3f} rad, got {far:.3f}"] if far > limit else []
        crept = np.ptp(run.commands[0, run.cycle(end - 1.5) : run.cycle(end), 0])
        found += [f"expected to hold while the robot stands, got {crept:.5f} rad"] if crept > 1e-3 else []
        return found + moves(run, end + 2.0, scene.sending.end)

    return Case("protective stop", replace(scene, disturbances=(Disturbance(FREEZE, at, end),)), check=check)


def joint_states_end() -> Case:
    """Joint states end in a stream: it ends with a brake, and chunks are refused until there are new ones."""
    at, end = FIRST_S + 1.0, FIRST_S + 3.0
    scene = along(0.6, seconds=6.0, pause=(end - 0.2, end + 0.4))

    def check(run: Run) -> list[str]:
        way = np.ptp(run.commands[0, run.cycle(at) : run.cycle(end), 0])
        found = [f"expected at most 0.6 rad without joint states, got {way:.2f}"] if way > 0.6 else []
        if np.abs(run.commands[1, run.cycle(end - 0.3)]).max() > 1e-6:
            found.append("expected rest 1.7 s after the last joint state")
        found += [] if refused_between(run, at + 1.0, end - 0.2) else ["no chunk was refused"]
        return found + moves(run, end + 2.0, scene.sending.end)

    return Case("joint states end", replace(scene, disturbances=(Disturbance(DEAD, at, end),)), check=check)


def noisy_actions() -> Case:
    """1 mrad of noise in rows of 0.04 s."""
    scene = along(0.4, seconds=2.5, form=Form(POSITION, 0.04, 20, True, noise=1e-3))
    return Case("1 mrad of noise in the actions", scene, check=lambda run: moves(run, FIRST_S + 1.0, scene.sending.end))


def fast_with_lag() -> Case:
    """A robot that lags by 60 ms, at 2 rad/s, from rest."""
    scene = streaming_velocity(1.9, seconds=2.0, rate=20, form=Form(POSITION, 0.02, 30, False))
    scene = replace(scene, lag=0.06, bounds=LIMITS.times(1.25, 1.5, 2.0))

    def check(run: Run) -> list[str]:
        # Each chunk begins where the robot is measured, 0.12 rad behind its command, so that it is slower than meant.
        slow = run.commands[1, run.cycle(FIRST_S + 1.9), 0] < 0.8
        return [*never_refused(run), *(["expected to move with 0.8 rad/s at least"] if slow else [])]

    return Case("2 rad/s with a lag of 60 ms", scene, check=check)


def droop(speed: float) -> Case:
    """A robot that hangs 0.02 rad low: velocities 0 in ten pauses do not let it sink, others continue the command."""
    scene = replace(streaming_velocity(speed, seconds=5.0, rate=10, pauses=10), droop=np.array([-0.02]))

    def check(run: Run) -> list[str]:
        if speed:
            return [*never_refused(run), *retreats(run, 1e-4)]
        return [*never_refused(run), *stays(run, 1e-4)]

    return Case(f"droop of 0.02 rad, velocities {speed:g}", scene, check=check)


# Streams


def long_steps() -> Case:
    """Rows of 0.1 s executed at 50 Hz with 50 ms of inference: on the plan, but for its own spline."""
    way = Course([Way(FIRST_S, np.zeros((3, 1)), np.array([1.5]), MEANT.times(1, 1, 0.5))])
    scene = streaming(way, Form(POSITION, 0.1, 12, True), rate=50, seconds=2.5, inference=0.05)

    def check(run: Run) -> list[str]:
        cycles = np.arange(run.cycle(FIRST_S + 0.6), run.cycle(FIRST_S + 2.4))
        meant = way.states((run.begin_ns + (cycles + 1) * run.period_ns) / SECOND)[0]
        off = np.abs(run.commands[0, cycles] - meant).max()
        found = [f"expected at most 3 mrad off the plan, got {1e3 * off:.1f}"] if off > 3e-3 else []
        return [*never_refused(run), *found]

    return Case("rows of 0.1 s at 50 Hz", scene, check=check)


def late_chunk(late: float) -> Case:
    """The first chunk of a plan of 0.4 rad/s comes late: joined, without a race."""
    speed = 0.4
    way = Course([Way(FIRST_S, np.zeros((3, 1)), np.array([1.2]), replace_speed(speed))])
    scene = streaming(way, Form(POSITION, 0.02, 100, True), rate=5, seconds=3.0, inference=late)

    def check(run: Run) -> list[str]:
        fastest = np.abs(run.commands[1]).max()
        found = [f"expected at most {1.5 * speed:g} rad/s, got {fastest:.2f}"] if fastest > 1.51 * speed else []
        time = FIRST_S + late + 2.0
        off = abs(run.commands[0, run.cycle(time), 0] - way.states(np.array([time + 0.001]))[0, 0, 0])
        found += [f"expected to be on the plan after 2 s, got {1e3 * off:.1f} mrad"] if off > 2e-3 else []
        return [*never_refused(run), *found, *retreats(run, 1e-4), *ends_at(run, 1.2)]

    return Case(f"the first chunk {late:g} s late", scene, check=check)


def older_chunk() -> Case:
    """A chunk that is older than the one in execution, and another plan, comes after it: dropped."""
    way = Course([Way(FIRST_S, np.zeros((3, 1)), np.array([0.8]), MEANT)])
    scene = streaming(way, Form(POSITION, 0.02, 60, True), rate=10, seconds=1.5)
    stamp = round((FIRST_S + 0.3) * SECOND)
    rows = np.linspace(0, -1.0, 60, dtype=np.float32)[:, None]
    script = (Step(FIRST_S + 0.65, lambda now_ns, measured: ActionFields(stamp, POSITION, 0.02, rows)),)

    def check(run: Run) -> list[str]:
        executed = ["the older chunk was executed"] if taken(run) else []
        return [*executed, *ends_at(run, 0.8), *retreats(run, 1e-4)]

    return Case("an older chunk after a newer one", scene, script, check)


def short_rest() -> Case:
    """A plan that rests, with less than 0.2 s left, arrives while the robot moves."""
    speed = 0.5
    scene = streaming_velocity(speed, seconds=1.0)

    def make(now_ns: int, measured: np.ndarray) -> ActionFields:
        begun = 0.08  # of a way to rest that takes 0.2 s
        state = np.array([measured[0] - begun * speed, measured[1], [0.0]])
        way = Way(0.0, state, state[0] + speed * 0.1, MEANT.times(1, 2, 4))
        rows = way.states(0.02 * np.arange(1, 13))[0]
        return ActionFields(now_ns - round(begun * SECOND), POSITION, 0.02, rows.astype(np.float32))

    at = FIRST_S + 1.0
    return Case("a plan that rests soon", scene, (Step(at, make),), lambda run: never_refused(run, at))


def _limits(complete: bool) -> str:
    return "all limits" if complete else "limits of a URDF"
