"""The node's processing from checked arrays to results: start state, engine, limits. Knows no ROS."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..engine.composed import violations_of
from ..engine.integrator import OutOfDeviceMemory, StartState, TrajectoryIntegrator
from ..execution.native import all_finite
from ..kernels import QuadraticCost, SplineForm, Trajectory
from .assumed import AssumedLimits
from .chunks import Weighing
from .committed import Committed, CommittedFields, committed_rows
from .controller_reports import ControllerReports
from .evaluation import (
    OUTPUTS,
    EvaluationFields,
    check_cost,
    check_fields,
    check_rows_wanted,
    rows_of_request,
)
from .limits import find_violation
from .parameter_table import ACTION_WARN, ENSEMBLE_WEIGHTED, HEAVIEST_NEWEST, START_FROM_PREVIOUS
from .parameters import NodeParameters
from .plan import Plan, plan_of_sequence
from .position_trajectory import PositionFields, plan_of_positions
from .present import ControllerReport, ControllerStatus, NotYet
from .published import ExecutableTrajectory, PublishedMotion
from .rejection import Rejected, RejectionReason, require_finite
from .requests import ActionRequest, RequestRules, SequenceFields, UpstreamFields, check_sequence, check_upstream
from .results import NO_GRADIENT, BatchGradient, EvaluatedBatch, IntegratedBatch
from .retime_requests import RetimeFields, RetimeRequest, check_retiming
from .start_states import JointStates
from .trajectories import TrajectoryMaker

Warn = Callable[[Rejected], None]
"""Called with violations that are let through (limits.action = warn)."""
Refuse = Callable[[Rejected, Plan], None]
"""Called with plans that were accepted, had to wait, and were refused then."""
_MAKING = 2.0
"""Times that it took to make a trajectory, which making it once more may take."""
_SPARE_NS = 5_000_000
"""Before it is due, a trajectory that was slowed has to have been made: it takes about as long as the lead."""
_TRIES = 3
"""Times that a trajectory that is slowed is made once more."""
_TIMES_KEPT = 16
_END_FIELDS = tuple(f"{end}_{part}" for end in ("start", "goal") for part in ("position", "velocity", "acceleration"))
_GRADIENT_FIELDS = ("grad_action", *(f"grad_{name}" for name in _END_FIELDS))


class Pipeline:
    """Answers requests; holds what they share: the engine, the latest joint state, and the last published motion.

    Args:
        parameters: the node's configuration.
        engine: built from it.
        published: the last published motion.
        warn: called with violations that are let through.
        refuse: called with plans that had to wait and were refused then; by default, `warn` is.

    """

    def __init__(
        self,
        parameters: NodeParameters,
        engine: TrajectoryIntegrator,
        published: PublishedMotion,
        warn: Warn,
        refuse: Refuse | None = None,
    ) -> None:
        self.joint_states = JointStates(parameters.joint_names)
        self.controller_reports = ControllerReports(parameters.joint_names)
        self.published = published
        self._warn = warn
        self._refuse = refuse or (lambda rejected, _: warn(rejected))
        self._waiting: Plan | None = None
        self.reconfigure(parameters, engine)

    def reconfigure(self, parameters: NodeParameters, engine: TrajectoryIntegrator) -> None:
        """Continue with other parameters, for the same joints, and the engine for them."""
        self.parameters = parameters
        self.engine = engine
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
        self._uniform_times = lru_cache(_TIMES_KEPT)(
            lambda dt, horizon, space, spline: _narrowed(engine.time_from_start(dt, 1, horizon, space, spline))
        )
        self._limits = parameters.joint_limits
        self._weighing = None
        if parameters.chunks_ensemble == ENSEMBLE_WEIGHTED:
            self._weighing = Weighing(parameters.chunks_decay, parameters.chunks_heaviest == HEAVIEST_NEWEST)
        self._trajectories = TrajectoryMaker(parameters, self._limits, self.joint_states, self.published, self._warn)

    def take_joint_state(
        self, names: Sequence[str], position: np.ndarray, velocity: np.ndarray, stamp_ns: int, now_ns: int
    ) -> None:
        """Take a joint state; arguments and errors as for `JointStates.update`."""
        try:
            taken = self.joint_states.update(names, position, velocity, stamp_ns, now_ns)
        finally:
            if self.joint_states.jumped_back:
                self.published.clear()
        if taken:
            self._supervise(now_ns)

    def _supervise(self, now_ns: int) -> None:
        """Compare the latest joint state with what was commanded then."""
        state = self.joint_states.latest(now_ns, 0.0)
        self.published.history.measured(state.stamp_ns, state.position, state.velocity)
        position = state.position
        turning = self.parameters.continuous
        if turning.any():
            commanded = self.published.present.commanded(state.stamp_ns)
            if commanded is not None:
                turns = np.rint((commanded.position - position) / (2 * np.pi))
                position = position + np.where(turning, 2 * np.pi * turns, 0.0)
        self.published.guard.take(position, state.velocity, state.stamp_ns, self.published.present.commanded)

    def take_controller_state(self, report: ControllerReport, now_ns: int) -> None:
        """Take what the controller says about itself, in the node's joint order."""
        before = self.published.present.status
        self.published.present.take_report(report, now_ns)
        status = self.published.present.status
        if status is not before and status in (ControllerStatus.RESTARTED, ControllerStatus.OTHER):
            self.published.drop()

    def integrate(self, fields: SequenceFields, now_ns: int, wanted: int = 0) -> IntegratedBatch:
        """Check and integrate an action sequence.

        Args:
            fields: the sequence.
            now_ns: the node's clock.
            wanted: which outputs are wanted, as in `IntegratedBatch.fields`; 0 for all.

        Raises:
            Rejected: with the reason.

        """
        request = check_sequence(fields, self._rules)
        wanted = check_fields(wanted, "fields")
        self._check_clock(now_ns)
        start = self.start(now_ns) if request.start is None else request.start
        return self._batch(request, self._integrated(request, start), wanted)

    def _integrated(self, request: ActionRequest, start: StartState) -> np.ndarray:
        with _device_memory:
            return self.engine.integrate_array(
                start,
                request.actions,
                request.dt,
                **request.map_and_rows,
            )

    def _batch(self, request: ActionRequest, result: np.ndarray, wanted: int) -> IntegratedBatch:
        trajectories = _narrowed(result)
        _require_finite_result(trajectories, Trajectory._fields, trajectories)
        return IntegratedBatch(request, trajectories, self._times(request), wanted)

    def check_limits(self, batch: IntegratedBatch) -> None:
        """Check all rows of all trajectories of a batch against the limits.

        Raises:
            Rejected: limits_violated, if limits.action is reject.

        """
        start_row = batch.request.control_map.start_row
        if self._limits.surely_kept(batch.trajectories, start_row):
            return
        violation = find_violation(Trajectory(*batch.trajectories), self._limits, start_row)
        if violation is None:
            return
        finding = Rejected(RejectionReason.LIMITS, str(violation))
        if self.parameters.limits_action != ACTION_WARN:
            raise finding
        self._warn(finding)

    def trajectory(
        self, batch: IntegratedBatch, stamp_ns: int, now_ns: int, clock: Callable[[], int] | None = None
    ) -> ExecutableTrajectory | None:
        """Make the trajectory to publish from a batch: that of row publish.row.

        Args:
            batch: what was integrated.
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
        plan = self._plan_of(batch, stamp_ns)
        self._require_newer(plan, now_ns)
        return self._in_time(plan, now_ns, clock)

    def _plan_of(self, batch: IntegratedBatch, stamp_ns: int) -> Plan:
        """The trajectory of a batch that is published. Raises Rejected: size_out_of_range."""
        row = self.parameters.publish_row
        if row >= batch.request.batch:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE,
                f"batch: expected at least {row + 1}, so that there is row {row} (parameter publish.row), "
                f"got {batch.request.batch}",
            )
        origin_ns = stamp_ns if self.parameters.start_from == START_FROM_PREVIOUS else 0
        return plan_of_sequence(batch.request, row, self.parameters.dt, origin_ns, stamp_ns)

    def _require_newer(self, plan: Plan, now_ns: int, *, count: bool = True) -> None:
        """Refuse a plan that is older than the one in execution. Raises Rejected: stale_sequence."""
        if self.published.is_older(plan.origin_ns, count=count):
            raise Rejected(
                RejectionReason.STALE_SEQUENCE,
                f"header.stamp: began {(now_ns - plan.origin_ns) * 1e-9:.3f} s ago, before the sequence in execution",
            )

    def _in_time(
        self, plan: Plan, now_ns: int, clock: Callable[[], int] | None = None
    ) -> ExecutableTrajectory | None:
        """The trajectory of a plan, or None if it has to wait; then it replaces another one that waits.

        If it is due when it has been made, it is made once more; one that is slowed takes as long then, or longer.
        """
        self._require_following(now_ns)
        try:
            trajectory = self._executable(plan, now_ns)
            tries = _TRIES
            while tries and clock is not None:
                later_ns = clock()
                if trajectory.due_ns >= later_ns + (_SPARE_NS if trajectory.delay else 0):
                    break
                making = _MAKING * (later_ns - now_ns) * 1e-9 if trajectory.delay else 0.0
                trajectory = self._executable(replace(plan, making=making), later_ns)
                now_ns, tries = later_ns, tries - 1 if trajectory.delay else 0
        except NotYet as later:
            self._supersede()
            self._waiting = plan
            return later.meanwhile
        self._supersede()
        return trajectory

    def _supersede(self) -> None:
        self._refuse_waiting(Rejected(RejectionReason.SUPERSEDED, "sequence: a newer one came before it was begun"))

    def _refuse_waiting(self, rejected: Rejected) -> None:
        plan, self._waiting = self._waiting, None
        if plan is not None:
            self._refuse(rejected, plan)

    def deactivate(self) -> None:
        """Refuse what waits: it must not be begun when the node is active again."""
        self._refuse_waiting(Rejected(RejectionReason.NOT_ACTIVE, "node: deactivated before the sequence was begun"))

    def require_publishable(self, batch: IntegratedBatch, stamp_ns: int, now_ns: int) -> None:
        """Check that a trajectory could be published from a batch now; nothing is changed.

        Raises:
            Rejected: as `trajectory`.

        """
        plan = self._plan_of(batch, stamp_ns)
        self._require_newer(plan, now_ns, count=False)
        self._require_following(now_ns)
        with contextlib.suppress(NotYet), self.published.guard.unchanged():
            self._executable(plan, now_ns)

    def _require_following(self, now_ns: int) -> None:
        """Refuse sequences while the robot is, or was, braked.

        Raises:
            Rejected: deviation or stopped.

        """
        guard = self.published.guard
        if guard.held or guard.stopped_until_rest:
            held = "and holds until it is released (~/stop with hold: false)" if guard.held else "and is not over"
            raise Rejected(RejectionReason.STOPPED, f"node: a stop was requested {held}")
        if guard.reason:
            raise self._braked()

    def _braked(self) -> Rejected:
        guard = self.published.guard
        reason = RejectionReason.DEVIATION if guard.joint >= 0 else RejectionReason.STATE_TOO_OLD
        return Rejected(reason, f"node: {guard.reason}; rejecting until the robot rests")

    def tick(self, now_ns: int, clock: Callable[[], int] | None = None) -> ExecutableTrajectory | None:
        """Supervise: return a trajectory to publish at once, a brake or one that had to wait, or None.

        Called every few milliseconds, also while nothing arrives; `clock` is that of `trajectory`.
        """
        published, guard = self.published, self.published.guard
        self._check_clock(now_ns)
        moving = published.is_moving(now_ns)
        if guard.stopped_until_rest and not moving:
            guard.stopped_until_rest = False
        away = not published.present.reports and guard.exceeded(self.parameters.supervision_deviation) is not None
        if guard.reason and not moving and guard.rests(now_ns, away):
            guard.recover()
            if away:  # whatever the controller holds: the next motion begins where the robot is
                published.drop()
        if published.present.is_silent(now_ns):
            return None  # the controller is off: a message now would be executed from its middle when it is back
        if not guard.reason:
            reason, joint = self._why_brake(now_ns, moving, away)
            if reason:
                guard.brake(reason, joint)
                self._refuse_waiting(self._braked())
                return self._stopped(now_ns) if moving else None
        if guard.stop_waits and not guard.reason:
            return self._stopped(now_ns)
        if self._waiting is None:
            return None
        plan, self._waiting = self._waiting, None
        try:
            return self._in_time(plan, now_ns, clock)
        except Rejected as rejected:
            self._refuse(rejected, plan)
            return None

    def _why_brake(self, now_ns: int, moving: bool, away: bool) -> tuple[str, int]:
        """Why the robot is to be braked, and the joint; empty if it is not."""
        age, timeout = self.joint_states.age_s(now_ns), self.parameters.state_timeout
        if moving and timeout > 0 and age is not None and age > timeout:
            return f"joint states ended {age:.3f} s ago, expected at most {timeout:g} s (parameter state_timeout)", -1
        allowed = self.parameters.supervision_deviation
        joint = self.published.guard.exceeded(allowed) if moving or away else None
        if joint is None:
            return "", -1
        deviation = self.published.guard.deviation[joint]
        return (
            f"{self.parameters.joint_names[joint]} is {deviation:.4g} away from its command, "
            f"expected at most {allowed:g} (parameter supervision.deviation)",
            joint,
        )

    def stop(self, now_ns: int, hold: bool = False) -> ExecutableTrajectory | None:
        """Return the fastest stop from the present command; None if nothing moves, or if `tick` will return it.

        Sequences are rejected until the robot rests, or with `hold` until `release`.
        """
        guard = self.published.guard
        guard.held = hold
        self._refuse_waiting(Rejected(RejectionReason.STOPPED, "node: stopped before the sequence was begun"))
        if not self.published.is_moving(now_ns) and not self.published.present.may_move():
            return None
        guard.stopped_until_rest = True
        return self._stopped(now_ns)

    def awaited_stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the stop that `tick` will return once the controller is at the first point of a motion; or None."""
        if not self.published.guard.stop_waits:
            return None
        try:
            return self._trajectories.stop(now_ns)
        except NotYet as later:
            return self._trajectories.stop(later.until_ns) if later.until_ns else None

    def committed(self, fields: CommittedFields, now_ns: int) -> Committed:
        """Return the motion in execution at the times of a chunk that is being planned.

        Raises:
            Rejected: with the reason.

        """
        self._check_clock(now_ns)
        published = self.published
        return committed_rows(fields, self.parameters, published.present, published.history, self.joint_states, now_ns)

    def retiming(self, fields: RetimeFields) -> RetimeRequest:
        """Check a request to retime paths or plans; its `answer` may take long.

        Raises:
            Rejected: with the reason.

        """
        parameters = self.parameters
        most = parameters.max_batch, parameters.max_horizon
        return check_retiming(fields, self._limits, self.assumed.bounds.jerk, most)

    @property
    def assumed(self) -> AssumedLimits:
        """The limits of joins and brakes, and which of them nobody gave."""
        return self._trajectories.assumed

    def release(self) -> None:
        """Take sequences again after a stop that was to hold."""
        self.published.guard.held = False

    def _stopped(self, now_ns: int) -> ExecutableTrajectory | None:
        guard = self.published.guard
        try:
            stop = self._trajectories.stop(now_ns)
        except NotYet:
            guard.stop_waits = True
            return None
        guard.stop_waits = False
        return stop

    def _executable(self, plan: Plan, now_ns: int) -> ExecutableTrajectory:
        if self._weighing is not None and plan.is_chunk:
            return self._ensembled(plan, self._weighing, now_ns)
        return self._trajectories.trajectory(plan, now_ns)

    def _ensembled(self, chunk: Plan, weighing: Weighing, now_ns: int) -> ExecutableTrajectory:
        averaged = self.published.chunks.averaged(chunk, weighing)
        return replace(self._trajectories.trajectory(averaged, now_ns), chunk=chunk)

    def position_trajectory(
        self, fields: PositionFields, now_ns: int, clock: Callable[[], int] | None = None
    ) -> ExecutableTrajectory | None:
        """Check positions and times, and make the trajectory through them; if it has to wait, a stop or None.

        `clock` is that of `trajectory`.

        Raises:
            Rejected: with the reason.

        """
        self._check_clock(now_ns)
        plan = plan_of_positions(fields, self.parameters.joint_names, self.parameters.max_horizon, now_ns)
        if plan.untimed:
            plan = self._trajectories.without_start(plan, now_ns)
        return self._in_time(plan, now_ns, clock)

    def gradient(self, fields: SequenceFields, upstream: UpstreamFields, update: Callable[[], int]) -> BatchGradient:
        """Check a request for a vector-Jacobian product and compute it.

        The maps are linear, so the start state is needed for the gradient of dt only, and not at all without data.

        Args:
            fields: what was integrated.
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
        start = self.start(update()) if want_dt and request.start is None else request.start
        with _device_memory:
            result = self.engine.vjp_arrays(
                start,
                gradients,
                actions=request.actions,
                batch=request.batch,
                action_horizon=request.horizon,
                dt=request.dt,
                **request.map_and_rows,
                want_dt=want_dt,
            )
        gradients_of = {name: getattr(result, name.removeprefix("grad_")) for name in _GRADIENT_FIELDS}
        narrowed = {name: _narrowed(values) for name, values in gradients_of.items() if values is not None}
        _require_finite_result(_narrowed(result.values), tuple(narrowed), narrowed.values())
        dt = NO_GRADIENT
        if result.dt is not None:
            dt = _narrowed(result.dt)
            require_finite("grad_dt", dt, RejectionReason.NON_FINITE_RESULT)
        arranged = {name.removeprefix("grad_"): request.columns.out_of_node(value) for name, value in narrowed.items()}
        return BatchGradient(**arranged, dt=dt)

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
        start = self.start(update()) if request.start is None else request.start
        with _device_memory:
            result = self.engine.evaluate(
                start,
                request.actions,
                cost,
                request.dt,
                **request.map_and_rows,
                wanted=wanted,
            )
        values = _narrowed(result.cost)
        require_finite("cost", values, RejectionReason.NON_FINITE_RESULT)
        parts = {"action": result.action, "dt": result.dt}
        for names, rows_of_end in ((_END_FIELDS[:3], result.start), (_END_FIELDS[3:], result.goal)):
            if rows_of_end is not None:
                parts |= dict(zip(names, rows_of_end, strict=False))
        found = {}
        for name, part in parts.items():
            if part is not None:
                narrowed = _narrowed(part)
                require_finite(f"grad_{name}", narrowed, RejectionReason.NON_FINITE_RESULT)
                found[name] = narrowed if name == "dt" else request.columns.out_of_node(narrowed)
        violations = ()
        if limits is not None:
            violations = self._violations(request, start, limits)
        trajectories = None
        if rows.size:
            some = rows_of_request(request, rows)
            result = self._integrated(some, start if some.start is None else some.start)
            trajectories = self._batch(some, result, outputs)
        return EvaluatedBatch(values, BatchGradient(**found), trajectories, violations)

    def _violations(
        self, request: ActionRequest, start: StartState, limits: QuadraticCost
    ) -> tuple[np.ndarray | None, ...]:
        """By how much all trajectories exceed limits. Raises Rejected: non_finite_result."""
        found = violations_of(self._integrated(request, start), limits)
        arranged = []
        for name, values, term in zip(OUTPUTS, found, limits.outputs, strict=True):
            if values is None:
                arranged.append(None)
                continue
            narrowed = _narrowed(values)
            if not all_finite(narrowed):
                unlimited = np.isinf(term.lower) & np.isinf(term.upper) & np.isneginf(narrowed)
                checked = np.where(unlimited, 0, narrowed)
                require_finite(f"violation_{name}", checked, RejectionReason.NON_FINITE_RESULT)
            arranged.append(request.columns.out_of_node(narrowed))
        return tuple(arranged)

    def start(self, now_ns: int) -> StartState:
        """Return the start state for input without one, rows `[1, dof]`.

        Args:
            now_ns: the node's clock.

        Raises:
            Rejected: no_joint_state, state_too_old or clock_jumped_back.

        """
        self._check_clock(now_ns)
        state = self._trajectories.predicted(now_ns)
        if state is None:
            measured = self.joint_states.latest(now_ns, self.parameters.state_timeout)
            state = measured.position, measured.velocity
        # In the engine's type at once: the C++ loops read that in place.
        return StartState(*(values[None].astype(self.engine.config.dtype) for values in state))

    def _check_clock(self, now_ns: int) -> None:
        """Forget states that were measured, and motions that were published, later than now."""
        self.joint_states.check_clock(now_ns)
        if self.published.check_clock(now_ns):
            self.joint_states.drop_for_jump()
        if self.joint_states.jumped_back:
            self.published.clear()

    def _times(self, request: ActionRequest) -> np.ndarray:
        space, spline = request.control_map.control_space, request.spline
        if request.dt is None or isinstance(request.dt, float):
            return self._uniform_times(request.dt, request.horizon, space, spline)
        return _narrowed(self.engine.time_from_start(request.dt, request.batch, request.horizon, space, spline))


def _require_dt_with_gradient(request: ActionRequest, instead: str) -> None:
    if request.control_map.uniform_dt_only and request.dt_length != np.size(request.dt):
        raise Rejected(
            RejectionReason.SIZE_MISMATCH,
            f"dt: {request.control_map.name} has a gradient for one step length only, got {request.dt_length} "
            f"values; give one, or {instead}",
        )


class _DeviceMemory:
    """Turns the engine's out-of-memory error into a rejection."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OutOfDeviceMemory):
            raise Rejected(RejectionReason.OUT_OF_DEVICE_MEMORY, f"batch: {error}") from error


_device_memory = _DeviceMemory()


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Return a result as float32, as messages have it; values that are too large become infinite."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _require_finite_result(values: np.ndarray, names: Sequence[str], parts: Iterable[np.ndarray]) -> None:
    """Check all `values` at once, and only if that fails their named parts, in order to say which one it is."""
    if not all_finite(values):
        for name, part in zip(names, parts, strict=True):
            require_finite(name, part, RejectionReason.NON_FINITE_RESULT)
