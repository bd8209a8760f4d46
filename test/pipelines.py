"""The node's pipeline without a node: the trajectory of a sequence or plan at a given time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Threads
from concurrent.futures import Future

import numpy as np
import pytest

from soak.streams.core import put_in_motion
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.governor.controller_reports import ControllerReport
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.executor import Executor
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.parameters.parameters import NodeParameters
from traj_integrator_ros.requests.plan import Plan
from traj_integrator_ros.requests.position_trajectory import PositionFields
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason
from traj_integrator_ros.requests.sequences import SequenceFields

SECOND = 10**9
NOW_S = 1000.0
NONE = np.zeros(0, np.float32)
HELD = (ControlSpace.POSITION, ControlSpace.VELOCITY, ControlSpace.ACCELERATION, ControlSpace.JERK)
"""Control spaces whose actions are held over a step."""


class Later(Threads):
    """Threads that work when a test says so, or at once while `waits` is false."""

    def __init__(self) -> None:
        self.waits, self.submitted = True, []

    def submit(self, work: Callable[..., object], *arguments: object, **named: object) -> Future:
        """Store work, or do it at once."""
        self.submitted.append((future := Future(), work, arguments, named))
        if not self.waits:
            self.work()
        return future

    def work(self) -> None:
        """Do the stored work."""
        done, self.submitted = self.submitted, []
        for future, work, arguments, named in done:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(*arguments, **named))
                except Rejected as rejected:
                    future.set_exception(rejected)


class SimulatedNode:
    """A pipeline for joints `a`, `b`, ...; times are s of the node's clock. Speeds are assumed up to 10 rad/s."""

    def __init__(self, dof: int = 2, **parameters: object) -> None:
        names = parameters.pop("joint_names", [chr(ord("a") + i) for i in range(dof)])
        usual = {"device": "cpu", "limits__assumed_velocity": 10.0}
        given = {name.replace(".", "__"): value for name, value in parameters.items()}
        self.parameters = NodeParameters.of(names, **usual | given)
        self.dof = dof
        self.warnings: list[Rejected] = []
        self.refused: list[tuple[RejectionReason, float]] = []
        """Reasons and stamps, s, of plans that were refused after they had to wait."""
        self.refused_with: list[Rejected] = []
        self.last_when_refused: list[ExecutableTrajectory | None] = []
        self.pipeline = Executor(self.parameters, warn=self.warnings.append, refuse=self._refused)
        self.published = self.pipeline.published

    def _refused(self, rejected: Rejected, plan: Plan) -> None:
        self.refused.append((rejected.reason, plan.stamp_ns * 1e-9))
        self.refused_with.append(rejected)
        self.last_when_refused.append(self.published.last)

    def measure(self, position: object, velocity: object = 0.0, now: float = NOW_S, publisher: int = 0) -> None:
        """Take a joint state measured now, perhaps with the identity of its publisher."""
        state = self._state(position, velocity)
        self.pipeline.joint_state(*state[:2], ns(now), ns(now), publisher=publisher)

    def report(
        self, position: object, velocity: object | None = 0.0, now: float = NOW_S, speed_scaling: float = 1.0
    ) -> None:
        """Take a report of the controller about the command of this cycle; without a velocity, the report has none."""
        says = velocity is not None
        reference = self._state(position, velocity if says else 0.0)
        self.pipeline.report(ControllerReport(ns(now), reference, speed_scaling, says), ns(now))

    def execute(self, *state: object, at: float = NOW_S, lasts: float = 1.0) -> None:
        """Let the controller execute a motion that began a second ago and is in a given state at a time."""
        put_in_motion(self.pipeline, self._state(*state), ns(at), lasts)

    def _state(self, *parts: object) -> State:
        return State(*(np.broadcast_to(np.asarray(part, float), self.dof).copy() for part in (*parts, 0.0, 0.0)[:3]))

    def send(
        self,
        actions: object,
        *,
        space: ControlSpace = ControlSpace.POSITION,
        dt: object = 0.02,
        now: float = NOW_S,
        stamp: float = 0.0,
        start: tuple[object, ...] = (),
        took: float = 0.0,
        only_checked: bool = False,
        only_asked: bool = False,
        **fields_of_splines: object,
    ) -> ExecutableTrajectory | Future | None:
        """Make the trajectory of one row of actions `[H, dof]` and record it as published `took` seconds later.

        `only_asked`: returns what says whether it could be published (as_published); `only_checked`: asks that once.
        None: it has to wait.
        """
        fields = sequence_fields(actions, start, space, dt, **fields_of_splines)
        request = self.pipeline.checked(fields, ns(stamp), ns(now))
        self.pipeline.batches.started(request, lambda: ns(now))
        if only_asked:
            return self.pipeline.publishable(request, ns(stamp), ns(now))
        if only_checked:
            self.pipeline.publishable(request, ns(stamp), ns(now)).result(timeout=0)
            return None
        trajectory = self.pipeline.follow(self.pipeline.sequence(request, ns(stamp), ns(now)), ns(now))
        return self._recorded(trajectory, now + took)

    def send_from(self, start: object, actions: object, **options: object) -> ExecutableTrajectory:
        """Send like `send`, with a start that equals the command when the plan is taken up."""
        start = [np.asarray(row, np.float32) for row in start]
        now, lead = options.get("now", NOW_S), self.parameters.publish_lead_time
        self.execute(*start, at=now + lead)
        return self.send(actions, start=tuple(start), **options)

    def plan(
        self,
        times: object,
        positions: object,
        *,
        velocities: object = (),
        accelerations: object = (),
        names: str = "",
        now: float = NOW_S,
        stamp: float = 0.0,
    ) -> ExecutableTrajectory | None:
        """Make and record the trajectory of positions `[N, k]`, perhaps with velocities and accelerations, at times."""
        time_ns = np.rint(np.asarray(times) * 1e9).astype(np.int64).tolist()
        joints, parts = list(names) or list(self.parameters.joint_names), (positions, velocities, accelerations)
        values = ([np.asarray(row, float) for row in part] for part in parts)
        fields = PositionFields(joints, ns(stamp), len(time_ns), time_ns, *values)
        return self._recorded(self.pipeline.follow(self.pipeline.plan(fields, ns(now)), ns(now)), now)

    def tick(self, now: float) -> ExecutableTrajectory | None:
        """The trajectory that is due at a time without new input."""
        return self.pipeline.tick(ns(now))

    def seek_in(self, threads: Threads, wake: Callable[[], None] = lambda: None) -> None:
        """Search for motions to plans in threads."""
        self.threads, planner = threads, self.pipeline.planner
        planner._threads, planner._wake = threads, wake

    def stop(self, now: float, *, hold: bool = False) -> ExecutableTrajectory | None:
        """Stop."""
        return self.pipeline.stop(ns(now), hold)

    def _recorded(self, trajectory: ExecutableTrajectory | None, now: float) -> ExecutableTrajectory | None:
        if trajectory is not None:
            trajectory = self.published.timed(trajectory, ns(now))
            self.published.record(trajectory, ns(now))
        return trajectory

    def commanded(self, time_s: float) -> np.ndarray:
        """The commanded state at a time, `[3, dof]`."""
        return np.stack(self.published.commanded(ns(time_s)))


Reads = Callable[["ArmLoop", np.ndarray], np.ndarray]


class ArmLoop:
    """Joints that follow the commands of a simulated node, in steps of 10 ms, with reports, and a sender at 10 Hz.

    Args:
        node: the node; it must not have published a motion yet.
        reads: makes the joints' position of the loop and the commanded position, `[dof]`.
        reports: whether the controller reports.

    """

    def __init__(self, node: SimulatedNode, reads: Reads = lambda _, command: command, reports: bool = True) -> None:
        self.node, self.reads, self.reports = node, reads, reports
        self.time, self.place, self.held = 0.0, np.zeros(node.dof), np.zeros(node.dof)
        self.commands: list[np.ndarray] = []
        """Commanded positions, `[dof]` each, every 10 ms."""
        self.refused: list[Rejected] = []

    def command(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Commanded position and velocity, `[dof]`; the last position is held if no motion is in execution."""
        state = self.node.published.commanded(ns(NOW_S + time))
        if state is None:
            return self.held, np.zeros(self.node.dof)
        self.held = state.position
        return state.position, state.velocity

    def run(self, seconds: float, send: Callable[[float], object] | None = None) -> None:
        """Let time pass; call `send` with the time every 0.1 s, and keep its rejections."""
        for _ in range(round(seconds * 100)):
            now, (position, velocity), tick = NOW_S + self.time, self.command(self.time), round(self.time * 100)
            self.place = self.reads(self, position)
            self.node.measure(self.place, now=now)
            if self.reports and tick % 2 == 0:
                self.node.report(position, velocity, now=now)
            self.node.tick(now)
            if send is not None and tick % 10 == 0:
                try:
                    send(self.time)
                except Rejected as rejected:
                    self.refused.append(rejected)
            self.commands.append(position)
            self.time = round(self.time + 0.01, 2)


def sequence_fields(
    actions: object,
    start: Sequence[object] = (),
    space: ControlSpace = ControlSpace.POSITION,
    dt: object = (),
    **more: object,
) -> SequenceFields:
    """The fields of a message with actions `[batch, horizon, dof]`, or `[horizon, dof]`, and some rows of the start."""
    data = np.asarray(actions, np.float32)
    sizes = (1, *data.shape)[-3:-1]
    rows = [np.asarray(row, np.float32).ravel() for row in start] + [NONE] * (3 - len(start))
    steps = np.atleast_1d(np.asarray(dt, np.float32))
    fields = SequenceFields((), space.value, *sizes, steps, *rows, np.zeros(0, np.uint32), data.ravel())
    return fields._replace(**more)


GIVEN = {"velocity": [2.0, 1.0], "acceleration": [8.0, 4.0], "jerk": [80.0, 60.0]}
"""Limits of two joints, for tests that need any."""
LIMITS = np.array([*GIVEN.values()])


def limits(**values: object) -> dict[str, list[float]]:
    """Limits by quantity as parameters of two joints."""
    return {f"limits__{name}": np.broadcast_to(value, 2).tolist() for name, value in values.items()}


def largest(motion: Motion) -> np.ndarray:
    """Absolute values of velocity, acceleration and jerk, `[3, dof]`."""
    return np.abs(extremes(motion)).max(axis=0)[1:]


def ratio(motion: Motion) -> float:
    """Largest share of `LIMITS` that a motion asks for."""
    return float((largest(motion) / LIMITS).max())


def rejected(function: Callable[..., object], *arguments: object, **options: object) -> Rejected:
    """The rejection of a call."""
    with pytest.raises(Rejected) as caught:
        function(*arguments, **options)
    return caught.value


def ns(time_s: float) -> int:
    """Nanoseconds."""
    return round(time_s * 1e9)


def at(trajectory: ExecutableTrajectory, time_s: float) -> np.ndarray:
    """Position, velocity and acceleration of a trajectory at a time of the node's clock, `[3, dof]`."""
    return np.stack(trajectory.motion.state_at(time_s - trajectory.start_ns * 1e-9)[:3])
