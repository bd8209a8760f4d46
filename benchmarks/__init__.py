"""Measurements of speed, each as a ratio against a peer or a limit timed in the same run: `make bench`."""
