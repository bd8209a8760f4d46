"""The motion between the points that a controller is sent, as polynomials, so that it is executed as planned.

Only numpy may be imported: nothing here knows torch, ROS, messages or parameters.
"""
