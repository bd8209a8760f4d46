"""Uniform B-splines between two states: their control points, and the weights of these in each row.

This is the mathematics of the map in `maps/bspline.py`, in plain torch and numpy; nothing here may import the operators
or the maps.
"""
