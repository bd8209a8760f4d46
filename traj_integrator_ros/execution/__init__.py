"""Executed as planned: the motion between the points that a controller is sent, as polynomials.

Only numpy may be imported: spline, holds, fade, brake and limits know no torch, no ROS, no message and no parameter.
"""
