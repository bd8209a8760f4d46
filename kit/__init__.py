"""Traffic around a node: its process, a ROS client, and the roles of player, planner, optimizer, controller and ledger.

Tests, soak, benchmarks and rig use it, and its models of a controller and an arm. It is not part of the package. From
the package it imports client, motions, tools and what these need, but not the node's room.
"""
