"""Tools for the command line: check, integrate, replay, plot and watch trajectories."""
