"""Service requests as bytes: a writer on the topic behind a service.

rclpy sends requests that it has serialized itself, and names its topics `rt/...`; the middleware interface below it
does neither. Its C functions are called here, with structures that are the same since ROS 2 Galactic.
"""

from __future__ import annotations

import ctypes

from rclpy.node import Node
from rclpy.type_support import check_for_type_support
from rclpy.utilities import get_rmw_implementation_identifier

_RELIABLE, _VOLATILE, _KEEP_LAST = 1, 2, 1


class _Duration(ctypes.Structure):
    _fields_ = (("sec", ctypes.c_uint64), ("nsec", ctypes.c_uint64))


class _QosProfile(ctypes.Structure):
    _fields_ = (
        ("history", ctypes.c_int), ("depth", ctypes.c_size_t), ("reliability", ctypes.c_int),
        ("durability", ctypes.c_int), ("deadline", _Duration), ("lifespan", _Duration), ("liveliness", ctypes.c_int),
        ("liveliness_lease_duration", _Duration), ("avoid_ros_namespace_conventions", ctypes.c_bool),
    )  # fmt: skip


class _PublisherOptions(ctypes.Structure):
    _fields_ = (("payload", ctypes.c_void_p), ("network_flow", ctypes.c_int))


class _Bytes(ctypes.Structure):
    _fields_ = (
        ("buffer", ctypes.c_char_p), ("length", ctypes.c_size_t), ("capacity", ctypes.c_size_t),
        ("allocator", ctypes.c_void_p * 5),
    )  # fmt: skip


class RawRequests:
    """Writes requests of one service, as bytes; the answers are not read.

    Args:
        node: of rclpy, which must live longer.
        service_type: of the service.
        service: its full name.

    """

    def __init__(self, node: Node, service_type: type, service: str) -> None:
        rcl, self._rmw = ctypes.CDLL("librcl.so"), ctypes.CDLL(f"lib{get_rmw_implementation_identifier()}.so")
        rcl.rcl_node_get_rmw_handle.restype = ctypes.c_void_p
        self._rmw.rmw_create_publisher.restype = ctypes.c_void_p
        self._node = ctypes.c_void_p(rcl.rcl_node_get_rmw_handle(ctypes.c_void_p(node.handle.pointer)))
        check_for_type_support(service_type)
        self._publisher = ctypes.c_void_p(
            self._rmw.rmw_create_publisher(
                self._node,
                _pointer_in(service_type.Request.__class__._TYPE_SUPPORT),
                f"rq{service}Request".encode(),
                ctypes.byref(_QosProfile(_KEEP_LAST, 100, _RELIABLE, _VOLATILE, avoid_ros_namespace_conventions=True)),
                ctypes.byref(_PublisherOptions()),
            )
        )
        assert self._publisher, "no publisher"

    def matched(self) -> int:
        """How many services listen."""
        count = ctypes.c_size_t()
        assert not self._rmw.rmw_publisher_count_matched_subscriptions(self._publisher, ctypes.byref(count))
        return count.value

    def send(self, data: bytes) -> None:
        message = _Bytes(data, len(data), len(data))
        assert not self._rmw.rmw_publish_serialized_message(self._publisher, ctypes.byref(message), None)

    def close(self) -> None:
        assert not self._rmw.rmw_destroy_publisher(self._node, self._publisher)


def _pointer_in(capsule: object) -> ctypes.c_void_p:
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p(pointer(capsule, name(capsule)))
