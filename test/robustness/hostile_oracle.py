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
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate

SHORTEST_STEP_S, LONGEST_STEP_S = 1e-6, 1e4  # range of the parameter dt, and of a sequence's
TAME, SHORTEST_TAME_S = 100.0, 1e-3
"""Of smaller numbers, and of longer steps, s, all results are finite: float32 ends at 3.40e38."""
NEAR, SHORTEST_NEAR_S, LONGEST_NEAR_S = 0.5, 0.01, 1.0
"""Largest number and step lengths, s, of motions after which the robot can do anything else at once."""
FAR = ("non_finite_result", "invalid_times", "brake_impossible", "limits_violated")
"""What may be told of other motions."""
LONGEST_WAIT_S = 1.0  # default of publish.longest_wait
OUTPUTS = ("position", "velocity", "acceleration", "jerk")
LIMITS = ("lower", "upper")
Faults = set[tuple[str, str]]
"""Broken rules, by reason and field."""
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


MALFORMED = Verdict(frozenset({("malformed_message", "")}), may_pass=False)


def judge_bytes(data: bytes, message_type: type, judge: Callable[[object], Verdict]) -> Verdict:
    """Judge bytes by the result of the middleware's own decoder."""
    try:
        message = deserialize_message(data, message_type)
    except Exception:
        return MALFORMED
    return judge(message).or_malformed()


def judge_sequence(message: ActionSequence, node: Settings, now_ns: int) -> Verdict:
    """Judge an action sequence; all judges take the time, or the newest stamp, of which some have no need."""
    return _verdict(_sequence_faults(message, node), message, node)


def judge_motion(message: ActionSequence, node: Settings, now_ns: int) -> Verdict:
    """Judge an action sequence on the topic: the robot is to follow it, from wherever it is."""
    verdict = judge_sequence(message, node, now_ns)
    ends = (getattr(state, name) for state in (message.start, message.goal) for name in OUTPUTS[:3])
    values = max(map(_largest, (message.data, *ends)))
    return _executed(verdict, values, np.asarray(message.dt if message.dt else [node.dt_s], np.float64))


def judge_integration(request: Integrate.Request, node: Settings, now_ns: int) -> Verdict:
    """Judge a request for trajectories, or for whether they would be published."""
    verdict = (judge_motion if request.as_published else judge_sequence)(request.actions, node, now_ns)
    if request.fields <= 15:
        return verdict
    others = frozenset() if verdict.may_pass else verdict.faults
    return Verdict(others | {("invalid_fields", "fields")}, may_pass=False)


def judge_gradient(request: ComputeGradient.Request, node: Settings, now_ns: int) -> Verdict:
    """Judge a request for a gradient; its actions may lack data."""
    actions = request.actions
    expected = actions.batch * _rows(actions) * node.dof
    upstream = {f"grad_{name}": np.asarray(getattr(request, f"grad_{name}")) for name in OUTPUTS}
    faults = _sequence_faults(actions, node, data_optional=True)
    for name, values in upstream.items():
        faults |= _broken(
            (values.size not in (0, expected), "gradient_length", name),
            (not np.isfinite(values).all(), "not_finite", name),
        )
    return _verdict(faults, actions, node, *upstream.values())


def judge_evaluation(request: Evaluate.Request, node: Settings, now_ns: int) -> Verdict:
    """Judge a request for what a sequence costs; the node knows no limits of its own."""
    actions, rows = request.actions, np.asarray(request.trajectory_rows, np.int64)
    terms = {name: getattr(request.cost, name) for name in OUTPUTS}
    durations = np.asarray(request.cost.duration_weight)
    faults = _sequence_faults(actions, node)
    limited = False
    for bit, (name, term) in enumerate(terms.items()):
        asked = request.want_limit_violations and bool((request.violation_fields or 15) >> bit & 1)
        has_limits = bool(term.lower or term.upper)
        limited |= asked and has_limits
        faults |= _term_faults(f"cost.{name}", term, actions, node, weightless=asked)
        faults |= _broken((asked and request.violation_fields and not has_limits, "invalid_cost", f"cost.{name}.lower"))
    of_splines = actions.control_space == ActionSequence.BSPLINE
    shares_steps = actions.horizon > 1 and actions.dt_per == ActionSequence.DT_PER_STEP
    faults |= _broken(
        (request.want_limit_violations and not limited, "invalid_cost", "want_limit_violations"),
        (request.violation_fields > 15, "invalid_fields", "violation_fields"),
        (durations.size not in (0, 1, actions.batch), "size_mismatch", "cost.duration_weight"),
        (not np.isfinite(durations).all(), "not_finite", "cost.duration_weight"),
        (rows.size > actions.batch, "size_out_of_range", "trajectory_rows"),
        ((rows >= actions.batch).any(), "row_out_of_range", "trajectory_rows"),
        (request.trajectory_fields > 15, "invalid_fields", "trajectory_fields"),
        (request.want_grad_dt and of_splines and len(actions.dt) > 1 and shares_steps, "size_mismatch", "dt"),
    )
    numbers = (getattr(term, field) for term in terms.values() for field in TERM_FIELDS)
    return _verdict(faults, actions, node, durations, *numbers)


def judge_plan(message: JointTrajectory, node: Settings, now_ns: int) -> Verdict:
    """Judge a trajectory of positions and times."""
    times = [_nanoseconds(point.time_from_start) for point in message.points]
    stamp = _nanoseconds(message.header.stamp)
    without_times = bool(times) and not any(times)
    is_ordered = not times or (times[0] >= 0 and all(sooner < later for sooner, later in pairwise(times)))
    positions = [point.positions for point in message.points]
    faults = _name_faults(message.joint_names, node) | _broken(
        (not message.joint_names, "joint_count", "joint_names"),
        (not 1 <= len(message.points) <= node.max_horizon, "size_out_of_range", "points"),
        (any(len(row) != len(message.joint_names) for row in positions), "joint_count", "points"),
        (not all(math.isfinite(value) for row in positions for value in row), "not_finite", "points"),
        (without_times, "no_limits", "limits"),  # which times would follow from
        (not without_times and not is_ordered, "invalid_times", "points"),
        (not without_times and times and stamp and stamp + times[-1] <= now_ns, "invalid_times", "header.stamp"),
    )
    if faults:
        return Verdict(frozenset(faults), may_pass=False)
    # The node may have to add one more point at rest, a last step later: a time beyond 2^31 s has no message.
    last_step = times[-1] - (times[-2] if len(times) > 1 else 0)
    unsure = _broken((times[-1] + last_step >= (2**31 - 1) * 10**9, "invalid_times", "points"))
    steps_s = np.diff([0, *times])[0 if times[0] or len(times) == 1 else 1 :] * 1e-9
    return _executed(Verdict(frozenset(unsure), may_pass=True), max(map(_largest, positions)), steps_s)


def judge_report(message: object, node: Settings, now_ns: int) -> Verdict:
    """Judge a report of the controller, which must be about all joints, and may be about others; no stamp is wrong."""
    ours = [name for name in message.joint_names if name in node.joint_names]
    faults = _broken(
        (set(node.joint_names) - set(ours), "joint_missing", "controller_state.joint_names"),
        (len(set(ours)) != len(ours), "duplicate_joint", "controller_state.joint_names"),
        (not math.isfinite(message.speed_scaling_factor), "not_finite", "controller_state.speed_scaling_factor"),
    )
    for name in ("positions", "velocities", "accelerations"):
        lengths, values = (len(message.joint_names),), getattr(message.reference, name)
        if name != "positions":
            lengths, values = (0, *lengths), _given(values)
        faults |= _column_faults(f"controller_state.reference.{name}", message.joint_names, values, lengths, node)
    return Verdict(frozenset(faults), may_pass=not faults)


def judge_committed(request: Committed.Request, node: Settings, now_ns: int) -> Verdict:
    """Judge a request for the motion in execution."""
    wrong_dt = request.dt != 0 and not SHORTEST_STEP_S <= request.dt <= LONGEST_STEP_S
    faults = _broken(
        (wrong_dt, "invalid_dt" if math.isfinite(request.dt) else "not_finite", "dt"),
        (request.rows > node.max_horizon + 1, "size_out_of_range", "rows"),
        (request.rows_before > node.max_horizon, "size_out_of_range", "rows_before"),
        ((_nanoseconds(request.stamp) - now_ns) * 1e-9 > LONGEST_WAIT_S, "future_sequence", "stamp"),
    )
    return Verdict(frozenset(faults), may_pass=not faults)


def judge_state(message: JointState, node: Settings, newest_stamp_ns: int) -> Verdict:
    """Judge a joint state; one about other joints only, or about some of ours, is nothing wrong."""
    if not message.name:
        return Verdict(frozenset({("joint_count", "joint_states.name")}), may_pass=False)
    ours = [name for name in message.name if name in node.joint_names]
    if not ours:
        return Verdict(frozenset(), may_pass=True)
    named, stamp = len(message.name), _nanoseconds(message.header.stamp)
    faults = _broken(
        (len(set(ours)) != len(ours), "duplicate_joint", "joint_states.name"),
        (stamp and stamp < newest_stamp_ns, "clock_jumped_back", "joint_states.header.stamp"),
    )
    faults |= _column_faults("joint_states.position", message.name, message.position, (named,), node)
    faults |= _column_faults("joint_states.velocity", message.name, _given(message.velocity), (0, named), node)
    # Joints that another publisher has updated since may have newer stamps than these.
    some = set(ours) != set(node.joint_names) and faults <= {("clock_jumped_back", "joint_states.header.stamp")}
    return Verdict(frozenset(faults), may_pass=some or not faults)


def _given(values: Sequence[float]) -> list[float]:
    """Values of which NaN is one that is not given."""
    return [0.0 if math.isnan(value) else value for value in values]


def _broken(*rules: tuple[object, str, str]) -> Faults:
    """Reason and field of each rule that is broken."""
    return {(reason, field) for broken, reason, field in rules if broken}


def _verdict(faults: Faults, actions: ActionSequence, node: Settings, *numbers: Sequence[float]) -> Verdict:
    """The verdict on a sequence and what came with it: numbers out of all proportion may have results that overflow."""
    if faults:
        return Verdict(frozenset(faults), may_pass=False)
    states = (getattr(state, name) for state in (actions.start, actions.goal) for name in OUTPUTS[:3])
    steps = actions.dt or [node.dt_s]
    is_tame = SHORTEST_TAME_S <= min(steps) <= max(steps) <= LONGEST_NEAR_S
    if is_tame and max(map(_largest, (actions.data, *states, *numbers))) <= TAME:
        return Verdict(frozenset(), may_pass=True)
    return Verdict(frozenset({("non_finite_result", "")}), may_pass=True)


def _column_faults(
    field: str, names: Sequence[str], values: Sequence[float], lengths: tuple[int, ...], node: Settings
) -> Faults:
    """What is wrong with a number for each name, of which those of our joints count."""
    counted = [value for name, value in zip(names, values, strict=False) if name in node.joint_names]
    return _broken(
        (len(values) not in lengths, "joint_count", field),
        (not all(map(math.isfinite, counted)), "not_finite", field),
    )


def _sequence_faults(message: ActionSequence, node: Settings, data_optional: bool = False) -> Faults:
    batch, horizon = message.batch, message.horizon
    dt, data = np.asarray(message.dt), np.asarray(message.data)
    lengths = {0, 1, *((batch,) if message.dt_per else (horizon, batch * horizon))}
    out_of_range = ~((dt >= SHORTEST_STEP_S) & (dt <= LONGEST_STEP_S))
    return _broken(
        (message.joint_names and len(message.joint_names) != node.dof, "joint_count", "joint_names"),
        (message.control_space > ActionSequence.BSPLINE, "invalid_control_space", "control_space"),
        (not 1 <= batch <= node.max_batch, "size_out_of_range", "batch"),
        (not 1 <= horizon <= node.max_horizon, "size_out_of_range", "horizon"),
        (data.size != batch * horizon * node.dof and (data.size or not data_optional), "size_mismatch", "data"),
        (message.dt_per > ActionSequence.DT_PER_TRAJECTORY, "invalid_dt", "dt_per"),
        (dt.size not in lengths, "size_mismatch", "dt"),
        ((out_of_range & np.isfinite(dt)).any(), "invalid_dt", "dt"),
        (not np.isfinite(dt).all(), "not_finite", "dt"),
        (not np.isfinite(data).all(), "not_finite", "data"),
    ).union(
        _name_faults(message.joint_names, node),
        _row_faults("start", message.start, message.start_index, batch, node),
        _spline_and_goal_faults(message, node),
    )


def _term_faults(field: str, term: CostTerm, actions: ActionSequence, node: Settings, *, weightless: bool) -> Faults:
    """What is wrong with what one output costs; `weightless`: limits need no weight."""
    batch, rows, dof = actions.batch, _rows(actions), node.dof
    several = (0, dof, rows * dof, batch * rows * dof)
    sizes = {"weight": several, "target": several, "terminal_weight": (0, dof, batch * dof)}
    limited = bool(term.lower or term.upper)
    crossed = any(least > most for least, most in zip(term.lower, term.upper, strict=False))
    faults = _broken(
        (term.target and not (term.weight or term.terminal_weight), "invalid_cost", f"{field}.target"),
        (limited and not term.limit_weight and not weightless, "invalid_cost", f"{field}.limit_weight"),
        (crossed or (term.limit_weight and not limited), "invalid_cost", f"{field}.lower"),
    )
    for name in TERM_FIELDS:
        values = np.asarray(getattr(term, name))
        unbounded = name not in LIMITS and not np.isfinite(values).all()
        faults |= _broken(
            (values.size not in sizes.get(name, (0, dof)), "size_mismatch", f"{field}.{name}"),
            (unbounded or np.isnan(values).any(), "not_finite", f"{field}.{name}"),
        )
    return faults


def _spline_and_goal_faults(message: ActionSequence, node: Settings) -> Faults:
    """What is wrong with the fields of splines and goals."""
    is_spline = message.control_space == ActionSequence.BSPLINE
    dt = np.asarray(message.dt, np.float64)
    per_trajectory = dt.reshape(message.batch, -1) if dt.size == message.batch * message.horizon > 0 else dt[None]
    goal = message.goal
    given = {name for name in OUTPUTS[:3] if len(getattr(goal, name))}
    takes = OUTPUTS[:3] if is_spline else OUTPUTS[:1] * (message.control_space <= ActionSequence.POSITION)
    faults = _broken(
        (is_spline and message.degree not in (0, 3, 4, 5), "invalid_spline", "degree"),
        (is_spline and not message.dt_per and (per_trajectory != per_trajectory[:, :1]).any(), "invalid_dt", "dt"),
        (not is_spline and message.degree, "invalid_spline", "degree"),
        (not is_spline and message.steps, "invalid_spline", "steps"),
        (message.goal_index and not takes, "goal_not_supported", "goal_index"),
        (message.goal_index and not given, "size_mismatch", "goal_index"),
        (given and not is_spline and message.horizon < 2, "size_out_of_range", "horizon"),
        *((True, "goal_not_supported", f"goal.{name}") for name in given - set(takes)),
    )
    return faults | (_row_faults("goal", goal, message.goal_index, message.batch, node) if given else set())


def _row_faults(field: str, state: StartState, index: Sequence[int], batch: int, node: Settings) -> Faults:
    """What is wrong with the rows of a start or a goal."""
    given = len(state.position)
    rows = given // node.dof if given else 1
    faults = _broken(
        (given % node.dof, "size_mismatch", f"{field}.position"),
        (rows > node.max_batch, "size_out_of_range", f"{field}.position"),
        (not index and rows not in (1, batch), "size_mismatch", f"{field}.position"),
        (len(index) not in (0, batch), "size_mismatch", f"{field}_index"),
        (any(number >= rows for number in index), f"{field}_index_out_of_range", f"{field}_index"),
    )
    for name in OUTPUTS[:3]:
        values = getattr(state, name)
        faults |= _broken(
            (len(values) not in (0, given), "size_mismatch", f"{field}.{name}"),
            (not np.isfinite(values).all(), "not_finite", f"{field}.{name}"),
        )
    return faults


def _name_faults(names: Sequence[str], node: Settings) -> Faults:
    return _broken(
        (len(set(names)) != len(names), "duplicate_joint", "joint_names"),
        (any(name not in node.joint_names for name in names), "unknown_joint", "joint_names"),
    )


def _rows(message: ActionSequence) -> int:
    """Rows of each trajectory."""
    if message.control_space != ActionSequence.BSPLINE:
        return message.horizon
    return (message.horizon + (message.degree or 3)) * (message.steps or 4) + 1


def _executed(verdict: Verdict, largest: float, steps_s: np.ndarray) -> Verdict:
    """The verdict on what a robot is to follow: what is out of all proportion may be more than a message can tell."""
    near = largest <= NEAR and steps_s.min() >= SHORTEST_NEAR_S and steps_s.max() <= LONGEST_NEAR_S
    if near or not verdict.may_pass:
        return verdict
    return Verdict(verdict.faults | {(reason, "") for reason in FAR}, may_pass=True, goes_far=True)


def _largest(values: Sequence[float]) -> float:
    return float(np.abs(np.asarray(values, np.float64)).max(initial=0.0))


def _nanoseconds(stamp: object) -> int:
    return stamp.sec * 10**9 + stamp.nanosec
