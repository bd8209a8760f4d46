"""Uniform B-splines between two states: which control points there are, and what they weigh where.

What the map in `maps/bspline.py` computes lives here, in plain torch and numpy; nothing here may import the operators
or the maps.
"""
