"""Traffic around a node: its process, a ROS client, and the roles of player, planner, optimizer, controller and ledger.

Tests, soak, benchmarks and rig are built on it, and the models of a controller and an arm in it. It is no part of the
package: of that, it imports client, motions, tools and what these need, but not the node's room.
"""
