"""Motions as polynomials that a controller reproduces from the points that it is sent.

Only numpy may be imported: nothing here knows torch, ROS, messages or parameters.
"""
