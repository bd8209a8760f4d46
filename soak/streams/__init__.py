"""Random streams on a simulated clock: the node's processing, a model of the controller, an arm; every cycle judged."""
