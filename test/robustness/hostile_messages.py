"""Messages of every kind: right ones, and what can be done to them by the types of their fields, and to their bytes."""

from __future__ import annotations

import copy
import math
import random
from array import array
from collections.abc import Iterator
from functools import partial

import numpy as np
from hostile_oracle import OUTPUTS, TERM_FIELDS, Settings
from node_fixtures import JOINTS, plan
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate
from traj_integrator_ros.client import packed, sequence

NODE = Settings(JOINTS, max_batch=8, max_horizon=16, dt_s=0.02)
LONG, UGLY = "j" * 10_000, "ü\n\x1b[31m"
CLAIMS = (0, NODE.max_batch + 1, NODE.max_horizon + 1, 2**31 - 1, 2**31, 2**32 - 1)
NAMES = ("elbow", "", LONG, UGLY, "joint_a ", "JOINT_A", "\N{PILE OF POO}" * 100)
EDGES = {
    "uint8": (0, 2, 6, 16, 255),
    "uint32": CLAIMS,
    "int32": (-(2**31), -1, 0, 2**31 - 1),
    "double": (math.nan, math.inf, -math.inf, -0.02, 5e-324, 1e300),
}
"""Numbers of each type that are wrong or odd somewhere."""
IN_ARRAYS = {"I": (2, 2**32 - 1)} | dict.fromkeys("fd", (math.nan, math.inf, -math.inf, -0.0, -0.02, 1e-42, 1e30))
UNREAD = ("header", "velocities", "accelerations", "effort")
"""Fields that the node does not read, but for stamps."""


# Right ones


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


def good_evaluation(actions: ActionSequence | None = None) -> Evaluate.Request:
    """A request for what a sequence costs."""
    request = Evaluate.Request(actions=actions or good_sequence())
    request.cost.position.weight = packed(np.ones(NODE.dof))
    return request


def good_plan(position: float = 0.0, stamp_s: int = 0) -> JointTrajectory:
    """A hundredth of a second at rest; the trajectory ends in this position, rad."""
    message = plan([0.0, 0.01], np.full((2, NODE.dof), position))
    message.header.stamp.sec = stamp_s
    return message


def good_report(report_type: type, position: float = 0.0, velocity: float = 0.0) -> object:
    """A report of a controller that commands a position, rad."""
    message = report_type(joint_names=list(NODE.joint_names), speed_scaling_factor=1.0)
    for point in (message.reference, message.feedback):
        point.positions, point.velocities = [position] * NODE.dof, [velocity] * NODE.dof
    return message


def whole_sequence(control_space: int) -> ActionSequence:
    """A sequence with all fields that its control space allows."""
    parts = OUTPUTS[:3] if control_space == ActionSequence.BSPLINE else OUTPUTS[:1]
    goals = {f"goal_{part}": packed(np.zeros(2 * NODE.dof)) for part in parts}
    starts = {f"start_{part}": packed(np.zeros(2 * NODE.dof)) for part in OUTPUTS[:3]}
    pools = {"start_index": array("I", [1, 0]), "goal_index": array("I", [0, 1])}
    form = {"degree": 3, "steps": 4} if control_space == ActionSequence.BSPLINE else {}
    names, dt = list(NODE.joint_names), packed([0.02] * 4)
    return good_sequence(control_space=control_space, joint_names=names, dt=dt, **goals, **starts, **pools, **form)


def whole_gradients() -> list[ComputeGradient.Request]:
    """Requests with all upstream gradients."""
    gradients = {f"grad_{name}": packed(np.ones(24)) for name in OUTPUTS}
    return [ComputeGradient.Request(actions=good_sequence(), **gradients)]


def whole_evaluations() -> list[Evaluate.Request]:
    """A request with all that costs of two outputs and can be asked for, and one in which each part needs another."""
    whole, pairs = good_evaluation(), good_evaluation()
    for output in ("position", "jerk"):
        for field in TERM_FIELDS:
            setattr(getattr(whole.cost, output), field, packed(np.full(NODE.dof, -1.0 if field == "lower" else 1.0)))
    whole.cost.duration_weight = packed([1.0, 2.0])
    whole.want_limit_violations, whole.trajectory_rows = True, array("I", [1])
    pairs.cost.position.target = pairs.cost.jerk.limit_weight = pairs.cost.jerk.upper = packed(np.ones(NODE.dof))
    return [whole, pairs]


def whole_plans() -> list[JointTrajectory]:
    """Plans of some points, and of one."""
    return [plan([0.0, 0.1, 0.2], np.zeros((3, NODE.dof))), plan([0.1], np.zeros((1, NODE.dof)))]


def whole_states() -> list[JointState]:
    """Joint states of the joints, and of more."""
    numbers = floats64(np.zeros(NODE.dof))
    more = JointState(name=[*NODE.joint_names, "gripper"], position=floats64(np.zeros(NODE.dof + 1)))
    return [JointState(name=NODE.joint_names, position=numbers, velocity=numbers), more]


def floats64(values: object) -> array:
    return array("d", np.asarray(values, np.float64).tobytes())


# Wrong ones


def each_fault(message: object, unread: tuple[str, ...] = UNREAD) -> Iterator[object]:
    """The message, and with each of its fields in turn changed to what is wrong, or odd, for the field's type."""
    yield copy.deepcopy(message)
    for owner, name in list(_fields(message, unread)):
        right = getattr(owner, name)
        for value in _odd_values(owner, name):
            setattr(owner, name, value)
            yield copy.deepcopy(message)
        setattr(owner, name, right)


def spoilt(messages: list, rng: random.Random) -> object:
    """One of some messages with up to nine things changed, mostly wrong."""
    message = copy.deepcopy(rng.choice(messages))
    for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 9])):
        owner, name = rng.choice(list(_fields(message, UNREAD)))
        setattr(owner, name, rng.choice(_odd_values(owner, name)))
    return message


def damaged(serialized: bytes, first_word: int, rng: random.Random) -> bytes:
    """Bytes of a message, cut off, with other lengths in them, or replaced by others; whole words, as DDS pads them."""
    words = len(serialized) // 4
    at = 4 * rng.randrange(first_word, words)
    claim = rng.choice((*CLAIMS, 10**6, 2**28)).to_bytes(4, "little")
    end = 4 * words
    return serialized[:at] + rng.choice([b"", claim + serialized[at + 4 : end], rng.randbytes(4 * rng.randint(1, 64))])


def _fields(message: object, unread: tuple[str, ...]) -> Iterator[tuple[object, str]]:
    """All fields that have no fields themselves, and whose they are."""
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if name in unread:
            continue
        if hasattr(value, "get_fields_and_field_types"):
            yield from _fields(value, unread)
            continue
        yield message, name
        if isinstance(value, list) and kind != "sequence<string>":
            for one in value:
                yield from _fields(one, unread)


def _odd_values(owner: object, name: str) -> list[object]:
    """Values for a field: other lengths, numbers at the edges of its type, names that no joint has."""
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
