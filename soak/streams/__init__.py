"""Random streams on a simulated clock: the node's processing and a model of controller and arm, judged by the cycle."""
