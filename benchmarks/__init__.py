"""Measurements of speed, each as a ratio to a peer or a limit timed in the same run: `make bench`."""
