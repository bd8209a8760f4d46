"""The main job: a robot's motion sent through the integrator node over real DDS, measured, and drawn."""
