"""Features that not all releases of rclpy have, checked feature by feature; nothing else in the node checks releases.

`docs/compatibility.md` lists the releases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from lifecycle_msgs.srv import ChangeState, GetAvailableStates, GetAvailableTransitions, GetState
from rclpy.duration import Duration
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile

_LONGEST_WAY_S = 5e-3
"""Longest transport of a request on one machine, s: if stamps show a longer one, the clocks may differ."""
_AT_ONCE = Duration()
_LIFECYCLE_ANSWERS = "_LifecycleNodeMixin__on_{}"
"""Names of rclpy's private callbacks, which another release may change."""
_LIFECYCLE_SERVICES = {
    "change_state": ChangeState,
    "get_state": GetState,
    "get_available_states": GetAvailableStates,
    "get_available_transitions": GetAvailableTransitions,
    "get_transition_graph": GetAvailableTransitions,
}


def request_age_s(header: object) -> float:
    """Return the age of a request, s, since it was sent or, if the sender's clock differs, since it was received."""
    received_ns, sent_ns = (int(getattr(header, f"{name}_timestamp", 0)) for name in ("received", "source"))
    if received_ns <= 0:
        return 0.0
    on_its_way_s = (received_ns - sent_ns) * 1e-9
    age_s = (time.time_ns() - received_ns) * 1e-9 + (on_its_way_s if 0 <= on_its_way_s <= _LONGEST_WAY_S else 0.0)
    return max(age_s, 0.0)


def arrived(publisher: Publisher) -> bool:
    """Return whether all reliable subscribers have received what was published; True where nobody can tell."""
    try:
        return publisher.wait_for_all_acked(_AT_ONCE)
    except (AttributeError, rclpy_implementation.RCLError):  # Releases before Humble, or another middleware.
        return True


def lifecycle_answers() -> dict[str, Callable] | None:
    """Return what answers calls about the lifecycle in rclpy, by their services; None if a release lacks one."""
    found = {name: getattr(LifecycleNode, _LIFECYCLE_ANSWERS.format(name), None) for name in _LIFECYCLE_SERVICES}
    return None if None in found.values() else found


def create_lifecycle_services(node: LifecycleNode, answers: Mapping[str, Callable], depth: int) -> None:
    """Create the services of the lifecycle with queues of this depth, on a node that has none.

    rclpy's own have room for 10 calls, and those that are displaced are never answered. Before Kilted, it does not
    answer calls for transitions that the state machine does not have, either: they get success = false.
    """
    for name, kind in _LIFECYCLE_SERVICES.items():
        answer = partial(answers[name], node)
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
