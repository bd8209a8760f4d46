"""From input to the commanded motion, with the time given by the caller: the front of this room. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Threads
from concurrent.futures import Future
from dataclasses import replace

import numpy as np

from ..engine.integrator import TrajectoryIntegrator
from ..execution.committed import Committed
from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, whole_ns
from ..limits.joint_limits import AssumedLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import START_FROM_PREVIOUS
from ..requests.batches import Batches, Beside, at_once
from ..requests.inputs import Actions, Positions
from ..requests.plan import Plan, plan_of_sequence
from ..requests.position_trajectory import PositionFields, plan_of_positions
from ..requests.rejection import Rejected, RejectionReason
from ..requests.relative import absolute
from ..requests.retime_requests import RetimeFields, RetimeRequest, check_retiming
from ..requests.sequences import ActionRequest, IntegratedBatch, SequenceFields
from .command import Command
from .committed import CommittedFields, committed_rows, observed
from .controller_reports import ControllerReport, ControllerReports, check_speed_scaling
from .executable import ExecutableTrajectory
from .grips import Grip
from .measured import JointStates
from .planned_motion import Found
from .planner import Planner, Refuse
from .sampled import Samples
from .trajectories import TrajectoryMaker


class Executor:
    """Makes commands from input; holds the latest joint state, and the last published motion.

    The node calls it with the contents of messages and publishes its trajectories. A program without ROS calls
    `joint_state`, `execute`, `tick`, `stop` and `sample`; all but `sample` from one thread. Times are ns of one clock
    of the caller's. What makes or checks a motion raises Rejected with the reason; the motion in execution goes on.

    Args:
        parameters: the node's configuration.
        engine: for its device; by default, that of the parameters.
        published: the last published motion; by default, there is none.
        warn: called with violations that are executed nevertheless (limits.action = warn).
        refuse: called with plans that had to wait and were then refused; by default, `warn` is called.
        threads: search for the motions to plans; by default, the caller's thread does.
        wake: called, in any thread, when such a search is over.
        beside: runs what takes long with large batches; by default, at once.

    """

    def __init__(
        self,
        parameters: NodeParameters,
        engine: TrajectoryIntegrator | None = None,
        published: Command | None = None,
        warn: Callable[[Rejected], None] = lambda rejected: None,
        refuse: Refuse | None = None,
        threads: Threads | None = None,
        wake: Callable[[], None] = lambda: None,
        beside: Beside = at_once,
    ) -> None:
        self.controller_reports = ControllerReports(parameters.joint_names)
        self.published = published = Command() if published is None else published
        self.joint_states = published.joint_states = JointStates(parameters.joint_names)
        self._samples = Samples(published)
        self.warn = warn
        engine = TrajectoryIntegrator(parameters.device) if engine is None else engine
        refuse = refuse or (lambda rejected, _: warn(rejected))
        self.planner = Planner(published, refuse, threads, wake)
        self.batches = Batches(engine, self.start, beside)
        self.reconfigure(parameters)

    def reconfigure(self, parameters: NodeParameters) -> None:
        """Continue with other parameters, for the same joints and device."""
        self.parameters = parameters
        self.batches.reconfigure(parameters)
        self._trajectories = TrajectoryMaker(parameters, self.published, self.warn)
        self.planner.reconfigure(parameters, self._trajectories)
        bounds, allowance = self.assumed.bounds, self._trajectories.allowance
        self.joint_states.believed.configure(bounds.velocity, allowance.full_speed, parameters.continuous)
        self.published.clock.lead_ns = whole_ns(parameters.publish_lead_time)

    @property
    def assumed(self) -> AssumedLimits:
        """The limits of blends and brakes, and which of them are assumed."""
        return self._trajectories.assumed

    @property
    def grips(self) -> tuple[Grip, ...]:
        """The grippers that an object holds back, or that do not move."""
        return self.published.guard.grips.held

    def is_busy(self, now_ns: int) -> bool:
        """Return whether a motion is in progress, waits, or is not over: otherwise `tick` may be called less often."""
        unclear = self.published.is_unclear or self.published.guard.is_busy
        return unclear or self.published.is_moving(now_ns) or self.planner.waits

    # A loop that samples

    def execute(
        self, plan: Actions | Positions, now_ns: int, clock: Callable[[], int] | None = None
    ) -> ExecutableTrajectory | None:
        """Execute a plan of joints in the order of the parameters, from `publish.lead_time` on.

        Returns None if it has to wait, and `tick` begins it. A `clock` returns the time again: a motion that is already
        due when it has been made is made once more.
        """

        def later() -> int:
            self._follow_samples(time_ns := clock())  # they went on while the motion was made
            return time_ns

        self._follow_samples(now_ns)
        if isinstance(plan, Positions):
            checked = self.plan(plan.fields(self.parameters.joint_names), now_ns, end=plan.end)
        else:
            request = self.checked(plan.fields, plan.stamp_ns, now_ns)
            checked = self.sequence(request, plan.stamp_ns, now_ns)
        made = self.follow(checked, now_ns, clock and later)
        return self._begun(made, clock() if clock else now_ns)

    def tick(self, now_ns: int) -> ExecutableTrajectory | None:
        """Supervise, at least every 10 ms; returns a motion that begins by itself: a brake, or a waiting plan."""
        self._follow_samples(now_ns)
        return self._begun(self.planner.tick(now_ns), now_ns)

    def stop(self, now_ns: int, hold: bool = False) -> ExecutableTrajectory | None:
        """Stop as fast as limits allow; with `hold`, until a call without. None: nothing moves, or `tick` stops it."""
        self._follow_samples(now_ns)
        return self._begun(self.planner.stop(now_ns, hold), now_ns)

    def sample(self, time_ns: int) -> State:
        """Return the position, velocity and acceleration to command at a time, from any thread.

        A sample counts as commanded: the next plan is blended in from there. A robot that is not sampled any more
        counts as off. If a sample is late, by more than 8 ms and three times the usual interval, the motion waits for
        it, and `warn` is called. Before the first motion, the position measured last is held; without one, Rejected is
        raised (no_joint_state, clock_jumped_back).
        """
        return self._samples.at(time_ns)

    def _follow_samples(self, now_ns: int) -> None:
        """Treat the newest sample as a controller's report, and let the clock of motions wait for late samples."""
        sample, command = self._samples.newest, self.published
        if sample is None:
            return
        motion_ns = sample.motion_at(now_ns)
        late_s = (command.motion_clock.at(now_ns) - motion_ns) * NANOSECOND_S
        if late_s > 0 and command.is_moving(now_ns):
            message = f"sample: {late_s:.3f} s late; the motion goes on from the last sample"
            self.warn(Rejected(RejectionReason.CONTROLLER_UNAVAILABLE, message))
        if command.report is None or sample.time_ns > command.report.stamp_ns:
            command.found_at(sample.time_ns, sample.motion_ns)
            self.report(ControllerReport(sample.time_ns, sample.state.known), min(sample.time_ns, now_ns))
        command.found_at(now_ns, motion_ns)

    def _begun(self, made: ExecutableTrajectory | None, now_ns: int) -> ExecutableTrajectory | None:
        """Record a motion as commanded from its start on."""
        if made is not None:
            made = self.published.timed(made, now_ns)
            self.published.record(made, now_ns)
        self.planner.tell_refused()
        return made

    # What arrives

    def joint_state(
        self,
        position: np.ndarray,
        velocity: np.ndarray,
        now_ns: int,
        stamp_ns: int = 0,
        names: Sequence[str] | None = None,
        publisher: int = 0,
        waited_ns: int = 0,
    ) -> None:
        """Take positions and velocities `[N]` measured at a time; `warn` is called if they are not believed.

        A time of 0 means on arrival, which was `waited_ns` ago. Without `names`, the joints are those of the
        parameters; a publisher of 0 is unknown. Raises Rejected as `JointStates.update` does; other joints may have
        been taken.
        """
        self._follow_samples(now_ns)
        states, given_ns, stamp_ns = self.joint_states, stamp_ns, self.published.clock.of_states(stamp_ns)
        names = self.parameters.joint_names if names is None else names
        taken = states.update(names, position, velocity, stamp_ns, now_ns, publisher, waited_ns)
        if taken and (state := states.known(now_ns, 0.0)) is not None:
            self.planner.supervise(state)
        if given_ns and not stamp_ns:  # The time of arrival may be late: no gap to the next one is certain.
            states.believed.forget()
        if states.doubted is not None:
            self.warn(states.doubted)
        if states.refused is not None:
            raise states.refused

    def report(self, report: ControllerReport, now_ns: int, count: int = 1) -> None:
        """Take a controller's report of its command: the newest of `count` reports. Samples need none."""
        set_ns = self.published.clock.set_ns
        report = replace(report, stamp_ns=report.stamp_ns - set_ns if report.stamp_ns else now_ns)
        if len(switched := self.parameters.switched):  # The rates of a step say nothing.
            held = report.reference.position[switched]
            report = replace(report, reference=report.reference.held(switched, held))
        self.published.take_report(report, now_ns, count)

    def take_speed_scaling(self, scaling: float, now_ns: int) -> None:
        """Take the speed scaling from a driver's topic, which goes before the reports'. Raises Rejected: not_finite."""
        check_speed_scaling("speed_scaling", scaling)
        self.controller_reports.reported_scaling = scaling
        if self.published.report is None:
            self.published.follow_scaling(scaling, now_ns)

    # From messages to plans, and from plans to trajectories

    def checked(self, fields: SequenceFields, stamp_ns: int, now_ns: int) -> ActionRequest:
        """Check a sequence, and make its relative actions absolute, from the observation at its stamp."""
        observation_ns = self.published.clock.of_node(stamp_ns)
        return absolute(
            self.batches.checked(fields),
            self.parameters.relative,
            lambda joints: observed(self.joint_states, joints, observation_ns, now_ns, self.parameters),
        )

    def sequence(self, request: ActionRequest, stamp_ns: int, now_ns: int = 0) -> Plan:
        """Return the plan of a checked sequence: the first trajectory of its batch, which is the one to publish."""
        origin_ns = self.published.clock.of_node(stamp_ns) if self.parameters.start_from == START_FROM_PREVIOUS else 0
        return plan_of_sequence(request, 0, self.parameters.dt, origin_ns, stamp_ns, now_ns)

    def plan(
        self, fields: PositionFields, now_ns: int, *, end: str | None = None, topic: str = "position_trajectory"
    ) -> Plan:
        """Return the plan of positions and times, in any thread: thousands take milliseconds."""
        timed = fields._replace(stamp_ns=self.published.clock.of_node(fields.stamp_ns))
        plan = plan_of_positions(timed, self.parameters, now_ns, end)
        return replace(plan, topic=topic, received_ns=now_ns, stamp_ns=fields.stamp_ns)

    def follow(self, plan: Plan, now_ns: int, clock: Callable[[], int] | None = None) -> ExecutableTrajectory | None:
        """Make the trajectory of a plan; None if it has to wait: `tick` makes it then. `clock` as in `execute`."""
        self.published.check_clock(now_ns)
        if plan.untimed:
            plan = self._trajectories.beginning.without_first_row(plan, now_ns)
        return self.planner.execute(plan, now_ns, clock)

    def publishable(self, request: ActionRequest, stamp_ns: int, now_ns: int) -> Future[Found]:
        """Find out whether a trajectory could be published from a checked sequence, without changing anything.

        What tells it once it is done, which may take long, raises Rejected as `follow` does: this, or its result.
        """
        self.published.check_clock(now_ns)
        return self.planner.possible(self.sequence(request, stamp_ns), now_ns)

    # Questions

    def start(self, now_ns: int) -> tuple[np.ndarray, ...]:
        """Return the start state for input without one: position, velocity and perhaps acceleration, `[1, dof]`."""
        self.published.check_clock(now_ns)
        state = self._trajectories.predicted(now_ns)
        state = state or self.joint_states.latest(now_ns, self.parameters.state_timeout)[:2]
        # The engine's type at once, so that the C++ loops read it in place.
        return tuple(values[None].astype(np.float32) for values in state)

    def check_limits(self, batch: IntegratedBatch) -> None:
        """Check all rows of all trajectories against the limits. Raises Rejected: limits_violated, unless it warns."""
        self._trajectories.refuse_or_warn(self.batches.violation(batch))

    def committed(self, fields: CommittedFields, now_ns: int) -> Committed:
        """Return the motion in execution at the times of a chunk that is being planned."""
        self.published.check_clock(now_ns)
        return committed_rows(fields, self.parameters, self.published, now_ns)

    def retiming(self, fields: RetimeFields) -> RetimeRequest:
        """Check a request to retime paths or plans; its `answer` may take long."""
        parameters = self.parameters
        most = parameters.max_batch, parameters.max_horizon, parameters.position_trajectory_max_points
        return check_retiming(fields, parameters.joint_limits, self.assumed.bounds.jerk, most, parameters.continuous)
