"""A planner whose plans are each off by a little, many times a second: the arm does not shake for it."""

from __future__ import annotations

import numpy as np
from pipelines import NOW_S, SimulatedNode

from rig.senders import way

DOF, RATE, DT = 7, 50, 0.04


def test_plans_off_by_their_own_constants_add_little_acceleration() -> None:
    """A join looks ahead along its plan even if it is shorter; otherwise accelerations are half as large again."""
    node = SimulatedNode(
        DOF, start_from="previous", limits__velocity=[2.0] * DOF, limits__acceleration=[10.0] * DOF,
        limits__jerk=[500.0] * DOF,
    )  # fmt: skip
    meant, random = way(16, (1.0, 3.0, 40.0), 1.0, 4.0, [0] * DOF, 0.3), np.random.default_rng(6)
    found = []
    for now in np.arange(0, 4.0, 1 / RATE):
        state = node.commanded(NOW_S + now)[:2] if now > 0 else np.zeros((2, DOF))
        node.report(*state, now=NOW_S + now), node.measure(*state, now=NOW_S + now)
        rows = meant(now + DT * np.arange(1, 26))[0] + random.normal(scale=1e-3, size=DOF)
        node.send(rows, dt=DT, now=NOW_S + now, stamp=NOW_S + now)
        found += [(time, node.commanded(NOW_S + time)) for time in now + np.arange(4) / (4 * RATE) if time > 1.0]
    times, commanded = np.array([time for time, _ in found]), np.array([state for _, state in found])
    position, _, acceleration = meant(times)
    assert np.abs(commanded[:, 0] - position).max() < 5e-3
    assert np.sqrt((commanded[:, 2] ** 2).mean() / (acceleration**2).mean()) < 1.3
