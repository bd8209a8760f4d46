"""The parts of the engine; `integrator` is its face."""
