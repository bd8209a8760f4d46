"""Why input is rejected: the reasons, the exception that carries one, and checks that many kinds of input share."""

from __future__ import annotations

from enum import Enum

import numpy as np

DT_MIN_S = 1e-6
"""Shortest time step, s: messages count whole nanoseconds."""
DT_MAX_S = 1e4
"""Longest time step, s: messages count up to 2^31 s."""
DT_PER_STEP = 0
"""Constant of ActionSequence: dt has a value for each step."""
DT_PER_TRAJECTORY = 1
"""Constant of ActionSequence: dt has a value for each trajectory."""
_SHOWN_CHARACTERS = 60
_SHOWN_ESCAPED = 2 * _SHOWN_CHARACTERS
"""Largest number of characters of a shown value with escapes, of which one may take ten characters."""


class RejectionReason(str, Enum):
    """The reasons for which input is dropped (topics) or answered with success = false (services)."""

    NOT_ACTIVE = "not_active"
    NO_JOINT_STATE = "no_joint_state"
    STATE_TOO_OLD = "state_too_old"
    CLOCK_JUMPED_BACK = "clock_jumped_back"
    CONTRADICTORY_STATE = "contradictory_state"
    """A joint state is impossible after the one before it, or two publishers contradict each other."""
    JOINT_MISSING = "joint_missing"
    UNKNOWN_JOINT = "unknown_joint"
    DUPLICATE_JOINT = "duplicate_joint"
    JOINT_COUNT = "joint_count"
    """The number of names differs from the dof, or from the number of values given for them."""
    SIZE_MISMATCH = "size_mismatch"
    """Batch, horizon and the length of an array contradict each other."""
    SIZE_OUT_OF_RANGE = "size_out_of_range"
    """A size is 0, or above its maximum."""
    NOT_FINITE = "not_finite"
    INVALID_DT = "invalid_dt"
    INVALID_TIMES = "invalid_times"
    """Times of a position trajectory are negative, do not increase, or are all in the past."""
    STALE_SEQUENCE = "stale_sequence"
    """All steps of a sequence are over by the time its trajectory could start."""
    FUTURE_SEQUENCE = "future_sequence"
    """The first step begins too far ahead, or the robot's motion until then is unknown."""
    NO_OBSERVATION = "no_observation"
    """The joint state at the stamp, to which actions are relative, is not kept any more, or has not arrived yet."""
    GOAL_IN_MOTION = "goal_in_motion"
    """The last point of a complete plan has a velocity: joint_trajectory_controller refuses that, too."""
    BRAKE_IMPOSSIBLE = "brake_impossible"
    """The plan ends in motion, and stopping within the limits takes too long."""
    INVALID_CONTROL_SPACE = "invalid_control_space"
    START_INDEX = "start_index_out_of_range"
    GOAL_INDEX = "goal_index_out_of_range"
    GOAL_NOT_SUPPORTED = "goal_not_supported"
    """The control space does not support a goal, or a part of it."""
    INVALID_SPLINE = "invalid_spline"
    """A spline's degree or number of steps is impossible, or given for another control space."""
    INVALID_COST = "invalid_cost"
    """A target or limits lack a weight, a limit weight lacks limits, or limits are in the wrong order."""
    INVALID_FIELDS = "invalid_fields"
    """Outputs were requested that do not exist."""
    INVALID_RETIMING = "invalid_retiming"
    """Limits, scaling factors, durations or an order are not possible for retiming."""
    ROW_OUT_OF_RANGE = "row_out_of_range"
    """A trajectory was requested that the batch does not have."""
    START_MISMATCH = "start_mismatch"
    """The sequence starts away from where the robot is."""
    NO_LIMITS = "no_limits"
    """No limit of velocity is known for a joint, and none may be assumed."""
    CONTROLLER_UNAVAILABLE = "controller_unavailable"
    """The controller is silent, executes something else, or runs at another speed."""
    DEVIATION = "deviation"
    """A joint does not follow its command, or the robot moves before its first motion."""
    STOPPED = "stopped"
    """A stop was requested, and is not over yet or holds."""
    BUSY = "busy"
    """A call waited for too long."""
    SUPERSEDED = "superseded"
    """Newer input arrived while this was waiting or being slowed."""
    GRADIENT_LENGTH = "gradient_length"
    LIMITS = "limits_violated"
    NOT_FASTEST = "not_fastest"
    """A path without times is passed more slowly than possible: it is never rejected, and causes a warning."""
    NON_FINITE_RESULT = "non_finite_result"
    """The result of finite input overflows."""
    OUT_OF_DEVICE_MEMORY = "out_of_device_memory"
    QUEUE_OVERFLOW = "queue_overflow"
    """Newer messages displaced these from the queue before they were read."""
    MALFORMED_MESSAGE = "malformed_message"
    """A message cannot be decoded."""
    INTERNAL_ERROR = "internal_error"

    def of(self, field: str, expected: str, got: object) -> Rejected:
        """Return the rejection of a field for this reason."""
        return Rejected(self, f"{field}: expected {expected}, got {got}")


class Rejected(Exception):
    """Input is rejected for `reason`; the message names the field, what was expected and what was given."""

    def __init__(self, reason: RejectionReason, message: str) -> None:
        super().__init__(f"{reason.value}: {message}")
        self.reason = reason
        self.message = message


def all_finite(values: np.ndarray) -> bool:
    """Return whether real numbers of any shape hold neither NaN nor infinity."""
    return np.count_nonzero(np.isfinite(values)) == np.size(values)  # faster than `all` for a few numbers


def require_finite(field: str, values: np.ndarray, reason: RejectionReason = RejectionReason.NOT_FINITE) -> None:
    """Check an array of any shape for NaN and infinity.

    Raises:
        Rejected: with `reason`, naming the first such element.

    """
    if all_finite(values):
        return
    finite = np.isfinite(values)
    index = tuple(int(i) for i in np.argwhere(~finite)[0])
    raise Rejected(reason, f"{field}: expected finite numbers, got {values[index]} at {list(index)}")


def require_size(name: str, size: int, low: int, high: int, parameter: str = "") -> None:
    """Check a size, which a parameter may limit. Raises Rejected: size_out_of_range."""
    if not low <= size <= high:
        limit = f" (parameter {parameter})" if parameter else ""
        raise RejectionReason.SIZE_OUT_OF_RANGE.of(name, f"{low} to {high}{limit}", size)


def require_steps(values: np.ndarray) -> None:
    """Check step lengths `[N]`, s. Raises Rejected: not_finite or invalid_dt."""
    require_finite("dt", values)
    outside = (values < DT_MIN_S) | (values > DT_MAX_S)
    if outside.any():
        index = int(outside.argmax())
        raise RejectionReason.INVALID_DT.of(
            "dt", f"more than 0 s ({DT_MIN_S:g} to {DT_MAX_S:g})", f"{values[index]:g} at [{index}]"
        )


def shown(value: object) -> str:
    """Quote a received value for a message: on one line, printable, at most 60 characters (120 with escapes)."""
    text = value if isinstance(value, str) else str(value)
    quoted = f"{text[:_SHOWN_CHARACTERS]!a}"
    if len(text) > _SHOWN_CHARACTERS or len(quoted) > _SHOWN_ESCAPED:
        return f"{quoted[:_SHOWN_ESCAPED]}... ({len(text)} characters)"
    return quoted


def shown_names(names: list[str] | tuple[str, ...], at_most: int = 8) -> str:
    """Quote a list of names for a message; of a long list, the first few."""
    text = ", ".join(shown(name) for name in names[:at_most])
    return text if len(names) <= at_most else f"{text}, ... ({len(names)} names)"
