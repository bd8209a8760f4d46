"""The node's processing from what arrives to the motion that is commanded. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..engine.integrator import TrajectoryIntegrator
from ..limits.joint_limits import AssumedLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import START_FROM_PREVIOUS
from ..requests.plan import Plan, plan_of_sequence
from ..requests.position_trajectory import PositionFields, plan_of_positions
from ..requests.rejection import Rejected, RejectionReason
from ..requests.retime_requests import RetimeFields, RetimeRequest, check_retiming
from ..requests.sequences import ActionRequest, IntegratedBatch
from .batches import Batches, Beside, at_once
from .beside import Findings
from .commands import Commands, Refuse
from .committed import Committed, CommittedFields, committed_rows
from .controller_reports import ControllerReport, ControllerReports, ControllerStatus
from .executable import ExecutableTrajectory
from .measured import JointStates
from .published import PublishedMotion
from .robot_clock import Stamps
from .trajectories import TrajectoryMaker

Warn = Callable[[Rejected], None]
"""Called with violations that are let through (limits.action = warn)."""


class Pipeline:
    """Makes what is commanded of what arrives; holds the latest joint state, and the last published motion.

    Args:
        parameters: the node's configuration.
        engine: for its device and dtype.
        published: the last published motion.
        warn: see `Warn`.
        refuse: see `Refuse`; by default, `warn` is called.
        findings: searches for motions to plans; by default, in the caller's thread.
        beside: does what takes long with large batches; by default, at once.

    """

    def __init__(
        self,
        parameters: NodeParameters,
        engine: TrajectoryIntegrator,
        published: PublishedMotion,
        warn: Warn,
        refuse: Refuse | None = None,
        findings: Findings | None = None,
        beside: Beside = at_once,
    ) -> None:
        self._findings = findings or Findings()
        self.joint_states = JointStates(parameters.joint_names)
        self.controller_reports = ControllerReports(parameters.joint_names)
        self.published = published
        self._warn = warn
        self.commands = Commands(self.joint_states, published, refuse or (lambda rejected, _: warn(rejected)))
        self.batches = Batches(engine, self.start, beside)
        self.reconfigure(parameters)

    def reconfigure(self, parameters: NodeParameters) -> None:
        """Continue with other parameters, for the same joints, device and dtype."""
        self.parameters = parameters
        self.batches.reconfigure(parameters)
        self._findings.drop_all()
        self._trajectories = TrajectoryMaker(parameters, self.joint_states, self.published, self._warn, self._findings)
        self.commands.reconfigure(parameters, self._trajectories)
        self.published.lead.configure(parameters)
        self.published.clock.lead_ns = self.published.lead.transport_ns

    def take_joint_state(
        self, names: Sequence[str], position: np.ndarray, velocity: np.ndarray, stamp_ns: int, now_ns: int
    ) -> None:
        """Take a joint state; arguments and errors as for `JointStates.update`, joints that are not taken included."""
        stamp_ns = self.published.clock.measured_ns(stamp_ns)
        taken = self.joint_states.update(names, position, velocity, stamp_ns, now_ns)
        if taken and self.joint_states.known(now_ns, 0.0) is not None:
            self.commands.supervise(now_ns)
        if self.joint_states.refused is not None:
            raise self.joint_states.refused

    def take_controller_state(self, report: ControllerReport, now_ns: int) -> None:
        """Take what the controller says about itself, in the node's joint order."""
        present = self.published.present
        before = present.status(now_ns)
        present.take_report(report, now_ns)
        status = present.status(now_ns)
        if status is not before and status in (ControllerStatus.RESTARTED, ControllerStatus.OTHER):
            self.published.drop()

    def take_speed_scaling(self, scaling: float, now_ns: int) -> None:
        """Take the speed scaling that a driver tells, which goes before what the controller reports.

        Raises:
            Rejected: not_finite.

        """
        if not np.isfinite(scaling):
            raise Rejected(RejectionReason.NOT_FINITE, f"speed_scaling: expected a number, got {scaling}")
        self.controller_reports.told = scaling
        if self.published.present.report is None:
            self.published.present.follow_scaling(scaling, now_ns)

    def take_stamp(self, stamps: Stamps, stamp_ns: int, arrived_ns: int) -> None:
        """Take the stamp of a joint state or of a report, and when it arrived; see `RobotClock`."""
        if (step := self.published.clock.take(stamps, stamp_ns, arrived_ns)) is not None:
            self.joint_states.set_clock(step.read_ns)
            self.published.set_clock(step, self.published.clock.at(arrived_ns))
            self.commands.set_clock(step.read_ns)

    def check_limits(self, batch: IntegratedBatch) -> None:
        """Check all rows of all trajectories of a batch against the limits.

        Raises:
            Rejected: limits_violated, unless limits.action is warn.

        """
        self._trajectories.refuse_or_warn(self.batches.violation(batch))

    def trajectory(
        self, request: ActionRequest, stamp_ns: int, now_ns: int, clock: Callable[[], int] | None = None
    ) -> ExecutableTrajectory | None:
        """Make the trajectory to publish from row publish.row of a batch; the others are not integrated for it.

        Args:
            request: the checked sequence.
            stamp_ns: of the sequence; used with start_from = previous.
            now_ns: the node's clock.
            clock: reads the time again: a trajectory that is already due when it has been made is made once more.

        Returns:
            None if it has to wait, because the controller is on its way to the first point of the one before: `tick`
            makes it.

        Raises:
            Rejected: size_out_of_range (the batch has no such row), stale_sequence, future_sequence, limits_violated,
                start_mismatch, brake_impossible, non_finite_result, invalid_times, no_limits, controller_unavailable,
                deviation or stopped.

        """
        self.commands.check_clock(now_ns)
        plan = self._plan_of(request, stamp_ns, now_ns)
        self.commands.require_newer(plan, now_ns)
        return self.commands.in_time(plan, now_ns, clock)

    def _plan_of(self, request: ActionRequest, stamp_ns: int, now_ns: int = 0) -> Plan:
        """The trajectory of a batch that is published. Raises Rejected: size_out_of_range."""
        row = self.parameters.publish_row
        if row >= request.batch:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE,
                f"batch: expected at least {row + 1}, so that there is row {row} (parameter publish.row), "
                f"got {request.batch}",
            )
        origin_ns = self._by_robot(stamp_ns) if self.parameters.start_from == START_FROM_PREVIOUS else 0
        return plan_of_sequence(request, row, self.parameters.dt, origin_ns, stamp_ns, now_ns)

    def _by_robot(self, stamp_ns: int) -> int:
        """A time of the node's clock by the robot's; 0 means now."""
        return stamp_ns and stamp_ns + self.published.clock.applied_ns

    def publishable(self, request: ActionRequest, stamp_ns: int) -> Callable[[int], bool]:
        """Check that a trajectory could be published from a checked sequence; nothing is changed.

        Returns:
            Called with the node's clock until it returns True, since that may take long. It raises Rejected as
            `trajectory`.

        Raises:
            Rejected: size_out_of_range.

        """
        plan = self._plan_of(request, stamp_ns)

        def is_known(now_ns: int) -> bool:
            self.commands.check_clock(now_ns)
            return self.commands.is_possible(plan, now_ns)

        return is_known

    def committed(self, fields: CommittedFields, now_ns: int) -> Committed:
        """Return the motion in execution at the times of a chunk that is being planned. Raises Rejected."""
        self.commands.check_clock(now_ns)
        fields = fields._replace(stamp_ns=self._by_robot(fields.stamp_ns))
        found = committed_rows(fields, self.parameters, self.published.present, self.joint_states, now_ns)
        return found._replace(now_ns=now_ns - self.published.clock.applied_ns)

    def retiming(self, fields: RetimeFields) -> RetimeRequest:
        """Check a request to retime paths or plans; its `answer` may take long. Raises Rejected."""
        parameters = self.parameters
        most = parameters.max_batch, parameters.max_horizon
        return check_retiming(fields, parameters.joint_limits, self.assumed.bounds.jerk, most, parameters.continuous)

    @property
    def assumed(self) -> AssumedLimits:
        """The limits of joins and brakes, and which of them nobody gave."""
        return self._trajectories.assumed

    def position_trajectory(
        self,
        fields: PositionFields,
        now_ns: int,
        clock: Callable[[], int] | None = None,
        *,
        end: str | None = None,
        topic: str = "position_trajectory",
    ) -> ExecutableTrajectory | None:
        """Check positions and times, and make the trajectory through them; if it has to wait, a stop or None.

        `clock` as in `trajectory`, `end` as in `plan_of_positions`; `topic`: where they came.

        Raises:
            Rejected: with the reason.

        """
        self.commands.check_clock(now_ns)
        by_robot = fields._replace(stamp_ns=self._by_robot(fields.stamp_ns))
        plan = plan_of_positions(by_robot, self.parameters, now_ns, end)
        plan = replace(plan, topic=topic, received_ns=now_ns, stamp_ns=fields.stamp_ns)
        if plan.untimed:
            plan = self._trajectories.beginning.without_first_row(plan, now_ns)
        return self.commands.in_time(plan, now_ns, clock)

    def start(self, now_ns: int) -> tuple[np.ndarray, ...]:
        """Return the start state for input without one: position, velocity and perhaps acceleration, `[1, dof]`.

        Raises Rejected: no_joint_state, state_too_old or clock_jumped_back.
        """
        self.commands.check_clock(now_ns)
        state = self._trajectories.predicted(now_ns)
        if state is None:
            measured = self.joint_states.latest(now_ns, self.parameters.state_timeout)
            state = measured.position, measured.velocity
        # In the engine's type at once: the C++ loops read that in place.
        return tuple(values[None].astype(self.parameters.dtype) for values in state)
