"""The lifecycle node and its process: entities, parameters, diagnostics, signals, shared memory.

No other room needs rclpy. Tools, demo and tests start the node as a process and import nothing from here; launch files
do.
"""
