"""Paths without times: what is said of a motion that is slower than usual."""

from __future__ import annotations

import time

import numpy as np
import pytest

from traj_integrator_ros.governor.executor import Executor, NodeParameters
from traj_integrator_ros.requests.position_trajectory import PositionFields
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

NAMES = ("a", "b", "c")
LIMITS = {"limits__velocity": [2.0] * 3, "limits__acceleration": [10.0] * 3, "limits__jerk": [100.0] * 3}


@pytest.mark.parametrize("doubled", [0, 1])
def test_a_path_that_is_passed_with_rests_is_said_to_be(doubled: int) -> None:
    told: list[Rejected] = []
    parameters = NodeParameters.of(list(NAMES), device="cpu", start_from="measured", **LIMITS)
    executor, now_ns, made = Executor(parameters, warn=told.append), 10**12, None
    there = np.array([[0.0, 0.0, 0.0], [0.3, -0.2, -0.3], [0.7, -0.5, -0.7]])
    # The row at the turn, twice within noise: the bend of the path jumps there.
    path = np.concatenate([there, there[-1:].repeat(doubled, 0) + np.array([0.0, 1e-5, 0.0]), there[-2::-1]])
    fields = PositionFields(NAMES, 0, len(path), np.zeros(len(path), np.int64), path, None, None)
    deadline = time.monotonic() + 10
    while made is None and time.monotonic() < deadline:
        now_ns += 10_000_000
        executor.joint_state(np.zeros(3), np.zeros(3), now_ns)
        made = executor.tick(now_ns)
        if fields is not None:
            made, fields = executor.position_trajectory(fields, now_ns), None
        time.sleep(1e-3)
    assert made is not None
    assert [one.reason for one in told] == [RejectionReason.NOT_FASTEST] * doubled
    assert all("this one rests in between" in one.message for one in told)
