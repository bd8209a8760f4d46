"""The pieces of `traj_integrator_ros.kernels.integration_utils`: import from there."""
