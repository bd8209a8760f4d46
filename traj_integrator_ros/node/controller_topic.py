"""Finds the topic of the controller's reports: the subscriber of trajectories publishes `<name>/controller_state`."""

from __future__ import annotations

from rclpy.node import Node

TOPIC = "controller_state"
NOBODY = "none"
"""Name of the topic in diagnostics while no controller publishes reports."""
_KIND = "control_msgs/msg/JointTrajectoryControllerState"


def is_remapped(node: Node) -> bool:
    """Return whether the user has set the topic of the controller's reports."""
    return node.resolve_topic_name(TOPIC) != node.resolve_topic_name(TOPIC, only_expand=True)


def reporting_controllers(node: Node, trajectories: str) -> list[str]:
    """Return the topics of reports of all controllers that subscribe to a topic of trajectories."""
    followers = {
        f"{info.node_namespace.rstrip('/')}/{info.node_name}/{TOPIC}"
        for info in node.get_subscriptions_info_by_topic(trajectories)
    }
    return sorted(
        topic for topic in followers if any(one.topic_type == _KIND for one in node.get_publishers_info_by_topic(topic))
    )
