"""Requests of messages: their fields checked, typed, and in the node's joint order; or the reason for a rejection.

Requests for batches are answered here, too (`batches.py`), since the motion in execution has no part in them.
Knows neither ROS nor serialized messages.
"""
