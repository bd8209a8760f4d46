"""The node with an rclpy that has only the features of Humble's, as a program of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable

import rclpy.event_handler
import rclpy.lifecycle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.subscription import Subscription


def without_the_later_features() -> None:
    """Take away what came after Humble."""
    sys.modules["rclpy.qos_event"] = rclpy.event_handler
    for module in ("rclpy.event_handler", "rclpy.service_introspection", "rclpy.clock_type"):
        sys.modules[module] = None  # as if it could not be found
    del Node.add_pre_set_parameters_callback, Node.add_post_set_parameters_callback
    del Subscription.CallbackType
    Subscription.callback = None  # an attribute like others, of any number of arguments
    take_message = rclpy_implementation.Subscription.take_message
    rclpy_implementation.Subscription.take_message = with_times_only(take_message)
    LifecycleNode._LifecycleNodeMixin__change_state = raising(LifecycleNode._LifecycleNodeMixin__change_state)


def with_times_only(take_message: Callable) -> Callable:
    """Message info as it was: no numbers, no publisher."""

    def take(subscription: object, message_type: type, raw: bool) -> tuple | None:
        taken = take_message(subscription, message_type, raw)
        if taken is None:
            return None
        return taken[0], {name: taken[1][name] for name in ("source_timestamp", "received_timestamp")}

    return take


def raising(change_state: Callable) -> Callable:
    """A transition that does not exist raises."""

    def change(node: LifecycleNode, transition_id: int) -> object:
        before = node._state_machine.current_state
        transitions = {found[0] for found in node._state_machine.available_transitions}
        if transition_id not in transitions:
            raise rclpy_implementation.RCLError(f"no transition {transition_id} from {before}")
        return change_state(node, transition_id)

    return change


if __name__ == "__main__":
    without_the_later_features()
    from traj_integrator_ros.node.main import main

    sys.exit(main())
