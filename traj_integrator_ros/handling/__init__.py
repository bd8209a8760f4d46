"""Processing of input between wire and engine: checks, joint order, start states, limits, and points to publish.

Knows neither ROS nor serialized messages: only numpy, execution, the engine and the kernels may be imported here.
"""
