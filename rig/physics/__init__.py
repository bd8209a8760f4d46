"""Arms with masses, friction, backlash, drives and contacts (MuJoCo) around the executor, in simulated time."""
