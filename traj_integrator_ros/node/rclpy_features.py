"""Features that not all releases of rclpy have: checked here, feature by feature, and nowhere else in the node.

`docs/compatibility.md` lists the releases.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType

from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.subscription import Subscription

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import SubscriptionEventCallbacks

__all__ = [
    "NO_EVENTS",
    "SubscriptionEventCallbacks",
    "answer_refused_transitions",
    "guard_parameters",
    "introspection_state",
    "nanoseconds_of",
    "take",
    "wants_message_info",
    "with_message_info",
]

NO_EVENTS = "disabled"
"""Value of `introspection_state` that every release has."""
_NO_INFO: Mapping[str, object] = MappingProxyType({})
_CALLBACK_TYPES = getattr(Subscription, "CallbackType", None)
"""How rclpy distinguishes callbacks with message info from those without; before Iron, none have it."""


def answer_refused_transitions(node: LifecycleNode) -> None:
    """Let ~/change_state answer with success = false if the state machine has no such transition.

    Before Kilted, rclpy raises an error instead, and the caller waits forever.
    """
    service = getattr(node, "_service_change_state", None)
    if service is None:
        return
    change_state = service.callback

    def answer(request: ChangeState.Request, response: ChangeState.Response) -> ChangeState.Response:
        try:
            return change_state(request, response)
        except rclpy_implementation.RCLError:
            transition = request.transition.label or request.transition.id
            node.get_logger().error(f"change_state: no transition {transition} from the current state")
            response.success = False
            return response

    service.callback = answer


def guard_parameters(
    node: Node,
    typed: Callable[[list[Parameter]], list[Parameter]],
    check: Callable[[list[Parameter]], SetParametersResult],
    changed: Callable[[list[Parameter]], None],
) -> None:
    """Register callbacks that convert types of changed parameters, check them, and report accepted changes.

    Before Iron, rclpy only supports the check: `changed` is called just before the parameters have their new values,
    and types are not converted.
    """
    if hasattr(node, "add_pre_set_parameters_callback") and hasattr(node, "add_post_set_parameters_callback"):
        node.add_pre_set_parameters_callback(typed)
        node.add_on_set_parameters_callback(check)
        node.add_post_set_parameters_callback(changed)
        return

    def check_and_tell(changes: list[Parameter]) -> SetParametersResult:
        result = check(changes)
        if result.successful:
            changed(changes)
        return result

    node.add_on_set_parameters_callback(check_and_tell)


def introspection_state(events: str) -> object:
    """Return the state of service introspection that a parameter names.

    Raises:
        RuntimeError: this ROS 2 has no service introspection, and the name is not "disabled".

    """
    try:
        from rclpy.service_introspection import ServiceIntrospectionState
    except ImportError:
        if events == NO_EVENTS:
            return None
        raise RuntimeError(f"service_introspection: expected disabled before ROS 2 Iron, got {events}") from None
    return {
        NO_EVENTS: ServiceIntrospectionState.OFF,
        "metadata": ServiceIntrospectionState.METADATA,
        "contents": ServiceIntrospectionState.CONTENTS,
    }[events]


def nanoseconds_of(clock: Clock) -> int:
    """The time of a clock, ns; without the object that rclpy makes of it, where rclpy can."""
    handle = clock.handle
    if not hasattr(handle, "get_now"):
        return clock.now().nanoseconds
    with handle:
        return handle.get_now().nanoseconds


def with_message_info(callback: Callable[[bytes, Mapping[str, object]], None]) -> Callable:
    """Return a subscription callback that gets rclpy's message info, or an empty one if rclpy does not provide it."""
    if _CALLBACK_TYPES is not None:
        return callback

    @wraps(callback)
    def call(message: bytes, info: Mapping[str, object] = _NO_INFO) -> None:
        callback(message, info)

    return call


def wants_message_info(subscription: Subscription) -> bool:
    """Whether the callback of a subscription must be called with the message info as well."""
    if _CALLBACK_TYPES is not None:
        return subscription._callback_type is _CALLBACK_TYPES.WithMessageInfo
    return len(inspect.signature(subscription.callback).parameters) > 1


def take(subscription: Subscription) -> tuple | None:
    """Return the oldest queued message and its info; None, at once, if there is none or no subscription any more."""
    try:
        with subscription.handle:
            return subscription.handle.take_message(subscription.msg_type, subscription.raw)
    except InvalidHandle:
        return None
