"""What the node does with input, from checked arrays to results: start state, engine, limits. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .finite import require_finite
from .integrator import OutOfDeviceMemory, StartState, TrajectoryIntegrator
from .joint_trajectory import TimedPoints, publishable_points
from .kernels import Trajectory
from .limits import JointLimits, find_violation
from .parameters import ACTION_REJECT, START_FROM_PREVIOUS, NodeParameters
from .position_trajectory import PositionFields, check_positions, differentiate
from .rejection import Rejected, RejectionReason
from .requests import (
    ActionRequest,
    RequestRules,
    SequenceFields,
    UpstreamFields,
    check_sequence,
    check_upstream,
)
from .start_states import JointStates, MeasuredState, PublishedTrajectory

Warn = Callable[[Rejected], None]
"""Takes what was found wrong but let through (limits.action = warn)."""


@dataclass(frozen=True)
class IntegratedBatch:
    """All trajectories of one sequence, in the node's joint order.

    The arrays are views of the engine's buffers, overwritten by its next integration.
    """

    request: ActionRequest
    trajectory: Trajectory
    """float32 arrays `[batch, output horizon, dof]`."""
    time_s: np.ndarray
    """s from the start state, float64: `[output horizon]`, or `[batch, output horizon]`."""


class BatchGradient(NamedTuple):
    """Gradients in the order of the request's columns; float32 arrays."""

    action: np.ndarray
    start_position: np.ndarray
    start_velocity: np.ndarray
    start_acceleration: np.ndarray
    dt: np.ndarray


class Pipeline:
    """Holds what requests share (engine, latest joint state, last published trajectory) and answers them.

    Args:
        parameters: the node's configuration.
        engine: built from it.
        warn: called with violations that are let through.

    """

    def __init__(self, parameters: NodeParameters, engine: TrajectoryIntegrator, warn: Warn) -> None:
        self.joint_states = JointStates(parameters.joint_names)
        self.published = PublishedTrajectory()
        self._warn = warn
        self.reconfigure(parameters, engine)

    def reconfigure(self, parameters: NodeParameters, engine: TrajectoryIntegrator) -> None:
        """Go on with other parameters (the same joints) and the engine that belongs to them."""
        self.parameters = parameters
        self.engine = engine
        self._rules = RequestRules(
            joint_names=parameters.joint_names,
            control_space=parameters.control_space,
            finite_difference=parameters.finite_difference,
            acceleration_integrator=parameters.acceleration_integrator,
            max_batch=parameters.max_batch,
            max_horizon=parameters.max_horizon,
        )
        self._limits = JointLimits(
            parameters.joint_names,
            parameters.limits_position_min,
            parameters.limits_position_max,
            parameters.limits_velocity,
            parameters.limits_acceleration,
            parameters.limits_jerk,
        )

    def take_joint_state(
        self, names: Sequence[str], position: np.ndarray, velocity: np.ndarray, stamp_ns: int, now_ns: int
    ) -> None:
        """Take a joint state; arguments and errors as of `JointStates.update`."""
        try:
            self.joint_states.update(names, position, velocity, stamp_ns, now_ns)
        finally:
            if self.joint_states.jumped_back:
                self.published.clear()

    def integrate(self, fields: SequenceFields, now_ns: int) -> IntegratedBatch:
        """Check and integrate an action sequence.

        Raises:
            Rejected: with the reason.

        """
        request = check_sequence(fields, self._rules)
        start = self._start(now_ns) if request.start is None else request.start
        space = request.control_map.control_space
        with _device_memory():
            result = self.engine.integrate(
                start, request.actions, request.dt, control_space=space, start_index=request.start_index
            )
        trajectory = Trajectory(*(_float32(name, tensor.numpy()) for name, tensor in result._asdict().items()))
        time_s = self.engine.time_from_start(request.dt, request.batch, request.horizon, space)
        return IntegratedBatch(request, trajectory, time_s)

    def check_limits(self, batch: IntegratedBatch) -> None:
        """Check all trajectories of a batch against the limits.

        Raises:
            Rejected: limits_violated, where limits.action is reject.

        """
        self._judge_limits(batch.trajectory, batch.request.control_map.start_row)

    def points_to_publish(self, batch: IntegratedBatch, now_ns: int) -> TimedPoints:
        """Check the row publish.row against limits and robot, and arrange it for the controller.

        Raises:
            Rejected: size_out_of_range (there is no such row), limits_violated, start_mismatch or invalid_times.

        """
        row = self.parameters.publish_row
        if row >= batch.request.batch:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE,
                f"batch: expected at least {row + 1}, so that there is row {row} (parameter publish.row), "
                f"got {batch.request.batch}",
            )
        start_row = batch.request.control_map.start_row
        trajectory = Trajectory(*(values[row : row + 1] for values in batch.trajectory))
        self._judge_limits(trajectory, start_row, row)
        self._judge_start(batch.trajectory.position[row, start_row], now_ns)
        time_s = batch.time_s if batch.time_s.ndim == 1 else batch.time_s[row]
        return self._publishable(time_s, trajectory)

    def position_trajectory(self, fields: PositionFields, now_ns: int) -> TimedPoints:
        """Check and differentiate positions and times.

        Raises:
            Rejected: with the reason.

        """
        parameters = self.parameters
        checked = check_positions(fields, parameters.joint_names, parameters.max_horizon, now_ns)
        result = differentiate(*checked, self._start(now_ns))
        trajectory = Trajectory(*(values[None] for values in result.trajectory))
        for name, values in zip(trajectory._fields, trajectory, strict=True):
            require_finite(name, values, RejectionReason.NON_FINITE_RESULT)
        self._judge_limits(trajectory, 0)
        self._judge_start(trajectory.position[0, 0], now_ns)
        return self._publishable(result.time_s, trajectory)

    def gradient(self, fields: SequenceFields, upstream: UpstreamFields, now_ns: int) -> BatchGradient:
        """Check a request for a vector-Jacobian product and compute it.

        The maps are linear, so the start state counts for the gradient of dt alone: without data, none is needed.

        Raises:
            Rejected: with the reason.

        """
        request = check_sequence(fields, self._rules, data_optional=True)
        gradients = check_upstream(upstream, request)
        want_dt = request.actions is not None and request.dt is not None
        if want_dt and request.control_map.uniform_dt_only and request.dt_length != np.size(request.dt):
            raise Rejected(
                RejectionReason.SIZE_MISMATCH,
                f"dt: {request.control_map.name} has a gradient for one step length only, got {request.dt_length} "
                "values; give one, or leave data empty",
            )
        if request.start is not None:
            start = request.start
        else:
            start = self._start(now_ns) if want_dt else _rest(len(self.parameters.joint_names))
        with _device_memory():
            result = self.engine.vjp(
                start,
                gradients,
                actions=request.actions,
                batch=request.batch,
                action_horizon=request.horizon,
                dt=request.dt,
                control_space=request.control_map.control_space,
                start_index=request.start_index,
                want_dt=want_dt,
            )
        columns = request.columns
        arranged = [
            columns.out_of_node(_float32(f"grad_{name}", tensor.numpy()))
            for name, tensor in zip(result._fields[:4], result[:4], strict=True)
        ]
        dt = np.zeros(0, np.float32) if result.dt is None else _float32("grad_dt", result.dt.numpy())
        return BatchGradient(*arranged, dt)

    def _start(self, now_ns: int) -> StartState:
        """Start state of input that brings none, rows `[1, dof]`."""
        self.joint_states.check_clock(now_ns)
        if self.joint_states.jumped_back:
            self.published.clear()
        if self.parameters.start_from == START_FROM_PREVIOUS:
            predicted = self.published.state_at(now_ns)
            if predicted is not None:
                return predicted
        state = self.joint_states.latest(now_ns, self.parameters.state_timeout)
        return StartState(state.position[None], state.velocity[None])

    def _judge_limits(self, trajectory: Trajectory, start_row: int, row: int = 0) -> None:
        violation = find_violation(trajectory, self._limits, start_row)
        if violation is not None:
            self._judge(Rejected(RejectionReason.LIMITS, str(replace(violation, row=violation.row + row))))

    def _judge_start(self, position: np.ndarray, now_ns: int) -> None:
        """Compare the start `[dof]` of a trajectory to be published with where the robot is, if that is known."""
        tolerance = self.parameters.limits_start_deviation
        measured = self._measured(now_ns)
        if tolerance <= 0 or measured is None:
            return
        deviation = np.abs(position - measured.position)
        joint = int(deviation.argmax())
        if deviation[joint] > tolerance:
            self._judge(
                Rejected(
                    RejectionReason.START_MISMATCH,
                    f"start.position of {self.parameters.joint_names[joint]}: expected within {tolerance:g} "
                    f"(parameter limits.start_deviation) of the measured {measured.position[joint]:.6g}, "
                    f"got {position[joint]:.6g}",
                )
            )

    def _measured(self, now_ns: int) -> MeasuredState | None:
        try:
            return self.joint_states.latest(now_ns, self.parameters.state_timeout)
        except Rejected:
            return None

    def _judge(self, finding: Rejected) -> None:
        if self.parameters.limits_action == ACTION_REJECT:
            raise finding
        self._warn(finding)

    def _publishable(self, time_s: np.ndarray, trajectory: Trajectory) -> TimedPoints:
        return publishable_points(
            time_s,
            trajectory.position[0],
            trajectory.velocity[0],
            trajectory.acceleration[0],
            end=self.parameters.publish_end,
            rest_tolerance=self.parameters.publish_rest_tolerance,
        )


@contextmanager
def _device_memory() -> Iterator[None]:
    """Turn the engine's out-of-memory error into a rejection."""
    try:
        yield
    except OutOfDeviceMemory as error:
        raise Rejected(RejectionReason.OUT_OF_DEVICE_MEMORY, f"batch: {error}") from error


def _rest(dof: int) -> StartState:
    return StartState(np.zeros((1, dof), np.float32))


def _float32(name: str, values: np.ndarray) -> np.ndarray:
    """Narrow a result to what messages carry and check that nothing overflowed."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32, copy=False)
    require_finite(name, narrow, RejectionReason.NON_FINITE_RESULT)
    return narrow
