"""Command-line tools: check, integrate, plot and replay trajectories, watch nodes.

May import everything but the node's room: a tool talks to a node over topics, as users do.
"""
