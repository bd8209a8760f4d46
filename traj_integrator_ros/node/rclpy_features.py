"""Features that not all releases of rclpy have: checked here, feature by feature, and nowhere else in the node.

`docs/compatibility.md` lists the releases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
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
    "with_message_info",
]

NO_EVENTS = "disabled"
"""Value of `introspection_state` that every release has."""


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


def with_message_info(callback: Callable[[bytes, Mapping[str, object]], None]) -> Callable:
    """Return a subscription callback that gets rclpy's message info, or an empty one if rclpy (Humble) gives none."""
    if hasattr(Subscription, "CallbackType"):
        return callback
    return lambda message, info=MappingProxyType({}): callback(message, info)
