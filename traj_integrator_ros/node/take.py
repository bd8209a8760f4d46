"""Taking a message out of a subscription's queue, which rclpy offers to its own executors only."""

from __future__ import annotations

from rclpy.exceptions import InvalidHandle
from rclpy.subscription import Subscription


def take(subscription: Subscription) -> tuple | None:
    """Return the oldest waiting message and its information; None, at once, if none waits or it was destroyed."""
    try:
        with subscription.handle:
            return subscription.handle.take_message(subscription.msg_type, subscription.raw)
    except InvalidHandle:
        return None
