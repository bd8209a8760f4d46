"""The engine: batches of numpy arrays through the kernels and back, on any device, in memory that is reused.

May import the kernels; knows no ROS, no message and no parameter.
"""
