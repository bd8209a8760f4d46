"""The lifecycle node and its process: entities, parameters, diagnostics, signals, shared memory.

The only room that needs rclpy; tools, demo and tests start it as a process and do not import from it. Launch files do.
"""
