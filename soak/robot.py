"""The robot's driver: joint states at 1 kHz."""

from __future__ import annotations

import time
from array import array

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from .client import Row
from .motion import Swing
from .template import Template


class Robot:
    """Publishes where the joints are."""

    name = "robot"

    def __init__(self, node: Node, swing: Swing, rate_hz: float) -> None:
        self.period_s = 1 / rate_hz
        self._swing = swing
        self._publisher = node.create_publisher(JointState, "joint_states", 10)
        fields = np.random.default_rng(0).random((2, len(swing.joint_names)))
        position, velocity = (array("d", values.tobytes()) for values in fields)
        message = JointState(name=list(swing.joint_names), position=position, velocity=velocity)
        self._template = Template(message, *fields)
        self._sent = 0

    def greet(self) -> bool:
        """Wait for the node's subscription."""
        self.send()
        return self._publisher.get_subscription_count() > 0

    def begin(self) -> None:
        """Count from here."""
        self._sent = 0

    def send(self) -> None:
        """Publish a joint state of now."""
        now_ns = time.time_ns()
        self._publisher.publish(self._template.stamped(now_ns, *self._swing.at(now_ns)))
        self._sent += 1

    def take(self) -> Row:
        """Joint states sent."""
        row: Row = {"sent": self._sent}
        self._sent = 0
        return row
