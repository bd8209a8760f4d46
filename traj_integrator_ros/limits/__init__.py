"""Joint limits, whether a trajectory keeps them, and the files that give them (URDF, MoveIt).

Knows neither ROS nor parameters. `parameters/in_force.py` decides which source counts: parameters go first.
"""
