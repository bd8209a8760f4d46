"""The same chunks in each dialect are executed as the same motion: sequences, times, rows at a policy's frequency."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pipelines import GIVEN, NOW_S, ArmLoop, SimulatedNode, limits

USUAL = {**limits(**GIVEN), "start_from": "previous", "limits__start_deviation": 0.0}
EQUAL = 1e-9
"""Largest difference of what is commanded, rad."""
Send = Callable[[SimulatedNode, float, np.ndarray, float], object]
"""Sends rows with a step, s, stamped at a time of the loop, s."""


def _sequence(node: SimulatedNode, time: float, rows: np.ndarray, dt: float) -> object:
    return node.send(rows, dt=() if dt == node.parameters.dt else dt, now=NOW_S + time, stamp=NOW_S + time)


def _with_times(node: SimulatedNode, time: float, rows: np.ndarray, dt: float) -> object:
    return node.plan(np.arange(1, len(rows) + 1) * round(dt, 9), rows, now=NOW_S + time, stamp=NOW_S + time)


def _without_times(node: SimulatedNode, time: float, rows: np.ndarray, _: float) -> object:
    return node.plan(np.zeros(len(rows)), rows, now=NOW_S + time, stamp=NOW_S + time)


DIALECTS = {
    "sequence": (_sequence, {}),
    "times": (_with_times, {"position_trajectory__end": "stream"}),
    "no times": (_without_times, {"position_trajectory__without_times": "chunk"}),
}


def commanded(dialect: str, chunk: Callable[[float], np.ndarray], dt: float) -> np.ndarray:
    """What is commanded in 3 s of chunks every 0.1 s and 1 s after, `[N, dof]`, rad."""
    send, parameters = DIALECTS[dialect]
    arm = ArmLoop(SimulatedNode(**USUAL | parameters, dt=dt))
    arm.run(3.0, lambda time: send(arm.node, time, chunk(time), dt))
    arm.run(1.0)
    assert not arm.refused and np.ptp(arm.commands, axis=0).min() > 0.2
    return np.array(arm.commands)


@pytest.mark.parametrize("frequency", [20.0, 30.0])
@pytest.mark.parametrize("noise", [0.0, 3e-3])
def test_chunks_are_executed_the_same_in_each_dialect(frequency: float, noise: float) -> None:
    dt = 1 / frequency

    def chunk(time: float) -> np.ndarray:
        times, random = time + dt * np.arange(1, 17), np.random.default_rng(round(10 * time))
        rows = np.outer(0.3 * (1 - np.cos(1.5 * times)), [1.0, -0.5]) + random.normal(0, noise, (16, 2))
        return rows.astype(np.float32).astype(float)

    expected = commanded("sequence", chunk, dt)
    for dialect in ("times", "no times"):
        np.testing.assert_allclose(commanded(dialect, chunk, dt), expected, rtol=0, atol=EQUAL)


def test_a_path_is_another_motion_than_a_chunk_of_the_same_points() -> None:
    rows = np.outer(np.linspace(0.01, 0.3, 30), [1.0, -0.5])
    lasts = {}
    for said in ("path", "chunk"):
        arm = ArmLoop(SimulatedNode(**USUAL, position_trajectory__without_times=said, dt=0.1))
        arm.run(0.1)
        made = _without_times(arm.node, arm.time, rows, 0.1)
        lasts[said] = made.motion.duration
    assert lasts["path"] < 1.0 < 2.9 < lasts["chunk"], "the difference is why the node asks"
