"""Requests and responses of the node's services, compared with rclpy's objects for the same bytes."""

from __future__ import annotations

import ctypes
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_messages import check_same, filled
from rcl_interfaces.srv import SetParameters
from rclpy.serialization import deserialize_message, serialize_message

from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.wire import struct_layout
from traj_integrator_ros.wire.borrowed_services import borrowed

pytestmark = pytest.mark.ros
SERVICES = [Integrate, ComputeGradient, Evaluate]


@pytest.mark.parametrize("service", SERVICES)
@settings(max_examples=25)
@given(data=st.data())
def test_a_request_has_the_fields_and_values_of_rclpys_object(service, data):
    message = filled(service.Request(), data.draw)
    served = borrowed(service)
    assert served is not service, "this rclpy has the layout that is expected"
    check_same(deserialize_message(serialize_message(message), served.Request), message)


def fill(response: object, message: object) -> None:
    """Give a borrowed response what a message has."""
    for name in message.get_fields_and_field_types():
        value = getattr(message, name)
        if hasattr(value, "get_fields_and_field_types"):
            fill(getattr(response, name), value)
        else:
            setattr(response, name, np.array(value) if isinstance(value, array) else value)


@pytest.mark.parametrize("service", SERVICES)
@settings(max_examples=25)
@given(data=st.data())
def test_a_response_arrives_as_the_one_of_rclpys_object_would(service, data):
    message = filled(service.Response(), data.draw)
    response = borrowed(service).Response()
    fill(response, message)
    assert deserialize_message(serialize_message(response), service.Response) == message
    assert deserialize_message(serialize_message(borrowed(service).Response()), service.Response) == service.Response()


def test_a_response_that_cannot_be_written_says_so():
    response = borrowed(Evaluate).Response()
    response.success, response.cost = True, np.zeros(3)
    received = deserialize_message(serialize_message(response), Evaluate.Response)
    assert not received.success
    assert received.message == "response: cost: expected a contiguous array of float32, got float64"


def test_what_was_read_outlives_the_struct():
    message = Evaluate.Request()
    message.actions.data = array("f", range(5000))
    serialized = serialize_message(message)
    request_type = borrowed(Evaluate).Request
    requests = [deserialize_message(serialized, request_type) for _ in range(20)]
    for request in requests:
        np.testing.assert_array_equal(request.actions.data, np.arange(5000))


def test_a_name_that_is_no_utf8_is_read_as_rclpy_reads_it():
    message = Integrate.Request()
    message.actions.joint_names = ["ab"]
    serialized = serialize_message(message).replace(b"ab\0", b"a\xff\0")
    expected = deserialize_message(serialized, Integrate.Request).actions.joint_names
    assert deserialize_message(serialized, borrowed(Integrate).Request).actions.joint_names == expected


def test_a_service_of_other_kinds_of_field_is_served_by_rclpys_objects():
    assert borrowed(SetParameters) is SetParameters, "it has an array of messages"


def test_a_layout_that_is_not_the_expected_one_is_left_to_rclpy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(struct_layout._FORMATS, "uint32", "Q")
    assert borrowed(Integrate) is Integrate


def test_a_request_that_cannot_be_read_is_replaced_by_its_error(monkeypatch: pytest.MonkeyPatch):
    serialized = serialize_message(Integrate.Request())
    request = borrowed(Integrate).Request

    def out_of_memory(*_: object) -> bytes:
        raise MemoryError("no memory")

    monkeypatch.setattr(ctypes, "string_at", out_of_memory)
    assert isinstance(deserialize_message(serialized, request), MemoryError)
