"""What messages ask for: their fields checked, in the node's joint order, as typed requests; or why they are rejected.

Knows neither ROS nor serialized messages, nor anything about the motion in execution.
"""
