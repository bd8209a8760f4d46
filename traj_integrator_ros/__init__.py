"""Joint states and batched action sequences to joint trajectories, differentiably; see README.md."""
