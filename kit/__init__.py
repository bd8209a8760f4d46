"""Traffic around a node: its process, a ROS client, models of a controller and an arm, and stand-ins.

Tests, soak, benchmarks and rig use it. It is not part of the package. From the package it imports client, motions,
tools and what these need, but not the node's room.
"""
