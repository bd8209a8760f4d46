"""Every field of every message spoilt in every way: the reaction of the node's processing, without ROS."""

from __future__ import annotations

import random
from itertools import groupby

import numpy as np
import pytest
from hostile_messages import (
    ACTIONS,
    COMMITTED,
    DOF,
    EVALUATE,
    GRADIENT,
    INTEGRATE,
    MAX_BATCH,
    MAX_HORIZON,
    OUTPUTS,
    PLAN,
    REPORT,
    STATE,
    TERM_FIELDS,
    UNREAD,
    each_fault,
    evaluation_of_pairs,
    good_report,
    good_sequence,
    judged,
    spoilt,
    state,
    whole_evaluation,
    whole_gradient,
    whole_sequence,
)
from node_fixtures import plan

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.client import packed

pytestmark = pytest.mark.ros
OPTIONAL = "ok 3*size_mismatch 3*not_finite 4*ok"
LIMITS = "ok 3*size_mismatch not_finite "
PLANNED = "4*joint_count 3*not_finite:points.positions 4*ok"
SEQUENCE = {
    "joint_names": "ok joint_count duplicate_joint unknown_joint duplicate_joint 7*unknown_joint",
    "control_space": "ok goal_not_supported:goal.position 3*invalid_control_space",
    "batch": "6*size_out_of_range",
    "horizon": "size_out_of_range size_mismatch:data 4*size_out_of_range",
    "dt": "ok 3*size_mismatch 3*not_finite 4*invalid_dt",
    "dt_per": "ok 4*invalid_dt",
    "start.position": "size_mismatch:start.velocity 2*size_mismatch size_mismatch:start.velocity 3*not_finite 4*ok",
    "start.velocity": OPTIONAL,
    "start.acceleration": OPTIONAL,
    "start_index": "ok 3*size_mismatch 2*start_index_out_of_range",
    "data": "4*size_mismatch 3*not_finite 4*ok",
    "goal.position": "size_mismatch:goal_index 2*size_mismatch ok 3*not_finite 4*ok",
    "goal.velocity": "goal_not_supported",
    "goal.acceleration": "goal_not_supported",
    "goal_index": "ok 3*size_mismatch 2*goal_index_out_of_range",
    "degree": "ok 4*invalid_spline",
    "steps": "ok 4*invalid_spline",
}
SPLINE = SEQUENCE | {
    "control_space": "2*invalid_spline:degree 3*invalid_control_space",
    "goal.position": "size_mismatch:goal.velocity 2*size_mismatch size_mismatch:goal.velocity 3*not_finite 4*ok",
    "goal.velocity": OPTIONAL,
    "goal.acceleration": OPTIONAL,
    "steps": "5*ok",
}
ASKED = {
    **dict.fromkeys(("want_grad_action", "want_grad_start", "want_grad_goal", "want_grad_dt"), "ok"),
    "want_limit_violations": "ok",
    "trajectory_fields": "3*ok 2*invalid_fields",
}
NO_COST = {f"cost.{output}.{field}": "size_mismatch" for output in OUTPUTS for field in TERM_FIELDS}
EXPECTED = {
    "positions": (ACTIONS, whole_sequence(ActionSequence.POSITION), SEQUENCE),
    "spline": (ACTIONS, whole_sequence(ActionSequence.BSPLINE), SPLINE),
    "plan": (PLAN, plan([0.0, 0.1], np.zeros((2, DOF))), {
        "joint_names": "joint_count joint_count:points[0].positions duplicate_joint unknown_joint duplicate_joint "
        "7*unknown_joint",
        "points": "2*size_out_of_range",
        "points[0].positions": PLANNED,
        "points[0].time_from_start.sec": "2*invalid_times:points[0].time_from_start ok "
        "invalid_times:points[1].time_from_start",
        "points[0].time_from_start.nanosec": "3*ok 3*invalid_times:points[1].time_from_start",
        "points[1].positions": PLANNED,
        "points[1].time_from_start.sec": "2*invalid_times:points[1].time_from_start ok invalid_times:dt",
        "points[1].time_from_start.nanosec": "invalid_times:points.time_from_start 5*ok",
    }),
    "state": (STATE, state(), {
        "name": "joint_count joint_count:position duplicate_joint ok duplicate_joint 7*ok",
        "position": "4*joint_count 3*not_finite 4*ok",
        "velocity": "ok 3*joint_count ok 2*not_finite 4*ok",
    }),
    "state of more joints": (STATE, state("gripper"), {
        "name": "joint_count joint_count:position duplicate_joint ok duplicate_joint 7*ok",
        "position": "4*joint_count 7*ok",
        "velocity": "joint_count",
    }),
    "integration": (INTEGRATE, Integrate.Request(actions=good_sequence()), {
        "fields": "3*ok 2*invalid_fields", "as_published": "ok",
    }),
    "gradient": (GRADIENT, whole_gradient(), {
        f"grad_{output}": "ok 3*gradient_length 3*not_finite 4*ok" for output in OUTPUTS
    }),
    "evaluation": (EVALUATE, whole_evaluation(), NO_COST | ASKED | {
        **{f"cost.position.{field}": OPTIONAL for field in TERM_FIELDS},
        "cost.position.target": "ok 3*size_mismatch 3*not_finite 3*ok non_finite_result:cost",
        "cost.position.lower": f"{LIMITS}invalid_cost 4*ok invalid_cost",
        "cost.position.upper": f"{LIMITS}ok invalid_cost:cost.position.lower 4*ok",
        **{f"cost.jerk.{field}": "ok 3*size_mismatch 3*not_finite 3*ok non_finite_result:grad_action"
           for field in TERM_FIELDS},
        "cost.jerk.target": "ok 3*size_mismatch 3*not_finite 3*ok non_finite_result:cost",
        "cost.jerk.lower": f"{LIMITS}invalid_cost 4*ok invalid_cost",
        "cost.jerk.upper": f"{LIMITS}ok invalid_cost:cost.jerk.lower 4*ok",
        "cost.duration_weight": "2*ok 2*size_mismatch 3*not_finite 4*ok",
        "trajectory_rows": "3*ok size_out_of_range 2*row_out_of_range",
        "violation_fields": "ok 2*invalid_cost:cost.velocity.lower 2*invalid_fields",
    }),
    "evaluation of pairs": (EVALUATE, evaluation_of_pairs(), NO_COST | ASKED | {
        "cost.position.weight": "invalid_cost:cost.position.target 3*size_mismatch 3*not_finite 4*ok",
        "cost.position.target": "ok 3*size_mismatch 3*not_finite 3*ok non_finite_result:cost",
        "cost.jerk.limit_weight": "invalid_cost 3*size_mismatch 3*not_finite 3*ok non_finite_result:grad_action",
        "cost.jerk.upper": "invalid_cost:cost.jerk.lower 3*size_mismatch not_finite ok non_finite_result:cost 4*ok",
        "cost.duration_weight": "ok",
        "trajectory_rows": "ok",
        "violation_fields": "3*ok 2*invalid_fields",
    }),
    "committed": (COMMITTED, Committed.Request(rows=2, rows_before=2, dt=0.02), {
        "stamp.sec": "3*ok future_sequence:stamp",
        "stamp.nanosec": "6*ok",
        "dt": "3*not_finite 3*invalid_dt",
        "rows": "3*ok 3*size_out_of_range",
        "rows_before": "2*ok 4*size_out_of_range",
    }),
}  # fmt: skip
"""Channel, message, and for each field the reactions to its unusual values, in their order.

A field is named where it is another than the one that was changed; n*word stands for n in a row.
"""
OF_REPORT = {
    "joint_names": "2*joint_missing duplicate_joint joint_missing duplicate_joint 7*joint_missing",
    "reference.positions": "4*joint_count 3*not_finite 4*ok",
    "reference.velocities": "ok 3*joint_count ok 2*not_finite 4*ok",
    "reference.accelerations": "ok 3*joint_count ok 2*not_finite 4*ok",
    "speed_scaling_factor": "3*not_finite 2*ok not_finite",
}


def told(channel: str, message: object, unread: tuple[str, ...] = UNREAD) -> dict[str, str]:
    """Reactions to a message by the spoilt field, as in EXPECTED."""
    found: dict[str, list[str]] = {}
    for path, spoilt_one in each_fault(message, unread):
        reason, _, text = judged(channel, spoilt_one).partition(": ")
        field = text.partition(": ")[0].removeprefix(f"{channel}.")
        found.setdefault(path, []).append((reason if field == path else f"{reason}:{field}") if reason else "ok")
    runs = {path: [(word, len([*run])) for word, run in groupby(words)] for path, words in found.items()}
    return {path: " ".join(f"{n}*{word}" if n > 1 else word for word, n in run) for path, run in runs.items()}


@pytest.mark.parametrize("case", EXPECTED)
def test_every_field_spoilt_in_every_way_is_refused_for_its_reason(case: str) -> None:
    channel, message, expected = EXPECTED[case]
    assert judged(channel, message) == ""
    assert told(channel, message, (*UNREAD, "actions")) == expected


def test_every_field_of_a_report_is_refused_for_its_reason(report_type: type) -> None:
    message = good_report(report_type)
    message.reference.accelerations = [0.0] * DOF
    fields = report_type.get_fields_and_field_types()
    unread = {*fields} - {"joint_names", "reference", "speed_scaling_factor"} | {"effort", "time_from_start"}
    assert told(REPORT, message, tuple(unread)) == OF_REPORT


def test_services_refuse_sequences_in_the_words_of_the_topic() -> None:
    for _, message in each_fault(whole_sequence(ActionSequence.POSITION)):
        refusal = judged(ACTIONS, message)
        for channel, kind in ((INTEGRATE, Integrate), (EVALUATE, Evaluate), (GRADIENT, ComputeGradient)):
            needs_no_data = channel == GRADIENT and not message.data
            assert judged(channel, kind.Request(actions=message)) == ("" if needs_no_data else refusal)


HUGE, ALL_HUGE = packed([3e38] + [0.0] * 23), packed([3e38] * 24)
LATE = plan([0.0, 1.0], [[0.0] * DOF, [1e9] * DOF])
LATE.points[1].time_from_start.sec = 2**31 - 1
MANY_STARTS = good_sequence(start_position=[0.0] * (MAX_BATCH + 1) * DOF, start_index=[0, MAX_BATCH])


@pytest.mark.parametrize(
    ("channel", "message", "refusal"),
    [
        (INTEGRATE, Integrate.Request(actions=good_sequence(data=HUGE)), "non_finite_result: velocity: "),
        (GRADIENT, ComputeGradient.Request(actions=good_sequence(), grad_jerk=ALL_HUGE), "non_finite_result: "),
        (PLAN, plan([0.0, 1e-9], [[0.0] * DOF, [1e308] * DOF]), "non_finite_result: "),
        (ACTIONS, MANY_STARTS, "size_out_of_range: start.position: "),
        (COMMITTED, Committed.Request(rows=MAX_HORIZON + 2), "size_out_of_range: rows: "),
        (PLAN, LATE, "invalid_times: "),  # the point at rest that belongs after it is later than a message can say
        (ACTIONS, good_sequence(horizon=1, data=HUGE[:6], goal_position=[0.0] * DOF), "size_out_of_range: horizon: "),
    ],
)  # fmt: skip
def test_what_is_too_much_for_an_answer_is_refused(channel: str, message: object, refusal: str) -> None:
    assert judged(channel, message).startswith(refusal)


@pytest.mark.parametrize("case", EXPECTED)
def test_input_wrong_in_several_ways_is_refused_or_answered_finite(case: str) -> None:
    channel, message, _ = EXPECTED[case]
    rng = random.Random(0)
    for _ in range(100):
        line = judged(channel, spoilt(message, rng))
        assert len(line) < 600 and line.isprintable()
