"""The node's processing from checked arrays to results: start state, engine, limits. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeVar

import numpy as np

from ..engine.call import Ends, Gradient, Wanted, step_lengths, time_from_start
from ..engine.evaluation import violations_of
from ..engine.integrator import TrajectoryIntegrator
from ..engine.runners import OutOfDeviceMemory
from ..kernels import ControlMap, QuadraticCost, SplineForm, Trajectory
from ..limits.joint_limits import AssumedLimits, find_violation
from ..parameters.parameters import NodeParameters
from ..parameters.table import START_FROM_PREVIOUS
from ..requests.evaluation_requests import (
    BatchGradient,
    EvaluatedBatch,
    EvaluationFields,
    UpstreamFields,
    check_cost,
    check_rows_wanted,
    check_upstream,
    rows_of_request,
)
from ..requests.plan import Plan, plan_of_sequence
from ..requests.position_trajectory import PositionFields, plan_of_positions
from ..requests.rejection import Rejected, RejectionReason, all_finite, require_finite
from ..requests.retime_requests import RetimeFields, RetimeRequest, check_retiming
from ..requests.sequences import (
    OUTPUTS,
    ActionRequest,
    IntegratedBatch,
    RequestRules,
    SequenceFields,
    check_fields,
    check_sequence,
)
from ..requests.turning import turned_cost, unwrapped_request
from .beside import Findings
from .commands import Commands, Refuse
from .committed import Committed, CommittedFields, committed_rows
from .controller_reports import ControllerReport, ControllerReports, ControllerStatus
from .executable import ExecutableTrajectory
from .measured import JointStates
from .published import PublishedMotion
from .robot_clock import Stamps
from .trajectories import TrajectoryMaker

Result = TypeVar("Result")
Beside = Callable[[int, Callable[[], Result]], Result]
"""Does work on so many numbers, which needs nothing that others change, and returns its result."""
Warn = Callable[[Rejected], None]
"""Called with violations that are let through (limits.action = warn)."""
_TIMES_KEPT = 16


class Pipeline:
    """Answers requests; holds what they share: the engine, the latest joint state, and the last published motion.

    Args:
        parameters: the node's configuration.
        engine: for its device and dtype.
        published: the last published motion.
        warn: called with violations that are let through.
        refuse: called with plans that had to wait and were refused then; by default, `warn` is.
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
        beside: Beside = lambda size, work: work(),
    ) -> None:
        self._beside = beside
        self._findings = findings or Findings()
        self.joint_states = JointStates(parameters.joint_names)
        self.controller_reports = ControllerReports(parameters.joint_names)
        self.published = published
        self._warn = warn
        self.commands = Commands(self.joint_states, published, refuse or (lambda rejected, _: warn(rejected)))
        self.engine = engine
        self.reconfigure(parameters)

    def reconfigure(self, parameters: NodeParameters) -> None:
        """Continue with other parameters, for the same joints, device and dtype."""
        self.parameters = parameters
        self._rules = RequestRules(
            joint_names=parameters.joint_names,
            control_space=parameters.control_space,
            finite_difference=parameters.finite_difference,
            acceleration_integrator=parameters.acceleration_integrator,
            max_batch=parameters.max_batch,
            max_horizon=parameters.max_horizon,
            spline=SplineForm(parameters.bspline_degree, parameters.bspline_steps, parameters.bspline_layout),
        )
        # With equal steps, every batch has the same times.
        self._uniform_times = lru_cache(_TIMES_KEPT)(_times)
        self._limits = parameters.joint_limits
        self._findings.drop_all()
        self._trajectories = TrajectoryMaker(
            parameters, self._limits, self.joint_states, self.published, self._warn, self._findings
        )
        self.commands.reconfigure(parameters, self._trajectories)
        self.published.lead.configure(parameters)
        self.published.clock.lead_ns = self.published.lead.transport_ns

    def warm_up(self) -> None:
        """Make the first calls, of the configured map, in the sizes that the parameters name."""
        self.engine.warm_up(self._rules.maps[0], self._rules.dof, self.parameters.warmup)

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
        before = self.published.present.status
        self.published.present.take_report(report, now_ns)
        status = self.published.present.status
        if status is not before and status in (ControllerStatus.RESTARTED, ControllerStatus.OTHER):
            self.published.drop()

    def take_stamp(self, stamps: Stamps, stamp_ns: int, arrived_ns: int) -> None:
        """Take the stamp of a joint state or of a report, and when it arrived; see `RobotClock`."""
        if (step := self.published.clock.take(stamps, stamp_ns, arrived_ns)) is not None:
            self.joint_states.set_clock(step.read_ns)
            self.published.set_clock(step, self.published.clock.at(arrived_ns))

    def checked(self, fields: SequenceFields) -> ActionRequest:
        """Check an action sequence. Raises Rejected as `check_sequence`."""
        return check_sequence(fields, self._rules)

    def started(self, request: ActionRequest, now_ns: Callable[[], int]) -> Ends:
        """The start of a request: its own, or the robot's state. Raises Rejected as `start`."""
        return request.start if request.start.rows else request.start._replace(rows=self.start(now_ns()))

    def integrate(self, request: ActionRequest, start: Ends, wanted: int = 0) -> IntegratedBatch:
        """Integrate all trajectories of an action sequence.

        Args:
            request: the checked sequence.
            start: of the request, as from `started`.
            wanted: which outputs are wanted, as in `IntegratedBatch.fields`; 0 for all.

        Raises:
            Rejected: invalid_fields, non_finite_result or out_of_device_memory.

        """
        wanted = check_fields(wanted, "fields")
        request = unwrapped_request(request, start, self.parameters.continuous)
        return self._beside(_size(request), lambda: self._batch(request, self._integrated(request, start), wanted))

    def _integrated(self, request: ActionRequest, start: Ends) -> np.ndarray:
        return _computed(self.engine.integrate, request.call(start, self.parameters.dt))

    def _batch(self, request: ActionRequest, result: np.ndarray, wanted: int) -> IntegratedBatch:
        trajectories = _narrowed(result)
        if not all_finite(trajectories):
            for name, part in zip(Trajectory._fields, trajectories, strict=True):
                require_finite(name, part, RejectionReason.NON_FINITE_RESULT)
        dt = self.parameters.dt if request.dt is None else request.dt
        times = self._uniform_times if isinstance(dt, float) else _times
        return IntegratedBatch(request, trajectories, times(request.control_map, dt, request.horizon), wanted)

    def check_limits(self, batch: IntegratedBatch) -> None:
        """Check all rows of all trajectories of a batch against the limits.

        Raises:
            Rejected: limits_violated, unless limits.action is warn.

        """
        start_row = batch.request.control_map.start_row
        look = partial(find_violation, batch.trajectories, self._limits, start_row)
        violation = self._beside(_size(batch.request), look)
        self._trajectories.refuse_or_warn(violation)

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
        """Return the motion in execution at the times of a chunk that is being planned.

        Raises:
            Rejected: with the reason.

        """
        self.commands.check_clock(now_ns)
        fields = fields._replace(stamp_ns=self._by_robot(fields.stamp_ns))
        found = committed_rows(fields, self.parameters, self.published.present, self.joint_states, now_ns)
        return found._replace(now_ns=now_ns - self.published.clock.applied_ns)

    def retiming(self, fields: RetimeFields) -> RetimeRequest:
        """Check a request to retime paths or plans; its `answer` may take long.

        Raises:
            Rejected: with the reason.

        """
        parameters = self.parameters
        most = parameters.max_batch, parameters.max_horizon
        return check_retiming(fields, self._limits, self.assumed.bounds.jerk, most, parameters.continuous)

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
            plan = self._trajectories.without_start(plan, now_ns)
        return self.commands.in_time(plan, now_ns, clock)

    def gradient(self, fields: SequenceFields, upstream: UpstreamFields, update: Callable[[], int]) -> BatchGradient:
        """Check a request for a vector-Jacobian product and compute it.

        The maps are linear, so the start state is needed for the gradient of dt only, and not at all without data.

        Args:
            fields: the integrated trajectories.
            upstream: gradients with respect to the trajectory.
            update: brings the joint states up to date and returns the time, ns; called if a start state is needed.

        Raises:
            Rejected: with the reason.

        """
        request = check_sequence(fields, self._rules, data_optional=True)
        gradients = check_upstream(upstream, request)
        want_dt = request.actions is not None and request.dt is not None
        if want_dt:
            _require_dt_with_gradient(request, "leave data empty")
        start = self.started(request, update) if want_dt else request.start
        if want_dt:
            request = unwrapped_request(request, start, self.parameters.continuous)
        call = request.call(start, self.parameters.dt)._replace(upstream=gradients)
        return self._beside(
            _size(request), lambda: _arranged(request, _computed(self.engine.vjp, call, want_dt=want_dt))
        )

    def evaluate(self, fields: SequenceFields, asked: EvaluationFields, update: Callable[[], int]) -> EvaluatedBatch:
        """Check a request for the cost of a sequence and answer it.

        Args:
            fields: the sequence.
            asked: the cost, and which results are wanted.
            update: brings the joint states up to date and returns the time, ns; called if a start state is needed.

        Raises:
            Rejected: with the reason.

        """
        request = check_sequence(fields, self._rules)
        cost, limits = check_cost(asked, request, self._limits)
        rows = check_rows_wanted(asked.rows, request, limits)
        outputs = check_fields(asked.fields, "trajectory_fields")
        wanted = asked.wanted
        if wanted.dt and request.dt is None:
            wanted = wanted._replace(dt=False)
        if wanted.dt:
            _require_dt_with_gradient(request, "ask for none")
        start = self.started(request, update)
        answer = partial(self._evaluated, request, start, cost, wanted, limits, rows, outputs)
        return self._beside(_size(request), answer)

    def _evaluated(
        self,
        request: ActionRequest,
        start: Ends,
        cost: QuadraticCost,
        wanted: Wanted,
        limits: QuadraticCost | None,
        rows: np.ndarray,
        outputs: int,
    ) -> EvaluatedBatch:
        turning = self.parameters.continuous
        request = unwrapped_request(request, start, turning)
        cost = turned_cost(cost, lambda: self._integrated(request, start)[0], turning)
        costs, gradient = _computed(self.engine.evaluate, request.call(start, self.parameters.dt), cost, wanted)
        values = _narrowed(costs)
        require_finite("cost", values, RejectionReason.NON_FINITE_RESULT)
        arranged = _arranged(request, gradient)
        violations = ()
        if limits is not None:
            violations = self._violations(request, start, limits)
        trajectories = None
        if rows.size:
            some = rows_of_request(request._replace(start=start), rows)
            trajectories = self._batch(some, self._integrated(some, some.start), outputs)
        return EvaluatedBatch(values, arranged, trajectories, violations)

    def _violations(self, request: ActionRequest, start: Ends, limits: QuadraticCost) -> tuple[np.ndarray | None, ...]:
        """By how much all trajectories exceed limits. Raises Rejected: non_finite_result."""
        found = violations_of(self._integrated(request, start), limits)
        arranged = []
        for name, values in zip(OUTPUTS, found, strict=True):
            if values is None:
                arranged.append(None)
                continue
            narrowed = _narrowed(values)
            if not all_finite(narrowed):  # -inf where nothing is limited
                checked = np.where(np.isneginf(values), 0, narrowed)
                require_finite(f"violation_{name}", checked, RejectionReason.NON_FINITE_RESULT)
            arranged.append(request.columns.out_of_node(narrowed))
        return tuple(arranged)

    def start(self, now_ns: int) -> tuple[np.ndarray, ...]:
        """Return the start state for input without one: position, velocity and perhaps acceleration, `[1, dof]`.

        Args:
            now_ns: the node's clock.

        Raises:
            Rejected: no_joint_state, state_too_old or clock_jumped_back.

        """
        self.commands.check_clock(now_ns)
        state = self._trajectories.predicted(now_ns)
        if state is None:
            measured = self.joint_states.latest(now_ns, self.parameters.state_timeout)
            state = measured.position, measured.velocity
        # In the engine's type at once: the C++ loops read that in place.
        return tuple(values[None].astype(self.parameters.dtype) for values in state)


def _size(request: ActionRequest) -> int:
    return request.batch * request.output_horizon * len(request.columns.names)


def _times(control_map: ControlMap, dt: float | np.ndarray, horizon: int) -> np.ndarray:
    return _narrowed(time_from_start(control_map, step_lengths(dt), horizon))


def _arranged(request: ActionRequest, gradient: Gradient) -> BatchGradient:
    """Gradients as float32, columns in the request's order. Raises Rejected: non_finite_result."""
    parts = {"action": gradient.action, "dt": gradient.dt}
    for end, rows in (("start", gradient.start), ("goal", gradient.goal)):
        parts |= {f"{end}_{part}": values for part, values in zip(OUTPUTS, rows or (), strict=False)}
    found = {name: _narrowed(part) for name, part in parts.items() if part is not None}
    for name, part in found.items():
        require_finite(f"grad_{name}", part, RejectionReason.NON_FINITE_RESULT)
    return BatchGradient(
        **{name: part if name == "dt" else request.columns.out_of_node(part) for name, part in found.items()}
    )


def _require_dt_with_gradient(request: ActionRequest, instead: str) -> None:
    if request.control_map.uniform_dt_only and request.dt_length != np.size(request.dt):
        raise Rejected(
            RejectionReason.SIZE_MISMATCH,
            f"dt: {request.control_map.name} has a gradient for one step length of each trajectory, got "
            f"{request.dt_length} values; give one, or {request.batch} with dt_per: DT_PER_TRAJECTORY, or {instead}",
        )


def _computed(compute: Callable[..., Result], *arguments: object, **options: object) -> Result:
    """What the engine computes. Raises Rejected: out_of_device_memory."""
    try:
        return compute(*arguments, **options)
    except OutOfDeviceMemory as error:
        raise Rejected(RejectionReason.OUT_OF_DEVICE_MEMORY, f"batch: {error}") from error


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Return a result as float32, as messages have it; values that are too large become infinite."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
