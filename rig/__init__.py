"""The real node over DDS, closed around a model of an arm in real time, and judged: `python -m rig`.

The models of the controller and of the arm are those of the soak, the benchmarks and the tests, too.
"""
