"""Requests of messages: their fields checked, typed, and in the node's joint order; or the reason for a rejection.

Knows neither ROS nor serialized messages, nor anything about the motion in execution.
"""
