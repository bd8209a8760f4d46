"""Messages to be refused: a case for every row of "How bad input is handled", and for each way to break it."""

from __future__ import annotations

import math
from array import array

import numpy as np
from builtin_interfaces.msg import Time
from hostile_oracle import OUTPUTS, Settings
from node_fixtures import JOINTS, plan
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, CostTerm
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate
from traj_integrator_ros.traffic.messages import floats, sequence

NODE = Settings(JOINTS, max_batch=8, max_horizon=16, dt_s=0.02)
SECOND_NS = 10**9
LONG, UGLY = "j" * 10_000, "ü\n\x1b[31m"


def good_sequence(**changes: object) -> ActionSequence:
    """A sequence `[2, 4, 3]` right but for the changed fields; start_* and goal_* are parts of the states."""
    message = sequence(np.full((2, 4, NODE.dof), 0.01), position=np.zeros(NODE.dof), dt=[0.02])
    for name, value in changes.items():
        state, _, part = name.partition("_")
        if state in ("start", "goal") and part != "index":
            setattr(getattr(message, state), part, value)
        else:
            setattr(message, name, value)
    return message


def good_evaluation(**changes: object) -> Evaluate.Request:
    """A request for what `good_sequence` costs, right but for the changed fields, which may be terms of the cost."""
    request = Evaluate.Request(actions=good_sequence())
    request.cost.position = cost_term(weight=np.ones(NODE.dof))
    for name, value in changes.items():
        if name == "duration_weight":
            request.cost.duration_weight = floats(value)
        else:
            setattr(request.cost if name in OUTPUTS else request, name, value)
    return request


def cost_term(**fields: object) -> CostTerm:
    return CostTerm(**{name: floats(values) for name, values in fields.items()})


def spoiled(value: float, length: int = 24) -> array:
    return floats([0.0] * (length - 1) + [value])


SEQUENCES: dict[str, tuple[str, ActionSequence]] = {
    name: (reason, good_sequence(**changes))
    for name, (reason, changes) in {
        "unknown joint": ("unknown_joint", {"joint_names": ["joint_a", "joint_b", "elbow"]}),
        "very long name": ("unknown_joint", {"joint_names": ["joint_a", "joint_b", LONG]}),
        "empty name": ("unknown_joint", {"joint_names": ["joint_a", "joint_b", ""]}),
        "name with line breaks": ("unknown_joint", {"joint_names": ["joint_a", "joint_b", UGLY]}),
        "duplicate joint": ("duplicate_joint", {"joint_names": ["joint_a", "joint_b", "joint_b"]}),
        "joint missing": ("joint_count", {"joint_names": ["joint_a", "joint_b"]}),
        "1,000 names": ("unknown_joint", {"joint_names": [f"joint_{i}" for i in range(1_000)]}),
        "control space": ("invalid_control_space", {"control_space": 6}),
        "batch 0": ("size_out_of_range", {"batch": 0}),
        "horizon 0": ("size_out_of_range", {"horizon": 0}),
        "batch over maximum": ("size_out_of_range", {"batch": NODE.max_batch + 1}),
        "horizon over maximum": ("size_out_of_range", {"horizon": NODE.max_horizon + 1}),
        "batch 2^31": ("size_out_of_range", {"batch": 2**31}),
        "2^32 - 1 times 2^32 - 1": ("size_out_of_range", {"batch": 2**32 - 1, "horizon": 2**32 - 1}),
        "data too short": ("size_mismatch", {"data": floats(np.zeros(23))}),
        "data too long": ("size_mismatch", {"data": floats(np.zeros(25))}),
        "another batch": ("size_mismatch", {"batch": 3}),
        "another horizon": ("size_mismatch", {"horizon": 5}),
        "NaN in data": ("not_finite", {"data": spoiled(math.nan)}),
        "infinity in data": ("not_finite", {"data": spoiled(math.inf)}),
        "opposite infinities": ("not_finite", {"data": floats([math.inf, -math.inf] + [0.0] * 22)}),
        "dt length": ("size_mismatch", {"dt": floats([0.02] * 3)}),
        "dt 0": ("invalid_dt", {"dt": floats([0.0])}),
        "dt -0": ("invalid_dt", {"dt": floats([-0.0])}),
        "dt negative": ("invalid_dt", {"dt": floats([0.02, 0.02, -0.02, 0.02])}),
        "dt denormal": ("invalid_dt", {"dt": floats([1e-42])}),
        "dt huge": ("invalid_dt", {"dt": floats([1e30])}),
        "dt NaN": ("not_finite", {"dt": spoiled(math.nan, 8)}),
        "dt infinite": ("not_finite", {"dt": floats([math.inf])}),
        "start half a row": ("size_mismatch", {"start_position": floats(np.zeros(4))}),
        "start rows": ("size_mismatch", {"start_position": floats(np.zeros(9))}),
        "start pool too large": ("size_out_of_range", {"start_position": floats(np.zeros(9 * 3))}),
        "start velocity": ("size_mismatch", {"start_velocity": floats(np.zeros(6))}),
        "start velocity alone": ("size_mismatch", {"start_position": floats([]), "start_velocity": floats([0.0] * 3)}),
        "start NaN": ("not_finite", {"start_acceleration": spoiled(math.nan, 3)}),
        "start index": ("start_index_out_of_range", {"start_index": array("I", [0, 1])}),
        "start index 2^32 - 1": ("start_index_out_of_range", {"start_index": array("I", [0, 2**32 - 1])}),
        "start index length": ("size_mismatch", {"start_index": array("I", [0])}),
        "goal of velocities": ("goal_not_supported", {"control_space": 2, "goal_position": floats(np.zeros(3))}),
        "goal with a velocity": ("goal_not_supported", {"goal_velocity": floats(np.zeros(3))}),
        "goal half a row": ("size_mismatch", {"control_space": 5, "goal_position": floats(np.zeros(4))}),
        "goal NaN": ("not_finite", {"control_space": 5, "goal_position": spoiled(math.nan, 3)}),
        "goal index": (
            "goal_index_out_of_range",
            {"goal_position": floats(np.zeros(3)), "goal_index": array("I", [0, 2**32 - 1])},
        ),
        "goal index alone": ("size_mismatch", {"control_space": 5, "goal_index": array("I", [0, 0])}),
        "degree 2": ("invalid_spline", {"control_space": 5, "degree": 2}),
        "degree 255": ("invalid_spline", {"control_space": 5, "degree": 255}),
        "steps of velocities": ("invalid_spline", {"control_space": 2, "steps": 4}),
        "steps of two lengths": ("invalid_dt", {"control_space": 5, "dt": floats([0.02, 0.02, 0.03, 0.02])}),
    }.items()
}  # fmt: skip
OVERFLOWING = good_sequence(data=floats([3e38] + [0.0] * 23))
GRADIENTS: dict[str, tuple[str, ComputeGradient.Request]] = {
    **{
        f"{name} {what}": (reason, ComputeGradient.Request(actions=good_sequence(), **{name: floats(values)}))
        for name in (f"grad_{output}" for output in OUTPUTS)
        for what, reason, values in (
            ("too short", "gradient_length", np.ones(23)),
            ("too long", "gradient_length", np.ones(48)),
            ("NaN", "not_finite", np.full(24, np.nan)),
        )
    },
    "overflow": (
        "non_finite_result",
        ComputeGradient.Request(actions=good_sequence(), grad_jerk=floats(np.full(24, 3e38))),
    ),
}


def good_plan(position: float = 0.0, stamp_s: int = 0) -> JointTrajectory:
    """A hundredth of a second at rest; the trajectory ends in this position, rad."""
    message = plan([0.0, 0.01], np.full((2, NODE.dof), position))
    message.header.stamp.sec = stamp_s
    return message


ROWS = np.zeros((3, NODE.dof))
PLANS: dict[str, tuple[str, JointTrajectory]] = {
    "no joints": ("joint_count", plan([0.0], [[]], [])),
    "unknown joint": ("unknown_joint", plan([0.0], [[0.0]], ["elbow"])),
    "very long name": ("unknown_joint", plan([0.0], [[0.0]], [LONG])),
    "duplicate joint": ("duplicate_joint", plan([0.0], [[0.0, 0.0]], ["joint_a", "joint_a"])),
    "no points": ("size_out_of_range", plan([], [])),
    "too many points": ("size_out_of_range", plan([0.1 * i for i in range(17)], np.zeros((17, NODE.dof)))),
    "short point": ("joint_count", plan([0.0, 1.0], [[0.0] * 3, [0.0] * 2])),
    "NaN": ("not_finite", plan([0.0, 1.0], [[0.0] * 3, [0.0, math.nan, 0.0]])),
    "infinity": ("not_finite", plan([0.0, 1.0], [[0.0] * 3, [0.0, -math.inf, 0.0]])),
    "negative time": ("invalid_times", plan([-0.1, 0.1, 0.2], ROWS)),
    "equal times": ("invalid_times", plan([0.0, 0.1, 0.1], ROWS)),
    "no times": ("no_limits", plan([0.0, 0.0, 0.0], ROWS)),
    "falling times": ("invalid_times", plan([0.0, 0.2, 0.1], ROWS)),
    "overflow": ("non_finite_result", plan([0.0, 1e-9], [[0.0] * 3, [1e308] * 3])),
    "over already": ("invalid_times", good_plan(stamp_s=1)),
}
STATES: dict[str, tuple[str, JointState]] = {
    name: (reason, JointState(name=list(names), position=array("d", position), velocity=array("d", velocity)))
    for name, (reason, names, position, velocity) in {
        "joint missing": ("joint_missing", ["joint_a", "joint_b", "other"], [0.0] * 3, []),
        "duplicate": ("duplicate_joint", [*NODE.joint_names, "joint_a"], [0.0] * 4, []),
        "fewer positions": ("joint_count", NODE.joint_names, [0.0] * 2, []),
        "no positions": ("joint_count", NODE.joint_names, [], []),
        "more positions": ("joint_count", NODE.joint_names, [0.0] * 4, []),
        "fewer velocities": ("joint_count", NODE.joint_names, [0.0] * 3, [0.0] * 2),
        "NaN position": ("not_finite", NODE.joint_names, [0.0, 0.0, math.nan], []),
        "infinite velocity": ("not_finite", NODE.joint_names, [0.0] * 3, [0.0, math.inf, 0.0]),
    }.items()
}


def good_report(report_type: type, position: float = 0.0, velocity: float = 0.0) -> object:
    """A report of a controller that commands a position, rad."""
    message = report_type(joint_names=list(NODE.joint_names), speed_scaling_factor=1.0)
    for point in (message.reference, message.feedback):
        point.positions, point.velocities = [position] * NODE.dof, [velocity] * NODE.dof
    return message


NAN, INFINITE = [0.0, math.nan, 0.0], [0.0, 0.0, -math.inf]
REPORTS: dict[str, tuple[str, dict[str, object]]] = {
    "no joints": ("joint_missing", {"joint_names": [], "positions": [], "velocities": []}),
    "other joints": ("joint_missing", {"joint_names": ["left", "right"], "positions": [0.0] * 2, "velocities": []}),
    "joint missing": ("joint_missing", {"joint_names": ["joint_a", "joint_b", LONG]}),
    "line breaks": ("joint_missing", {"joint_names": ["joint_a", "joint_b", UGLY]}),
    "duplicate": (
        "duplicate_joint",
        {"joint_names": [*NODE.joint_names, "joint_a"], "positions": [0.0] * 4, "velocities": []},
    ),
    "no positions": ("joint_count", {"positions": []}),
    "fewer positions": ("joint_count", {"positions": [0.0] * 2}),
    "more velocities": ("joint_count", {"velocities": [0.0] * 4}),
    "fewer accelerations": ("joint_count", {"accelerations": [0.0]}),
    "NaN position": ("not_finite", {"positions": NAN}),
    "NaN velocity": ("not_finite", {"velocities": NAN}),
    "infinite velocity": ("not_finite", {"velocities": INFINITE}),
    "infinite acceleration": ("not_finite", {"accelerations": INFINITE}),
    "NaN speed": ("not_finite", {"speed_scaling_factor": math.nan}),
    "infinite speed": ("not_finite", {"speed_scaling_factor": math.inf}),
}


def spoilt_report(report_type: type, changes: dict[str, object]) -> object:
    message = good_report(report_type)
    for name, value in changes.items():
        setattr(message.reference if name in ("positions", "velocities", "accelerations") else message, name, value)
    return message


MILLENNIUM_S = 2**31 - 1
COMMITTED: dict[str, tuple[str, Committed.Request]] = {
    "too many rows": ("size_out_of_range", Committed.Request(rows=NODE.max_horizon + 2)),
    "rows 2^32 - 1": ("size_out_of_range", Committed.Request(rows=2**32 - 1)),
    "too many rows before": ("size_out_of_range", Committed.Request(rows=1, rows_before=NODE.max_horizon + 1)),
    "rows before 2^32 - 1": ("size_out_of_range", Committed.Request(rows=1, rows_before=2**32 - 1)),
    "dt negative": ("invalid_dt", Committed.Request(rows=1, dt=-0.02)),
    "dt denormal": ("invalid_dt", Committed.Request(rows=1, dt=5e-324)),
    "dt huge": ("invalid_dt", Committed.Request(rows=1, dt=1e300)),
    "dt NaN": ("not_finite", Committed.Request(rows=1, dt=math.nan)),
    "dt infinite": ("not_finite", Committed.Request(rows=1, dt=math.inf)),
    "in the future": ("future_sequence", Committed.Request(rows=1, stamp=Time(sec=MILLENNIUM_S))),
}
ODD_COMMITTED = (
    Committed.Request(),
    Committed.Request(rows=1, rows_before=NODE.max_horizon, stamp=Time(sec=-(2**31))),
    Committed.Request(rows=NODE.max_horizon + 1, dt=1e4, stamp=Time(sec=1)),
    Committed.Request(rows=2, rows_before=2, dt=1e-6, stamp=Time(nanosec=2**32 - 1)),
)
"""Requests that are answered."""


_COSTS: dict[str, tuple[str, dict[str, object]]] = {
    "weight too long": ("size_mismatch", {"weight": np.ones(25)}),
    "target too short": ("size_mismatch", {"weight": np.ones(3), "target": np.ones(2)}),
    "terminal weight of rows": ("size_mismatch", {"terminal_weight": np.ones(12)}),
    "limits of rows": ("size_mismatch", {"limit_weight": np.ones(3), "lower": np.ones(12)}),
    "weight NaN": ("not_finite", {"weight": [1.0, math.nan, 1.0]}),
    "target infinite": ("not_finite", {"weight": np.ones(3), "target": [math.inf] * 3}),
    "limit NaN": ("not_finite", {"limit_weight": np.ones(3), "upper": [math.nan] * 3}),
    "target without weight": ("invalid_cost", {"target": np.ones(3)}),
    "limits without weight": ("invalid_cost", {"upper": np.ones(3)}),
    "weight without limits": ("invalid_cost", {"limit_weight": np.ones(3)}),
    "limits crossed": ("invalid_cost", {"limit_weight": np.ones(3), "lower": np.ones(3), "upper": -np.ones(3)}),
    "overflow": ("non_finite_result", {"weight": np.full(3, 3e38), "target": np.full(3, 3e38)}),
}
EVALUATIONS: dict[str, tuple[str, Evaluate.Request]] = {
    **{
        f"{name} {what}": (reason, good_evaluation(**{name: cost_term(**fields)}))
        for name in ("position", "jerk")
        for what, (reason, fields) in _COSTS.items()
    },
    "row": ("row_out_of_range", good_evaluation(trajectory_rows=array("I", [0, 2]))),
    "row 2^32 - 1": ("row_out_of_range", good_evaluation(trajectory_rows=array("I", [2**32 - 1]))),
    "too many rows": ("size_out_of_range", good_evaluation(trajectory_rows=array("I", [0, 1, 0]))),
    "fields 16": ("invalid_fields", good_evaluation(trajectory_fields=16)),
    "fields 255": ("invalid_fields", good_evaluation(trajectory_fields=255)),
    "violations of 16": ("invalid_fields", good_evaluation(violation_fields=16)),
    "violations without limits": ("invalid_cost", good_evaluation(want_limit_violations=True)),
    "violations of what has no limits": (
        "invalid_cost",
        good_evaluation(jerk=cost_term(upper=np.ones(3)), want_limit_violations=True, violation_fields=9),
    ),
    "violations of others than the limits": (
        "invalid_cost",
        good_evaluation(
            jerk=cost_term(upper=np.ones(3)),
            position=cost_term(upper=np.ones(3)),
            want_limit_violations=True,
            violation_fields=8,
        ),
    ),
    "weight of two durations of three": ("size_mismatch", good_evaluation(duration_weight=np.ones(3))),
    "weight of a duration NaN": ("not_finite", good_evaluation(duration_weight=[math.nan])),
}
