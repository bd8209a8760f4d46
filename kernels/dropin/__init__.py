"""The parts of `traj_integrator_ros.kernels.integration_utils`; import them from there.

It holds everything that only those published names need. May import the maps and their shared modules; nothing else
imports it.
"""
