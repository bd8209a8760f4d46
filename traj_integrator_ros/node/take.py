"""Takes a message from a subscription's queue, which rclpy offers only to its own executors."""

from __future__ import annotations

from rclpy.exceptions import InvalidHandle
from rclpy.subscription import Subscription


def take(subscription: Subscription) -> tuple | None:
    """Return the oldest queued message and its info; None, at once, if there is none or no subscription any more."""
    try:
        with subscription.handle:
            return subscription.handle.take_message(subscription.msg_type, subscription.raw)
    except InvalidHandle:
        return None
