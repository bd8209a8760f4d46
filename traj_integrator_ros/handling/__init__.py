"""What is done with input between wire and engine: checked, ordered, given a start, limited, made into points.

Knows no ROS and no byte of a message: only numpy, execution, the engine and the kernels may be imported here.
"""
