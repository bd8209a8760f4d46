"""Two nodes of one name would both answer every sequence; a killed one lingers in the graph and must not count."""

from __future__ import annotations

import time

import pytest
from node_fixtures import ClientFactory
from rclpy.node import Node

from traj_integrator_ros.node.namesakes import Namesakes

pytestmark = pytest.mark.ros


def test_nodes_of_the_same_full_name_count_once_they_last(connect: ClientFactory) -> None:
    node = connect().node
    apart = Node(node.get_name(), namespace="/elsewhere", context=node.context)
    at_once, lasting = Namesakes(node, 0.0), Namesakes(node)
    assert at_once.count() == 0
    twin = Node(node.get_name(), namespace=node.get_namespace(), context=node.context)
    time.sleep(1.1)  # the graph is looked at once a second
    assert (at_once.count(), lasting.count()) == (1, 0)
    twin.destroy_node()
    time.sleep(1.1)
    assert at_once.count() == 0
    apart.destroy_node()
