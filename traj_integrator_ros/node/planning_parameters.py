"""The parameters of a running MoveIt node: requested once, in configure."""

from __future__ import annotations

import time

import rclpy
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

from ..limits.found import LimitsError
from ..limits.moveit import OF_NODE, PLANNING

TIMEOUT_S = 20.0
"""Longest wait, s, for a node that starts together with this one."""
_POLL_S = 0.05


def planning_parameters(asking: Node, name: str, timeout_s: float = TIMEOUT_S) -> dict[str, object]:
    """Return the parameters `robot_description_planning` of a node by name; waits for that node.

    Args:
        asking: the node that needs them; a name that does not begin with / is one in its namespace.
        name: of the node to ask.
        timeout_s: longest wait.

    Raises:
        LimitsError: the node did not answer in time.

    """
    # A node and an executor of its own: the one of the node that asks is busy with configure.
    asker = rclpy.create_node(
        "_limits_of_moveit",
        context=asking.context,
        namespace=asking.get_namespace(),
        use_global_arguments=False,
        enable_rosout=False,
        start_parameter_services=False,
    )
    executor = SingleThreadedExecutor(context=asking.context)
    executor.add_node(asker)
    deadline = time.monotonic() + timeout_s
    asking.get_logger().info(f"limits.moveit: asks {name} for its parameters {PLANNING}, for up to {timeout_s:g} s")

    def answer(service: type, service_name: str, request: object) -> object:
        client = asker.create_client(service, f"{name}/{service_name}")
        while not client.service_is_ready() and time.monotonic() < deadline and asking.context.ok():
            time.sleep(_POLL_S)
        future = client.call_async(request)
        executor.spin_until_future_complete(future, max(0.0, deadline - time.monotonic()))
        if not future.done():
            raise LimitsError(
                f"limits.moveit: expected an answer of {OF_NODE}{name} within {timeout_s:g} s, got none; is it running?"
            )
        return future.result()

    try:
        listed = answer(ListParameters, "list_parameters", ListParameters.Request(prefixes=[PLANNING])).result.names
        values = answer(GetParameters, "get_parameters", GetParameters.Request(names=listed)).values
        return {one: parameter_value_to_python(value) for one, value in zip(listed, values, strict=True)}
    finally:
        executor.shutdown()
        asker.destroy_node()
