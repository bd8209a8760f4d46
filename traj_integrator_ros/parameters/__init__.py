"""The node's parameters: the table that declares them, the checked configuration, and the limits that fill it in.

Knows no ROS: `node/` declares what the table lists.
"""
