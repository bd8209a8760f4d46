"""Calls that make a device compile all kernels that it may need."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from .types import StartState, UpstreamGradient

if TYPE_CHECKING:
    from .integrator import TrajectoryIntegrator


def call_every_kind(engine: TrajectoryIntegrator, actions: np.ndarray) -> None:
    """Make a call of each kind that runs other machine code, of the configured map; actions are `[B, Ha, dof]`."""
    batch, horizon, dof = actions.shape
    some = np.zeros((batch, engine.output_horizon(horizon), dof), np.float32)
    steps = [None] if engine.control_map().uniform_dt_only else [None, np.full(horizon, engine.config.dt)]
    given = list(itertools.product((None, some), repeat=4))[1:]
    row = np.zeros((1, dof), np.float32)
    starts = [StartState(row, *others) for others in itertools.product((None, row), repeat=2)]
    index = np.zeros(batch, np.int64)
    for dt in steps:
        for subset in given:
            # The kernel for the gradient of dt is the same for all of them.
            want_dt = subset is given[-1]
            engine.vjp(starts[-1], UpstreamGradient(*subset), actions=actions, dt=dt, want_dt=want_dt)
        for start, start_index in itertools.product(starts, (None, index)):
            engine.integrate(start, actions, dt, start_index=start_index)
    pool = StartState(*[np.zeros((2, dof), np.float32)] * 3)
    engine.vjp(pool, UpstreamGradient(*given[-1]), actions=actions, start_index=index)
