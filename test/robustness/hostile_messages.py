"""Strategies for messages, any number of them: one that is all right, and then up to three things done to it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator

import numpy as np
from hostile_cases import LONG, NODE, UGLY
from hostile_oracle import OUTPUTS
from hypothesis import strategies as st
from node_fixtures import plan
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate
from traj_integrator_ros.traffic.messages import floats

Draw = Callable[[st.SearchStrategy], object]
FLOAT32_MAX = 3.4028235e38
UGLY_FLOATS = (math.nan, math.inf, -math.inf)
ODD_FLOATS = (*UGLY_FLOATS, 0.0, -0.0, 1e-42, -1e-42, -0.02, 1e30, FLOAT32_MAX, -FLOAT32_MAX)
CLAIMS = (0, NODE.max_batch + 1, NODE.max_horizon + 1, 2**31 - 1, 2**31, 2**32 - 1)
INDEX = st.integers(0, 2**16)
UINT32 = st.one_of(st.sampled_from(CLAIMS), st.integers(0, 20), st.integers(0, 2**32 - 1))
NAMES = st.one_of(
    st.sampled_from([*NODE.joint_names, "", LONG, UGLY, "joint_a ", "JOINT_A", "\N{PILE OF POO}" * 100]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
)
FLOAT32 = st.one_of(st.sampled_from(UGLY_FLOATS), st.sampled_from(ODD_FLOATS), st.floats(width=32))


def sequences() -> st.SearchStrategy[ActionSequence]:
    """Action sequences, most of them with something wrong."""
    return right_sequences().flatmap(spoilt)


@st.composite
def gradient_requests(draw: Draw) -> ComputeGradient.Request:
    """Requests for gradients, most with something wrong in the actions or in the upstream gradients."""
    request = ComputeGradient.Request(actions=draw(right_sequences()))
    size = len(request.actions.data)
    for name in draw(st.sets(st.sampled_from(OUTPUTS), min_size=1)):
        setattr(request, f"grad_{name}", _tame(draw, size))
    if draw(st.booleans()):
        request.actions.data = floats([])
    return draw(spoilt(request))


@st.composite
def evaluation_requests(draw: Draw) -> Evaluate.Request:
    """Requests for costs, most with something wrong in the actions, in the cost or in what is asked for."""
    request = Evaluate.Request(actions=draw(right_sequences()))
    for name in draw(st.sets(st.sampled_from(OUTPUTS), min_size=1)):
        term = getattr(request.cost, name)
        for field in draw(st.sampled_from((("weight",), ("weight", "target"), ("limit_weight", "lower")))):
            setattr(term, field, _tame(draw, NODE.dof))
    for wanted in ("action", "start", "goal", "dt"):
        setattr(request, f"want_grad_{wanted}", draw(st.booleans()))
    request.want_limit_violations = draw(st.booleans())
    request.cost.duration_weight = _tame(draw, draw(st.sampled_from((0, 1, request.actions.batch))))
    return draw(spoilt(request))


@st.composite
def plans(draw: Draw) -> JointTrajectory:
    """Trajectories of positions and times, most of them with something wrong."""
    names = draw(st.permutations(NODE.joint_names))[: draw(st.integers(1, NODE.dof))]
    steps = draw(st.lists(st.integers(1, 10**9), min_size=1, max_size=6))
    times = np.cumsum(steps) - (steps[0] if draw(st.booleans()) else 0)
    message = plan(times * 1e-9, np.asarray(_tame(draw, len(steps) * len(names))).reshape(len(steps), -1), names)
    if draw(st.booleans()):
        message.header.stamp.sec = draw(st.integers(-(2**31), 10**9))
    return draw(spoilt(message))


@st.composite
def states(draw: Draw) -> JointState:
    """Joint states without a stamp, most of them with something wrong."""
    names = draw(st.permutations([*NODE.joint_names, "gripper"]))
    message = JointState(name=names, position=array("d", _tame(draw, 4)))
    if draw(st.booleans()):
        message.velocity = array("d", _tame(draw, 4))
    return draw(spoilt(message))


@st.composite
def damaged(draw: Draw, serialized: bytes, first_word: int = 1) -> bytes:
    """Bytes of a message, cut off, with other lengths in them, or replaced by others; whole words, as DDS pads them."""
    words = len(serialized) // 4
    data = bytearray(serialized[: 4 * words])
    kind = draw(st.sampled_from(("cut", "claim", "noise")))
    at = 4 * draw(st.integers(first_word, words - 1))
    if kind == "cut":
        return bytes(data[:at])
    if kind == "claim":
        data[at : at + 4] = draw(st.sampled_from((*CLAIMS, 10**6, 2**28))).to_bytes(4, "little")
    else:
        data[at:] = draw(st.randoms(use_true_random=False)).randbytes(4 * draw(st.integers(1, 64)))
    return bytes(data)


@st.composite
def right_sequences(draw: Draw) -> ActionSequence:
    """Sequences that break no rule, of every kind that there is."""
    batch, horizon = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rows = draw(st.sampled_from((0, 1, batch, 5)))
    message = ActionSequence(batch=batch, horizon=horizon, data=_tame(draw, batch * horizon * NODE.dof))
    message.control_space = draw(st.integers(0, 5))
    is_spline = message.control_space == ActionSequence.BSPLINE
    message.joint_names = draw(st.one_of(st.just([]), st.permutations(NODE.joint_names)))
    message.dt = floats([0.02] * draw(st.sampled_from((0, 1, horizon, batch * horizon))))
    if is_spline:
        message.degree, message.steps = draw(st.sampled_from((0, 3, 4, 5))), draw(st.integers(0, 5))
    if is_spline or (message.control_space < 2 <= horizon and draw(st.booleans())):
        message.goal.position = _tame(draw, draw(st.sampled_from((0, NODE.dof, batch * NODE.dof))))
        if is_spline and message.goal.position:
            message.goal.velocity = _tame(draw, len(message.goal.position))
    if rows:
        message.start.position = _tame(draw, rows * NODE.dof)
        message.start.velocity = _tame(draw, draw(st.sampled_from((0, rows * NODE.dof))))
        message.start.acceleration = _tame(draw, draw(st.sampled_from((0, rows * NODE.dof))))
    if rows not in (0, 1, batch) or draw(st.booleans()):
        message.start_index = array("I", [draw(INDEX) % max(rows, 1) for _ in range(batch)])
    return message


def _tame(draw: Draw, length: int) -> array:
    seed = draw(st.integers(0, 2**32 - 1))
    return floats(np.random.default_rng(seed).normal(scale=0.1, size=length))


INTEGERS = {
    "uint8": st.integers(0, 255),
    "uint32": UINT32,
    "int32": st.sampled_from((-(2**31), -1, 0, 2**31 - 1)) | st.integers(-(2**31), 2**31 - 1),
}
UNREAD = ("header", "velocities", "accelerations", "effort")
"""Fields that the node does not read, but for stamps."""


@st.composite
def spoilt(draw: Draw, message: object) -> object:
    """A message with up to nine of its fields changed: other numbers, names or lengths."""
    for _ in range(draw(st.sampled_from([0, 2, 4, 5, 6, 7, 8, 9]))):
        owner, name = draw(st.sampled_from(list(_fields(message))))
        kind, value = owner.get_fields_and_field_types()[name], getattr(owner, name)
        if kind == "sequence<string>":
            value = _other_names(draw, list(value))
        elif isinstance(value, array):
            value = _other_numbers(draw, value)
        else:  # points, or a number
            value = (value * 17)[: draw(st.sampled_from((0, 17)))] if isinstance(value, list) else draw(INTEGERS[kind])
        setattr(owner, name, value)
    return message


def _fields(message: object) -> Iterator[tuple[object, str]]:
    """All fields that have no fields themselves, and whose they are."""
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if name in UNREAD or kind == "boolean":
            continue
        if hasattr(value, "get_fields_and_field_types"):
            yield from _fields(value)
            continue
        yield message, name
        if isinstance(value, list) and kind != "sequence<string>":
            for one in value:
                yield from _fields(one)


def _other_names(draw: Draw, names: list[str]) -> list[str]:
    how = draw(st.sampled_from(("replace", "drop", "add", "all")))
    if how == "all":
        return draw(st.lists(NAMES, max_size=5))
    if how == "add" or not names:
        names.insert(draw(INDEX) % (len(names) + 1), draw(NAMES))
    elif how == "drop":
        del names[draw(INDEX) % len(names)]
    else:
        names[draw(INDEX) % len(names)] = draw(NAMES)
    return names


def _other_numbers(draw: Draw, values: array) -> array:
    if len(values) and draw(st.booleans()):
        values[draw(INDEX) % len(values)] = draw(UINT32 if values.typecode == "I" else FLOAT32)
        return values
    length = draw(st.one_of(st.just(len(values) + 1), st.just(max(0, len(values) - 1)), st.integers(0, 60)))
    return array(values.typecode, np.resize(np.asarray(values or [0]), length).tolist())
