"""Features that not all releases of rclpy have, checked feature by feature; nothing else in the node checks releases.

`docs/compatibility.md` lists the releases.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from lifecycle_msgs.srv import ChangeState, GetAvailableStates, GetAvailableTransitions, GetState
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile

_LONGEST_WAY_S = 5e-3
"""Longest transport of a request on one machine, s: if stamps show a longer one, the clocks may differ."""
_LARGE_BYTES = 1 << 20
_LIFECYCLE_SERVICES = {
    "change_state": ChangeState,
    "get_state": GetState,
    "get_available_states": GetAvailableStates,
    "get_available_transitions": GetAvailableTransitions,
    "get_transition_graph": GetAvailableTransitions,
}


class SerializedMessage(ctypes.Structure):
    """rcl_serialized_message_t; its allocator is needed only to change the size."""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("allocator", ctypes.c_void_p * 5),
    )


@lru_cache(maxsize=1)
def rcl() -> ctypes.CDLL | None:
    """Load the C library beneath rclpy with those that it needs; None if it cannot be loaded by its name."""
    try:
        return ctypes.CDLL("librcl.so")
    except OSError:
        return None


def publish_parts(publisher: Publisher, parts: Sequence[bytes | np.ndarray]) -> None:
    """Publish a serialized message; other threads run while it is copied.

    rclpy's own function blocks all threads, for 50 ms with 36 MB.
    """
    pieces = [np.frombuffer(part, np.uint8) for part in parts]
    size = sum(piece.size for piece in pieces)
    publish = getattr(rcl(), "rcl_publish_serialized_message", None)
    if size > _LARGE_BYTES and publish is not None and publisher.is_activated:
        whole, end = np.empty(size, np.uint8), 0
        for piece in pieces:
            whole[end : end + piece.size] = piece
            end += piece.size
        serialized = SerializedMessage(whole.ctypes.data, size, size)
        with publisher.handle:
            if publish(ctypes.c_void_p(publisher.handle.pointer), ctypes.byref(serialized), None) == 0:
                return
    publisher.publish(b"".join(parts))  # The error of rclpy says what is wrong.


def request_age_s(header: object) -> float:
    """Return the age of a request, s, since it was sent or, if the sender's clock differs, since it was received."""
    received_ns, sent_ns = (int(getattr(header, f"{name}_timestamp", 0)) for name in ("received", "source"))
    if received_ns <= 0:
        return 0.0
    on_its_way_s = (received_ns - sent_ns) * 1e-9
    age_s = (time.time_ns() - received_ns) * 1e-9 + (on_its_way_s if 0 <= on_its_way_s <= _LONGEST_WAY_S else 0.0)
    return max(age_s, 0.0)


def create_lifecycle_services(node: LifecycleNode, depth: int) -> None:
    """Create the services of the lifecycle with queues of this depth, on a node that has none.

    rclpy's own have room for 10 calls, and those that are displaced are never answered. Before Kilted, it does not
    answer calls for transitions that the state machine does not have, either: they get success = false.
    """
    for name, kind in _LIFECYCLE_SERVICES.items():
        answer = getattr(node, f"_LifecycleNodeMixin__on_{name}")
        answer = partial(_change_state, node, answer) if kind is ChangeState else answer
        node.create_service(kind, f"~/{name}", answer, qos_profile=QoSProfile(depth=depth))


def _change_state(
    node: LifecycleNode, change: Callable, request: ChangeState.Request, response: ChangeState.Response
) -> ChangeState.Response:
    try:
        return change(request, response)
    except rclpy_implementation.RCLError:
        transition = request.transition.label or request.transition.id
        node.get_logger().error(f"change_state: no transition {transition} from the current state")
        response.success = False
        return response
