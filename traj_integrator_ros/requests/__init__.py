"""Requests of messages: their fields checked, in the node's joint order, and typed; or why they are rejected.

Knows neither ROS nor serialized messages, nor anything about the motion in execution.
"""
