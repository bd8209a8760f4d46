"""What must become of a message, worked out from docs of the interface alone: none of the node's code is used here.

A message may break several rules at once, and the interface does not say which is told first: the verdict holds every
broken rule, as pairs of reason and field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, CostTerm, StartState
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate

SHORTEST_STEP_S, LONGEST_STEP_S = 1e-6, 1e4  # range of the parameter dt; those of a sequence share it
CERTAINLY_FINITE = 1e36  # float32 ends at 3.40e38
NEAR, SHORTEST_NEAR_S, LONGEST_NEAR_S = 0.5, 0.01, 1.0
"""Largest number and step lengths, s, of motions after which the robot can do anything else at once."""
FAR = ("non_finite_result", "invalid_times", "brake_impossible", "limits_violated")
"""What may be told of other motions."""
LONGEST_WAIT_S = 1.0  # default of publish.longest_wait
OUTPUTS = ("position", "velocity", "acceleration", "jerk")
LIMITS = ("lower", "upper")
TERM_FIELDS = ("weight", "target", "terminal_weight", "limit_weight", *LIMITS)


@dataclass(frozen=True)
class Settings:
    """The parameters of the node that decide; control space position, backward differences."""

    joint_names: tuple[str, ...]
    max_batch: int
    max_horizon: int
    dt_s: float

    @property
    def dof(self) -> int:
        return len(self.joint_names)


@dataclass(frozen=True)
class Verdict:
    """Every rule that a message breaks, as (reason, field); `may_pass`: it may be answered nevertheless."""

    faults: frozenset[tuple[str, str]]
    may_pass: bool
    goes_far: bool = False
    """Whether the robot, if it is answered, is far away or fast then: what follows may be refused."""

    @property
    def reasons(self) -> frozenset[str]:
        return frozenset(reason for reason, _ in self.faults)

    def or_malformed(self) -> Verdict:
        """The verdict on damaged bytes: a decoder may also notice the damage."""
        return replace(self, faults=self.faults | {("malformed_message", "")})

    def or_too_many(self, field: str) -> Verdict:
        """The verdict on many more elements than the node can use: it may refuse to look at each."""
        return replace(self, faults=self.faults | {("size_out_of_range", field), ("size_mismatch", field)})


MALFORMED = Verdict(frozenset({("malformed_message", "")}), may_pass=False)


def judge_bytes(data: bytes, message_type: type, judge: Callable[[object], Verdict]) -> Verdict:
    """Judge bytes by the result of the middleware's own decoder."""
    try:
        message = deserialize_message(data, message_type)
    except Exception:
        return MALFORMED
    return judge(message).or_malformed()


def judge_sequence(message: ActionSequence, node: Settings) -> Verdict:
    """Judge an action sequence, on the topic or to ~/integrate."""
    faults = _sequence_faults(message, node)
    if faults:
        return Verdict(frozenset(faults), may_pass=False)
    overflow = {("non_finite_result", name) for name in OUTPUTS}
    return _by_magnitude(_largest_result(message, node), overflow)


def judge_motion(message: ActionSequence, node: Settings) -> Verdict:
    """Judge an action sequence on the topic: the robot is to follow it, from wherever it is."""
    verdict = judge_sequence(message, node)
    values = max(_largest(part) for part in (message.data, *_states(message)))
    return _executed(verdict, values, np.asarray(message.dt if message.dt else [node.dt_s], np.float64))


def _executed(verdict: Verdict, largest: float, steps_s: np.ndarray) -> Verdict:
    """The verdict on what a robot is to follow: what is out of all proportion may be more than a message can tell."""
    near = largest <= NEAR and steps_s.min() >= SHORTEST_NEAR_S and steps_s.max() <= LONGEST_NEAR_S
    if near or not verdict.may_pass:
        return verdict
    faults = {(reason, "") for reason in FAR}
    return Verdict(verdict.faults | faults, may_pass=True, goes_far=True)


def _states(message: ActionSequence) -> list[Sequence[float]]:
    return [getattr(state, name) for state in (message.start, message.goal) for name in OUTPUTS[:3]]


def judge_gradient(request: ComputeGradient.Request, node: Settings) -> Verdict:
    """Judge a request for a gradient; its actions may lack data."""
    actions = request.actions
    faults = _sequence_faults(actions, node, data_optional=True)
    expected = actions.batch * _rows(actions) * node.dof
    largest = 0.0
    for name in OUTPUTS:
        values = np.asarray(getattr(request, f"grad_{name}"))
        if values.size not in (0, expected):
            faults.add(("gradient_length", f"grad_{name}"))
        if not np.isfinite(values).all():
            faults.add(("not_finite", f"grad_{name}"))
        largest = max(largest, float(np.abs(values, dtype=np.float64).max(initial=0.0)))
    if faults:
        return Verdict(frozenset(faults), may_pass=False)
    outputs = {("non_finite_result", f"grad_{name}") for name in ("action", "dt")}
    outputs |= {("non_finite_result", f"grad_{end}_{name}") for end in ("start", "goal") for name in OUTPUTS[:3]}
    data = max(1.0, _largest(actions.data), *map(_largest, _states(actions)))
    bound = largest * data * expected * _gain(actions, node) ** 2
    return _by_magnitude(bound, outputs)


def judge_evaluation(request: Evaluate.Request, node: Settings) -> Verdict:
    """Judge a request for what a sequence costs; the node knows no limits of its own."""
    actions, rows = request.actions, np.asarray(request.trajectory_rows, np.int64)
    faults = _sequence_faults(actions, node)
    limited = False
    for bit, name in enumerate(OUTPUTS):
        term = getattr(request.cost, name)
        asked = request.want_limit_violations and bool((request.violation_fields or 15) >> bit & 1)
        faults |= _term_faults(f"cost.{name}", term, actions, node, weightless=asked)
        has_limits = bool(term.lower or term.upper)
        limited |= asked and has_limits
        if asked and request.violation_fields and not has_limits:
            faults.add(("invalid_cost", f"cost.{name}.lower"))
    if request.want_limit_violations and not limited:
        faults.add(("invalid_cost", "want_limit_violations"))
    if request.violation_fields > 15:
        faults.add(("invalid_fields", "violation_fields"))
    durations = np.asarray(request.cost.duration_weight)
    if durations.size not in (0, 1, actions.batch):
        faults.add(("size_mismatch", "cost.duration_weight"))
    if not np.isfinite(durations).all():
        faults.add(("not_finite", "cost.duration_weight"))
    if rows.size > actions.batch:
        faults.add(("size_out_of_range", "trajectory_rows"))
    if (rows >= actions.batch).any():
        faults.add(("row_out_of_range", "trajectory_rows"))
    if request.trajectory_fields > 15:
        faults.add(("invalid_fields", "trajectory_fields"))
    is_spline = actions.control_space == ActionSequence.BSPLINE
    if request.want_grad_dt and is_spline and len(actions.dt) > 1 and actions.horizon > 1:
        faults.add(("size_mismatch", "dt"))
    if faults:
        return Verdict(frozenset(faults), may_pass=False)
    outputs = {("non_finite_result", name) for name in ("cost", "grad_action", "grad_dt", *OUTPUTS)}
    outputs |= {("non_finite_result", f"violation_{name}") for name in OUTPUTS}
    outputs |= {("non_finite_result", f"grad_{end}_{name}") for end in ("start", "goal") for name in OUTPUTS[:3]}
    terms = [getattr(request.cost, name) for name in OUTPUTS]
    weight = max(_largest(getattr(term, field)) for term in terms for field in TERM_FIELDS if "weight" in field)
    weight = max(weight, _largest(durations) * max(1.0, node.dt_s, _largest(actions.dt)))
    values = [np.asarray(getattr(term, field)) for term in terms for field in ("target", "lower", "upper")]
    aims = max(_largest(some[np.isfinite(some)]) for some in values)
    if any(math.inf in term.lower or -math.inf in term.upper for term in terms):
        aims = math.inf  # limits that nothing keeps
    largest = _largest_result(actions, node)
    size = actions.batch * _rows(actions) * node.dof
    bound = 100 * max(1.0, weight) * size * (1 + largest + aims) ** 2 * _gain(actions, node) ** 2
    return _by_magnitude(bound, outputs)


def judge_plan(message: JointTrajectory, node: Settings, now_ns: int) -> Verdict:
    """Judge a trajectory of positions and times."""
    faults = _name_faults(message.joint_names, node)
    if not message.joint_names:
        faults.add(("joint_count", "joint_names"))
    if not 1 <= len(message.points) <= node.max_horizon:
        faults.add(("size_out_of_range", "points"))
    if any(len(point.positions) != len(message.joint_names) for point in message.points):
        faults.add(("joint_count", "points"))
    if not all(math.isfinite(value) for point in message.points for value in point.positions):
        faults.add(("not_finite", "points"))
    times = [_nanoseconds(point.time_from_start) for point in message.points]
    stamp = _nanoseconds(message.header.stamp)
    if len(times) > 1 and not any(times):
        faults.add(("no_limits", "limits"))  # without times, which limits would give
    else:
        if times and (times[0] < 0 or any(later <= sooner for sooner, later in pairwise(times))):
            faults.add(("invalid_times", "points"))
        if times and stamp and stamp + times[-1] <= now_ns:
            faults.add(("invalid_times", "header.stamp"))
    if faults:
        return Verdict(frozenset(faults), may_pass=False)
    # The node may have to add one more point at rest, a last step later: a time beyond 2^31 s has no message.
    last_step = times[-1] - (times[-2] if len(times) > 1 else 0)
    unsure = {("invalid_times", "points")} if times[-1] + last_step >= (2**31 - 1) * 10**9 else set()
    shortest_s = min(np.diff([0, *times])[0 if times[0] else 1 :], default=10**9) * 1e-9
    largest = max((abs(value) for point in message.points for value in point.positions), default=0.0)
    if largest > 0 and math.log10(largest) - 3 * min(0.0, math.log10(shortest_s)) > 290:
        unsure.add(("non_finite_result", ""))
    steps_s = np.diff([0, *times])[0 if times[0] or len(times) == 1 else 1 :] * 1e-9
    return _executed(Verdict(frozenset(unsure), may_pass=True), largest, steps_s)


def judge_report(message: object, node: Settings) -> Verdict:
    """Judge a report of the controller, which must be about all joints, and may be about others; no stamp is wrong."""
    faults = set()
    if set(node.joint_names) - set(message.joint_names):
        faults.add(("joint_missing", "controller_state.joint_names"))
    ours = [name for name in message.joint_names if name in node.joint_names]
    if len(set(ours)) != len(ours):
        faults.add(("duplicate_joint", "controller_state.joint_names"))
    for name in ("positions", "velocities", "accelerations"):
        values = getattr(message.reference, name)
        if len(values) != len(message.joint_names) and (len(values) or name == "positions"):
            faults.add(("joint_count", f"controller_state.reference.{name}"))
        counted = [value for joint, value in zip(message.joint_names, values, strict=False) if joint in ours]
        if not all(map(math.isfinite, counted)):
            faults.add(("not_finite", f"controller_state.reference.{name}"))
    if not math.isfinite(message.speed_scaling_factor):
        faults.add(("not_finite", "controller_state.speed_scaling_factor"))
    return Verdict(frozenset(faults), may_pass=not faults)


def judge_committed(request: Committed.Request, node: Settings, now_ns: int) -> Verdict:
    """Judge a request for the motion in execution."""
    faults = set()
    if request.dt != 0 and not SHORTEST_STEP_S <= request.dt <= LONGEST_STEP_S:
        faults.add(("invalid_dt" if math.isfinite(request.dt) else "not_finite", "dt"))
    for name, most in (("rows", node.max_horizon + 1), ("rows_before", node.max_horizon)):
        if getattr(request, name) > most:
            faults.add(("size_out_of_range", name))
    ahead_s = (_nanoseconds(request.stamp) - now_ns) * 1e-9
    if ahead_s > LONGEST_WAIT_S:
        faults.add(("future_sequence", "stamp"))
    return Verdict(frozenset(faults), may_pass=not faults)


def judge_state(message: JointState, node: Settings, newest_stamp_ns: int) -> Verdict:
    """Judge a joint state; one about other joints only, or with more than ours, is nothing wrong."""
    ours = [name for name in message.name if name in node.joint_names]
    if not ours:
        return Verdict(frozenset(), may_pass=True)
    faults = set()
    if len(set(ours)) != len(ours):
        faults.add(("duplicate_joint", "joint_states.name"))
    if set(ours) != set(node.joint_names):
        faults.add(("joint_missing", "joint_states.name"))
    for field, values, lengths in (
        ("position", message.position, (len(message.name),)), ("velocity", message.velocity, (0, len(message.name)))
    ):  # fmt: skip
        if len(values) not in lengths:
            faults.add(("joint_count", f"joint_states.{field}"))
        counted = [value for name, value in zip(message.name, values, strict=False) if name in node.joint_names]
        if not all(map(math.isfinite, counted)):
            faults.add(("not_finite", f"joint_states.{field}"))
    stamp = _nanoseconds(message.header.stamp)
    if stamp and stamp < newest_stamp_ns:
        faults.add(("clock_jumped_back", "joint_states.header.stamp"))
    return Verdict(frozenset(faults), may_pass=not faults)


def _sequence_faults(message: ActionSequence, node: Settings, data_optional: bool = False) -> set[tuple[str, str]]:
    batch, horizon, start = message.batch, message.horizon, message.start
    faults = _name_faults(message.joint_names, node)
    if message.joint_names and len(message.joint_names) != node.dof:
        faults.add(("joint_count", "joint_names"))
    if message.control_space > ActionSequence.BSPLINE:
        faults.add(("invalid_control_space", "control_space"))
    for name, size, maximum in (("batch", batch, node.max_batch), ("horizon", horizon, node.max_horizon)):
        if not 1 <= size <= maximum:
            faults.add(("size_out_of_range", name))
    dt, data = np.asarray(message.dt), np.asarray(message.data)
    if data.size != batch * horizon * node.dof and not (data_optional and data.size == 0):
        faults.add(("size_mismatch", "data"))
    if dt.size not in (0, 1, horizon, batch * horizon):
        faults.add(("size_mismatch", "dt"))
    if (~((dt >= SHORTEST_STEP_S) & (dt <= LONGEST_STEP_S)) & np.isfinite(dt)).any():
        faults.add(("invalid_dt", "dt"))
    for name, values in (("data", data), ("dt", dt)):
        if not np.isfinite(values).all():
            faults.add(("not_finite", name))
    faults |= _row_faults("start", start, message.start_index, batch, node)
    faults |= _spline_and_goal_faults(message, node)
    return faults


def _term_faults(
    field: str, term: CostTerm, actions: ActionSequence, node: Settings, *, weightless: bool
) -> set[tuple[str, str]]:
    """What is wrong with what one output costs; `weightless`: limits need no weight."""
    batch, rows, dof = actions.batch, _rows(actions), node.dof
    several = (0, dof, rows * dof, batch * rows * dof)
    sizes = {"weight": several, "target": several, "terminal_weight": (0, dof, batch * dof)}
    faults = set()
    for name in TERM_FIELDS:
        values = np.asarray(getattr(term, name))
        if values.size not in sizes.get(name, (0, dof)):
            faults.add(("size_mismatch", f"{field}.{name}"))
        if np.isnan(values).any() or (name not in LIMITS and not np.isfinite(values).all()):
            faults.add(("not_finite", f"{field}.{name}"))
    if term.target and not (term.weight or term.terminal_weight):
        faults.add(("invalid_cost", f"{field}.target"))
    limited = bool(term.lower or term.upper)
    if limited and not term.limit_weight and not weightless:
        faults.add(("invalid_cost", f"{field}.limit_weight"))
    if term.limit_weight and not limited:
        faults.add(("invalid_cost", f"{field}.lower"))
    if any(least > most for least, most in zip(term.lower, term.upper, strict=False)):
        faults.add(("invalid_cost", f"{field}.lower"))
    return faults


def _spline_and_goal_faults(message: ActionSequence, node: Settings) -> set[tuple[str, str]]:
    """What is wrong with the fields of splines and goals."""
    faults: set[tuple[str, str]] = set()
    is_spline = message.control_space == ActionSequence.BSPLINE
    if is_spline:
        if message.degree not in (0, 3, 4, 5):
            faults.add(("invalid_spline", "degree"))
        dt = np.asarray(message.dt, np.float64)
        per_trajectory = dt.reshape(message.batch, -1) if dt.size == message.batch * message.horizon > 0 else dt[None]
        if dt.size and (per_trajectory != per_trajectory[:, :1]).any():
            faults.add(("invalid_dt", "dt"))
    else:
        faults |= {("invalid_spline", name) for name in ("degree", "steps") if getattr(message, name)}
    goal = message.goal
    given = {name for name in OUTPUTS[:3] if len(getattr(goal, name))}
    takes = OUTPUTS[:3] if is_spline else OUTPUTS[:1] * (message.control_space <= ActionSequence.POSITION)
    faults |= {("goal_not_supported", f"goal.{name}") for name in given - set(takes)}
    if message.goal_index and not takes:
        faults.add(("goal_not_supported", "goal_index"))
    if not given:
        return faults | ({("size_mismatch", "goal_index")} if message.goal_index else set())
    if not is_spline and message.horizon < 2:
        faults.add(("size_out_of_range", "horizon"))
    return faults | _row_faults("goal", goal, message.goal_index, message.batch, node)


def _row_faults(
    field: str, state: StartState, index: Sequence[int], batch: int, node: Settings
) -> set[tuple[str, str]]:
    """What is wrong with the rows of a start or a goal."""
    faults = set()
    given = len(state.position)
    rows = given // node.dof if given else 1
    if given % node.dof:
        faults.add(("size_mismatch", f"{field}.position"))
    if rows > node.max_batch:
        faults.add(("size_out_of_range", f"{field}.position"))
    if not index and rows not in (1, batch):
        faults.add(("size_mismatch", f"{field}.position"))
    for name in OUTPUTS[:3]:
        values = getattr(state, name)
        if len(values) not in (0, given):
            faults.add(("size_mismatch", f"{field}.{name}"))
        if not np.isfinite(values).all():
            faults.add(("not_finite", f"{field}.{name}"))
    if len(index) not in (0, batch):
        faults.add(("size_mismatch", f"{field}_index"))
    if any(number >= rows for number in index):
        faults.add((f"{field}_index_out_of_range", f"{field}_index"))
    return faults


def _rows(message: ActionSequence) -> int:
    """Rows of each trajectory."""
    if message.control_space != ActionSequence.BSPLINE:
        return message.horizon
    return (message.horizon + (message.degree or 3)) * (message.steps or 4) + 1


def _name_faults(names: Sequence[str], node: Settings) -> set[tuple[str, str]]:
    faults = set()
    if len(set(names)) != len(names):
        faults.add(("duplicate_joint", "joint_names"))
    if any(name not in node.joint_names for name in names):
        faults.add(("unknown_joint", "joint_names"))
    return faults


def _by_magnitude(at_most: float, overflow: set[tuple[str, str]]) -> Verdict:
    """Finite numbers may have a result that is not: surely not, or perhaps; an answer must be finite."""
    return Verdict(frozenset(overflow if at_most >= CERTAINLY_FINITE else ()), may_pass=True)


def _largest_result(message: ActionSequence, node: Settings) -> float:
    """What the largest magnitude in the trajectory of a faultless sequence cannot exceed."""
    return max(_largest(message.data), *map(_largest, _states(message))) * _gain(message, node)


def _gain(message: ActionSequence, node: Settings) -> float:
    """An upper bound of how much larger than its input a trajectory can be; a robot at rest is in joint_states."""
    steps = np.asarray(message.dt if message.dt else [node.dt_s], np.float64)
    shrunk, stretched = min(1.0, float(steps.min())), max(1.0, float(steps.max()) * message.horizon)
    return 64.0 / shrunk**3 * stretched**3


def _largest(values: Sequence[float]) -> float:
    return float(np.abs(np.asarray(values, np.float64)).max(initial=0.0))


def _nanoseconds(stamp: object) -> int:
    return stamp.sec * 10**9 + stamp.nanosec
