"""Requests that differ from an earlier one in numbers only: what is read of them, and where it goes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_messages import check_same, filled
from rclpy.serialization import deserialize_message, serialize_message

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.wire import kept_messages as keeping
from traj_integrator_ros.wire.borrowed_services import VARYING, _converted_by
from traj_integrator_ros.wire.kept_messages import MOST_KEPT
from traj_integrator_ros.wire.repeated_requests import RepeatedRequests
from traj_integrator_ros.wire.struct_layout import StructLayout

pytestmark = pytest.mark.ros
_native = keeping._native
compiled = pytest.mark.skipif(_native is None, reason="traj_integrator_ros.wire._native is not built")
CHANGING = VARYING | {"grad_position", "grad_velocity", "grad_acceleration", "grad_jerk"}


class Reader:
    """Reads requests of a service from their bytes, one after the other."""

    def __init__(self, service: type) -> None:
        self.requests = RepeatedRequests(StructLayout(service.Request), CHANGING)
        self._type = _converted_by(service.Request, self.requests.read)

    def __call__(self, message: object) -> tuple:
        serialized = message if isinstance(message, bytes) else serialize_message(message)
        request = deserialize_message(serialized, self._type)
        if isinstance(request, Exception):
            raise request
        return request

    @property
    def kept(self) -> list[tuple]:
        """The requests that are kept, the last used first."""
        return [request for _, request in self.requests._kept._kept]

    def all(self, messages: Iterable[object]) -> tuple:
        """Read some requests and return the last one."""
        return [self(message) for message in messages][-1]


def floats(*values: float) -> array:
    return array("f", values)


def evaluation(seed: int = 0, horizon: int = 3) -> Evaluate.Request:
    """A request with something in every kind of field, for 2 trajectories of 2 joints; numbers by `seed`."""
    request = Evaluate.Request(trajectory_rows=array("I", [1]), trajectory_fields=2)
    actions, cost = request.actions, request.cost
    actions.header.frame_id = "base"
    actions.joint_names = ["shoulder", "elbow"]
    actions.control_space, actions.batch, actions.horizon = ActionSequence.BSPLINE, 2, horizon
    actions.degree, actions.steps = 4, 2
    actions.dt, actions.data = floats(0.1, 0.2), floats(*range(4 * horizon))
    actions.start.position, actions.start_index = floats(1, 2, 3, 4), array("I", [1, 0])
    actions.goal.position, actions.goal_index = floats(5, 6), array("I", [0, 0])
    cost.position.weight, cost.position.target = floats(1, 2), floats(*range(6))
    cost.velocity.terminal_weight = floats(3, 4)
    cost.jerk.limit_weight, cost.jerk.lower, cost.jerk.upper = floats(1, 1), floats(-1, -2), floats(1, np.inf)
    return renumbered(request, seed)


def renumbered(message: object, seed: int) -> object:
    """The message with other numbers where they may change."""
    rng = np.random.default_rng(seed)
    for owner, name in places_of(message):
        if name in CHANGING:
            setattr(owner, name, floats(*rng.normal(size=len(getattr(owner, name)))))
    return message


def bytes_of(request: object) -> int:
    """Bytes of all arrays of a request."""
    if isinstance(request, np.ndarray):
        return request.nbytes
    return sum(map(bytes_of, request)) if isinstance(request, tuple) else 0


def places_of(message: object) -> Iterable[tuple[object, str]]:
    """All arrays of floating-point numbers in a message: what has them, and their names."""
    for name in message.get_fields_and_field_types():
        value = getattr(message, name)
        if hasattr(value, "get_fields_and_field_types"):
            yield from places_of(value)
        elif isinstance(value, array) and value.typecode == "f":
            yield message, name


@pytest.fixture
def read() -> Reader:
    return Reader(Evaluate)


@compiled
def test_from_the_third_time_on_the_numbers_are_also_read_into_the_request_that_was_kept(read: Reader):
    read(evaluation(0))
    kept = read(evaluation(1))
    for seed in range(2, 6):
        message = evaluation(seed)
        message.actions.header.stamp.sec = seed
        request = read(message)
        assert request.kept is kept is not request
        check_same(request, message)
        check_same(kept, message, skipped="header")
        assert kept.actions.header.stamp.sec == 0


@compiled
def test_what_is_answered_is_itself_read_with_the_numbers_of_the_next_ones(read: Reader):
    kept = read.all(evaluation(seed) for seed in range(3)).kept
    kept.answer = "an answer"
    for seed in range(3, 6):
        message = evaluation(seed)
        assert read(message) is kept
        check_same(kept, message)
    kept.answer = None
    assert read(evaluation(6)).kept is kept, "it is read as before when there is no answer any more"


@compiled
def test_a_header_makes_no_difference(read: Reader):
    kept = read.all(evaluation(seed) for seed in range(2))
    kept.answer = "an answer"
    message = evaluation(2)
    message.actions.header.frame_id, message.actions.header.stamp.nanosec = "a longer one", 7
    assert read(message) is kept


CHANGES = {
    "actions.joint_names": ["elbow", "shoulder"],
    "actions.joint_names of other lengths": ["shoulde", "relbow"],
    "actions.joint_names, fewer": ["shoulder"],
    "actions.joint_names, more": ["shoulder", "elbow", "wrist"],
    "actions.control_space": ActionSequence.POSITION,
    "actions.batch": 3,
    "actions.horizon": 2,
    "actions.dt": floats(0.1, 0.3),
    "actions.dt, fewer": floats(0.1),
    "actions.start.position": floats(1, 2),
    "actions.start.velocity": floats(1, 2, 3, 4),
    "actions.start_index": array("I", [0, 0]),
    "actions.data": floats(*range(13)),
    "actions.data, none": floats(),
    "actions.goal.position": floats(),
    "actions.goal_index": array("I", []),
    "actions.degree": 5,
    "actions.steps": 3,
    "cost.position.target": floats(0, 0),
    "cost.velocity.weight": floats(0, 0),
    "cost.jerk.limit_weight": floats(1, 2),
    "cost.jerk.lower": floats(-1, -3),
    "cost.jerk.upper": floats(2, np.inf),
    "want_grad_action": False,
    "want_grad_dt": True,
    "trajectory_rows": array("I", [0]),
    "trajectory_fields": 4,
}


@compiled
@pytest.mark.parametrize("what", CHANGES)
def test_a_request_that_differs_in_anything_else_is_another_one(read: Reader, what: str):
    kept = read.all(evaluation(seed) for seed in range(2))
    kept.answer = "an answer"
    before = np.array(kept.actions.data)
    message = owner = evaluation(2)
    *path, name = what.partition(",")[0].partition(" ")[0].split(".")
    for part in path:
        owner = getattr(owner, part)
    assert getattr(owner, name) != CHANGES[what]
    setattr(owner, name, CHANGES[what])
    request = read(message)
    assert request.kept is None and request.answer is None
    check_same(request, message)
    np.testing.assert_array_equal(kept.actions.data, before, err_msg="nothing was read into it")
    assert read(evaluation(3)) is kept


@compiled
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2, -1])
def test_numbers_that_are_not_finite_are_read_for_the_full_check(read: Reader, value: float, place: int):
    kept = read.all(evaluation(seed) for seed in range(2))
    kept.answer = "an answer"
    message = evaluation(2)
    message.actions.data[place] = value
    for _ in range(3):
        request = read(message)
        assert request is not kept and request.kept is None
        check_same(request, message)
    assert read(evaluation(3)) is kept, "the answer is there for the next ones"


@compiled
@pytest.mark.parametrize("name", ["weight", "target", "terminal_weight"])
def test_the_cost_must_be_finite_too(read: Reader, name: str):
    message = evaluation()
    message.cost.acceleration.weight = message.cost.acceleration.target = floats(1, 2)
    message.cost.acceleration.terminal_weight = floats(1, 2)
    assert read.all([message] * 3).kept is not None
    setattr(message.cost.acceleration, name, floats(1, np.nan))
    request = read(message)
    assert request.kept is None
    check_same(request, message)


@compiled
@pytest.mark.parametrize("first", ["ab", "aabb", "aabab", "aaaabbbb"])
def test_two_requests_that_alternate_are_both_kept(read: Reader, first: str):
    horizons = {"a": 3, "b": 5}
    for kind in first + "ab" * 4:
        read(evaluation(horizon=horizons[kind]))
    kept = []
    for seed, kind in enumerate("ababbaab"):
        message = evaluation(seed, horizons[kind])
        request = read(message)
        assert request.kept is not None, f"request {seed}"
        check_same(request.kept, message)
        kept.append((kind, request.kept))
    assert len({(kind, id(one)) for kind, one in kept}) == 2, "one for each of them"


@compiled
def test_the_ones_used_last_are_kept(read: Reader):
    for horizon in range(1, MOST_KEPT + 1):
        read.all([evaluation(horizon=horizon)] * 3)
    assert read(evaluation(horizon=1)).kept is not None
    read.all([evaluation(horizon=MOST_KEPT + 1)] * 3)
    for horizon in (1, *range(3, MOST_KEPT + 2)):
        assert read(evaluation(horizon=horizon)).kept is not None
    assert read(evaluation(horizon=2)).kept is None


@compiled
def test_requests_that_never_come_again_are_remembered_less_and_less_often(
    read: Reader, monkeypatch: pytest.MonkeyPatch
):
    native = mock.Mock(wraps=_native)
    monkeypatch.setattr(keeping, "_native", native)
    message, remembered = evaluation(), []
    for number in range(2000):
        message.actions.dt = floats(0.1, 1 + number)
        read(message)
        remembered += [number] * (native.remember.call_count - len(remembered))
    pauses = np.diff(remembered)
    assert remembered[0] < 5, "they are tried"
    assert (np.diff(pauses) >= 0).all() and pauses[-1] > 200, "and given up"
    assert len(remembered) < 20
    message.actions.dt = floats(0.1, 1 + remembered[-1])
    assert read(message).kept is not None, "one that does come again is still known"
    message.actions.dt = floats(0.1, 1 + 2000)
    assert read.all([message] * 2).kept is not None, "and then others are tried at once"


@compiled
def test_a_request_that_is_too_large_is_not_kept(read: Reader, monkeypatch: pytest.MonkeyPatch):
    size = bytes_of(read(evaluation()))
    monkeypatch.setattr(keeping, "MOST_BYTES", size)
    assert read.all([evaluation()] * 3).kept is not None
    large = evaluation(horizon=4)
    assert read.all([large] * 20).kept is None
    check_same(read(large), large)


@compiled
@pytest.mark.parametrize("seed", range(3))
def test_all_that_are_kept_have_one_limit_of_memory(read: Reader, monkeypatch: pytest.MonkeyPatch, seed: int):
    most = 3 * bytes_of(read(evaluation()))
    monkeypatch.setattr(keeping, "MOST_BYTES", most)
    numbers = []
    for horizon in np.random.default_rng(seed).integers(1, 20, 100):
        latest = read.all([evaluation(horizon=int(horizon))] * 3).kept
        assert latest is read.kept[0]
        assert sum(map(bytes_of, read.kept)) <= most
        numbers.append(len(read.kept))
    assert min(numbers) < max(numbers) <= MOST_KEPT


@compiled
def test_names_that_are_no_utf8_never_match_and_do_no_harm(read: Reader):
    message = evaluation()
    message.actions.joint_names = ["ab", "cd"]
    serialized = serialize_message(message).replace(b"ab\0", b"a\xff\0")
    expected = deserialize_message(serialized, Evaluate.Request)
    for _ in range(8):
        request = read(serialized)
        assert request.kept is None
        check_same(request, expected)
        check_same(read(message), message)
    assert read.all([message] * 2).kept is not None


def check_reading(service: type, data: st.DataObject) -> int:
    """Requests of two kinds with other numbers each time, as rclpy reads them; returns how often one was kept."""
    read, times = Reader(service), 0
    messages = [filled(service.Request(), data.draw) for _ in range(2)]
    kinds = [0, 0, 0, 1, 1, 1, *data.draw(st.lists(st.integers(0, 1), min_size=6, max_size=9))]
    for seed, kind in enumerate(kinds):
        message = renumbered(messages[kind], seed)
        places = [(owner, name) for owner, name in places_of(message) if len(getattr(owner, name))]
        if seed > 5 and places and data.draw(st.integers(0, 9)) == 0:
            owner, name = data.draw(st.sampled_from(places))
            getattr(owner, name)[-1] = data.draw(st.sampled_from([np.nan, np.inf]))
        message.actions.header.stamp.sec = seed
        request = read(message)
        check_same(request, message, skipped="header" if request.answer else ())
        if request.kept is not None:
            check_same(request.kept, message, skipped="header")
            if data.draw(st.booleans()):
                request.kept.answer = "an answer"
        times += request.kept is not None or request.answer is not None
    return times


@pytest.mark.parametrize("service", [Integrate, ComputeGradient, Evaluate])
@pytest.mark.parametrize("native", [pytest.param(_native, marks=compiled, id="compiled"), pytest.param(None, id="not")])
@settings(max_examples=25)
@given(data=st.data())
def test_requests_are_read_as_rclpys_object_would_be_however_often_they_come(service: type, native: object, data):
    with mock.patch.object(keeping, "_native", native):
        times = check_reading(service, data)
    assert times > 0 if native else times == 0
