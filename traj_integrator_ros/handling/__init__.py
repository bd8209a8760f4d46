"""What is done with input between wire and engine: checked, ordered, given a start, limited, made into points.

Knows no ROS and no byte of a message: only numpy, the engine and the kernels may be imported here.
"""
