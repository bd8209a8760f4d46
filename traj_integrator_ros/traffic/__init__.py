"""Traffic around a node: its process, a ROS client, and the roles of player, planner, optimizer, controller and ledger.

Demo, soak, benchmarks and tests are built on it. May import tools and the rooms below, but not the node's room.
"""
