"""The parts of `traj_integrator_ros.kernels.integration_utils`; import them from there.

Everything that only those published names need. May import the maps and what they share; nothing else imports it.
"""
