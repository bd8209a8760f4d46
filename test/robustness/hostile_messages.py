"""Messages of every kind, ways to spoil them by the types of their fields, and the node's reactions."""

from __future__ import annotations

import copy
import math
import random
from array import array
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import numpy as np
from node_fixtures import JOINTS, plan
from pipelines import NOW_S, SimulatedNode, ns
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.client import packed, sequence
from traj_integrator_ros.node.accounts import Accounts
from traj_integrator_ros.node.services import Services
from traj_integrator_ros.requests.rejection import Rejected
from traj_integrator_ros.wire.readers import (
    controller_state_reader,
    read_action_sequence,
    read_joint_state,
    read_position_trajectory,
)

DOF, MAX_BATCH, MAX_HORIZON = len(JOINTS), 8, 16
PARAMETERS = {
    "joint_names": list(JOINTS),
    "dt": 0.02,
    "device": "cpu",
    "max_batch": MAX_BATCH,
    "max_horizon": MAX_HORIZON,
    "position_trajectory.max_points": MAX_HORIZON,
    "warmup": [f"{MAX_BATCH}x{MAX_HORIZON}"],
    "state_timeout": 0.0,
    "limits.start_deviation": 0.0,
    # The robot does not move, and no limits are given: they would count for ~/evaluate, too.
    "limits.assumed_velocity": 10.0,
    "supervision.deviation": 0.0,
    "publish.start_moving": True,
    "publish.bridge_time": 0.02,
}
ACTIONS, PLAN, STATE, REPORT = "action_sequence", "position_trajectory", "joint_states", "controller_state"
INTEGRATE, GRADIENT, EVALUATE, COMMITTED = "integrate", "compute_gradient", "evaluate", "committed"
SERVICES = {INTEGRATE: Integrate, GRADIENT: ComputeGradient, EVALUATE: Evaluate, COMMITTED: Committed}
OUTPUTS = ("position", "velocity", "acceleration", "jerk")
TERM_FIELDS = ("weight", "target", "terminal_weight", "limit_weight", "lower", "upper")
UNREAD = ("header", "velocities", "accelerations", "effort")
"""Fields that the node does not read, except stamps."""
LONG, UGLY = "j" * 10_000, "ü\n\x1b[31m"
NAMES = ("elbow", "", LONG, UGLY, "joint_a ", "JOINT_A", "\N{PILE OF POO}" * 100)
CLAIMS = (0, MAX_BATCH + 1, MAX_HORIZON + 1, 2**31 - 1, 2**31, 2**32 - 1)
EDGES = {
    "uint8": (0, 2, 6, 16, 255),
    "uint32": CLAIMS,
    "int32": (-(2**31), -1, 0, 2**31 - 1),
    "double": (math.nan, math.inf, -math.inf, -0.02, 5e-324, 1e300),
}
"""Numbers of each type that are wrong or unusual somewhere."""
IN_ARRAYS = {"I": (2, 2**32 - 1)} | dict.fromkeys("fd", (math.nan, math.inf, -math.inf, -0.0, -0.02, 1e-42, 1e30))


# Right ones


def good_sequence(**changes: object) -> ActionSequence:
    """A correct sequence `[2, 4, 3]` with changed fields; start_* and goal_* are parts of the states."""
    message = sequence(np.full((2, 4, DOF), 0.01), position=np.zeros(DOF), dt=[0.02])
    for name, value in changes.items():
        state, _, part = name.partition("_")
        if state in ("start", "goal") and part != "index":
            setattr(getattr(message, state), part, value)
        else:
            setattr(message, name, value)
    return message


def good_evaluation() -> Evaluate.Request:
    request = Evaluate.Request(actions=good_sequence())
    request.cost.position.weight = packed(np.ones(DOF))
    return request


def good_plan() -> JointTrajectory:
    """A plan of a hundredth of a second at rest."""
    return plan([0.0, 0.01], np.zeros((2, DOF)))


def good_report(report_type: type, position: float = 0.0, velocity: float = 0.0) -> object:
    """A report of a controller that commands a position, rad."""
    message = report_type(joint_names=list(JOINTS), speed_scaling_factor=1.0)
    for point in (message.reference, message.feedback):
        point.positions, point.velocities = [position] * DOF, [velocity] * DOF
    return message


def whole_sequence(control_space: int) -> ActionSequence:
    """A sequence with all fields that its control space allows."""
    spline = control_space == ActionSequence.BSPLINE
    goals = {f"goal_{part}": packed(np.zeros(2 * DOF)) for part in (OUTPUTS[:3] if spline else OUTPUTS[:1])}
    starts = {f"start_{part}": packed(np.zeros(2 * DOF)) for part in OUTPUTS[:3]}
    pools = {"start_index": array("I", [1, 0]), "goal_index": array("I", [0, 1])}
    form = {"degree": 3, "steps": 4} if spline else {}
    names, dt = list(JOINTS), packed([0.02] * 4)
    return good_sequence(control_space=control_space, joint_names=names, dt=dt, **goals, **starts, **pools, **form)


def whole_gradient() -> ComputeGradient.Request:
    """A request with all upstream gradients."""
    return ComputeGradient.Request(actions=good_sequence(), **{f"grad_{one}": packed(np.ones(24)) for one in OUTPUTS})


def whole_evaluation() -> Evaluate.Request:
    """A request with every kind of cost for two outputs and every optional result."""
    whole = good_evaluation()
    for output in ("position", "jerk"):
        for field in TERM_FIELDS:
            setattr(getattr(whole.cost, output), field, packed(np.full(DOF, -1.0 if field == "lower" else 1.0)))
    whole.cost.duration_weight = packed([1.0, 2.0])
    whole.want_limit_violations, whole.trajectory_rows = True, array("I", [1])
    return whole


def evaluation_of_pairs() -> Evaluate.Request:
    """A request whose parts need one another."""
    pairs = good_evaluation()
    pairs.cost.position.target = pairs.cost.jerk.limit_weight = pairs.cost.jerk.upper = packed(np.ones(DOF))
    return pairs


def state(*others: str) -> JointState:
    """A joint state at rest with these joints, too, then without velocities."""
    numbers = array("d", np.zeros(DOF + len(others)).tobytes())
    return JointState(name=[*JOINTS, *others], position=numbers, velocity=[] if others else numbers)


# Wrong ones


def each_fault(message: object, unread: tuple[str, ...] = UNREAD) -> Iterator[tuple[str, object]]:
    """The message with one field after the other changed to a wrong or unusual value of its type; and the field."""
    for path, owner, name in [*_fields(message, unread)]:
        right = getattr(owner, name)
        for value in _odd_values(owner, name):
            setattr(owner, name, value)
            yield path, copy.deepcopy(message)
        setattr(owner, name, right)


def spoilt(message: object, rng: random.Random) -> object:
    """The message with up to nine things changed, mostly wrong."""
    message = copy.deepcopy(message)
    for _ in range(rng.choice([1, 2, 3, 5, 9])):
        _, owner, name = rng.choice([*_fields(message, UNREAD)])
        setattr(owner, name, rng.choice(_odd_values(owner, name)))
    return message


def _fields(message: object, unread: tuple[str, ...], prefix: str = "") -> Iterator[tuple[str, object, str]]:
    """All fields without fields of their own: their full name, their message, and their own name."""
    for name, kind in message.get_fields_and_field_types().items():
        value, path = getattr(message, name), f"{prefix}{name}"
        if name in unread:
            continue
        if hasattr(value, "get_fields_and_field_types"):
            yield from _fields(value, unread, f"{path}.")
            continue
        yield path, message, name
        if isinstance(value, list) and kind != "sequence<string>":
            for number, one in enumerate(value):
                yield from _fields(one, unread, f"{path}[{number}].")


def _odd_values(owner: object, name: str) -> list[object]:
    """Values for a field: other lengths, numbers at the edges of its type, names of unknown joints."""
    kind, value = owner.get_fields_and_field_types()[name], getattr(owner, name)
    if kind == "sequence<string>":
        others = [[*value[:-1], one] for one in (*value[:1], *NAMES)]
        return [[], value[:-1], [*value, *value[:1]], [f"joint_{i}" for i in range(1_000)], *others]
    if isinstance(value, array):
        number = partial(array, value.typecode)
        if not value:
            return [number([0])]
        others = [value[:-1] + number([edge]) for edge in IN_ARRAYS[value.typecode]]
        return [value[:0], value[:-1], value + number([0]), 3 * value, *others]
    if isinstance(value, list):
        return [[], value[:1] * 17]
    return [not value] if kind == "boolean" else list(EDGES[kind])


# Their fate


def judged(channel: str, message: object, **parameters: object) -> str:
    """The node's reason to refuse a message, with a robot at rest at 0; empty if it is answered."""
    node = SimulatedNode(DOF, **PARAMETERS | parameters)
    node.measure(0.0)
    try:
        if channel in SERVICES:
            _assert_finite(_served(node, channel, message))
        else:
            _took(node, channel, message if isinstance(message, bytes) else bytes(serialize_message(message)), message)
    except Rejected as refused:
        return str(refused)
    return ""


def _took(node: SimulatedNode, channel: str, data: bytes, message: object) -> None:
    pipeline, now_ns = node.pipeline, ns(NOW_S)
    if channel == ACTIONS:
        stamp, fields = read_action_sequence(data)
        request = pipeline.batches.checked(fields)
        pipeline.batches.integrate(request, pipeline.batches.started(request, lambda: now_ns))
        pipeline.follow(pipeline.sequence(request, ns(stamp[0]), now_ns), now_ns)
    elif channel == PLAN:
        pipeline.follow(pipeline.plan(read_position_trajectory(data, MAX_HORIZON), now_ns), now_ns)
    elif channel == STATE:
        names, position, velocity, stamp_ns = read_joint_state(data)
        pipeline.joint_state(position, velocity, now_ns, stamp_ns, names)
    else:
        *fields, stamp_ns, speed = controller_state_reader(type(message))(data)
        pipeline.controller_reports.report(*fields, stamp_ns, speed)


def _served(node: SimulatedNode, channel: str, request: object) -> object:
    turns = SimpleNamespace(update=lambda: ns(NOW_S), read=lambda: ns(NOW_S), beside=lambda size, work: work())
    response = SERVICES[channel].Response()
    steps = getattr(Services(None, Accounts(None), node.published, turns), channel)(node.pipeline, request, response)
    assert not [*(steps or ())], "it takes no time"
    return response


def arrays_of(message: object) -> Iterator[tuple[str, np.ndarray]]:
    """All arrays of numbers in a message, and their names."""
    for name in message.get_fields_and_field_types():
        value = getattr(message, name)
        if isinstance(value, array):
            yield name, np.asarray(value)
        elif hasattr(value, "get_fields_and_field_types"):
            yield from arrays_of(value)


def _assert_finite(answer: object) -> None:
    """Check that all numbers of an answer are finite; unknown commands and states are NaN, missing limits -inf."""
    for name, values in arrays_of(answer):
        if name.split("_")[0] not in ("commanded", "measured"):
            assert (values < np.inf).all() and (name.startswith("violation") or np.isfinite(values).all()), name
