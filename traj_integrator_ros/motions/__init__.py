"""Motions from files: joint states and trajectories in CSV, NPZ, YAML and rosbag2, and what figures share."""
