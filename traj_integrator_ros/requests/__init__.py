"""Requests of messages: their fields checked, typed, and in the node's joint order; or the reason for a rejection.

Requests for batches are also computed here (`batches.py`), since they do not depend on the motion in execution.
Knows neither ROS nor serialized messages.
"""
