"""Wrong arguments are named, with what was expected and what came."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from traj_integrator_ros.kernels import BackendUnavailable
from traj_integrator_ros.kernels.retime import MotionLimits, certify, retime
from traj_integrator_ros.kernels.retime.native import native

LIMITS = MotionLimits(velocity=1.0, acceleration=2.0, jerk=20.0)
WAYPOINTS = torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 1.0]]])
WITHOUT_ROWS = [WAYPOINTS.to("meta"), WAYPOINTS.to_sparse(), torch.nested.nested_tensor([*WAYPOINTS])]
WITHOUT_ROWS += [FakeTensorMode().from_tensor(WAYPOINTS)]
SLOW = {"mode": "slow only", "dt": 0.2, "order": 2}


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"waypoints": [[0.0]]}, TypeError, "waypoints: expected a tensor of real numbers"),
        ({"waypoints": torch.zeros(3, 2)}, ValueError, r"waypoints: expected \[B, W, D\]"),
        ({"waypoints": torch.zeros(1, 1, 2)}, ValueError, "at least 2 rows"),
        ({"limits": 3.0}, TypeError, "limits: expected MotionLimits, got float"),
        ({"limits": MotionLimits(jerk=3.0)}, ValueError, "limits: expected a limit of velocity or acceleration"),
        ({"limits": MotionLimits(velocity=1.0)}, ValueError, "limits: expected a limit of jerk for order 3"),
        ({"limits": MotionLimits(velocity=-1.0, jerk=1.0)}, ValueError, "velocity: expected limits greater than 0"),
        ({"limits": MotionLimits(velocity=torch.ones(3), jerk=1.0)}, ValueError, r"velocity: expected .* got \[1, 3\]"),
        ({"limits": MotionLimits(velocity="fast", jerk=1.0)}, TypeError, "velocity: expected a number"),
        ({"order": 4}, ValueError, "order: expected 2 or 3, got 4"),
        ({"mode": "slow"}, ValueError, "mode: expected 'fastest' or 'slow only', got 'slow'"),
        ({"mode": "slow only"}, ValueError, "dt: expected the plan's step length"),
        ({"mode": "slow only", "dt": -1.0}, ValueError, "dt: expected seconds greater than 0"),
        ({"mode": "slow only", "dt": 0.1, "start_speed": 2.0}, ValueError, "expected rates of at most 1"),
        ({"mode": "slow only", "dt": 0.1, "duration": 2.0}, ValueError, "duration: expected None in mode 'slow only'"),
        ({"dt": 0.1}, ValueError, "dt: expected None in mode 'fastest'"),
        (
            {"mode": "slow only", "dt": 0.1, "velocity": WAYPOINTS},
            ValueError,
            "acceleration: expected a tensor with velocity for order 3",
        ),
        ({"start_speed": -1.0}, ValueError, "start_speed: expected finite numbers of at least 0"),
        ({"end_speed": torch.zeros(3)}, ValueError, r"end_speed: expected a number or \[1\]"),
        ({"tolerance": -1.0}, ValueError, "tolerance: expected finite numbers of at least 0"),
        ({"tolerance": float("nan")}, ValueError, "tolerance: expected finite numbers"),
        ({"tolerance": torch.ones(3)}, ValueError, r"tolerance: expected a number, \[2\] or \[1, 2\], got \[3\]"),
        ({"intervals": 2}, ValueError, "intervals: expected a whole number of at least 4"),
        *(({"waypoints": one}, NotImplementedError, "waypoints: expected a plain tensor, got") for one in WITHOUT_ROWS),
        *(
            ({**SLOW, "velocity": one}, NotImplementedError, "velocity: expected a plain tensor, got")
            for one in WITHOUT_ROWS
        ),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, object], error: type[Exception], told: str) -> None:
    arguments = {"waypoints": WAYPOINTS, "limits": LIMITS, **change}
    with pytest.raises(error, match=told):
        retime(**arguments)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    plan, limits, numbers = [np.ones((2, 3, 4)), None, None, None], [np.ones((1, 4))] * 4, (3, 4, False, True, 1)
    states = [np.zeros((2, 12, 4))] * 3
    info, segments = np.zeros((2, 6), np.int64), [np.zeros((2, 2, 3)), np.zeros((2, 2, 3), np.int64)]
    results = [info, np.zeros((2, 5)), np.zeros((2, 12)), *states, np.zeros((2, 3)), *segments]
    fitting = [*plan, *limits, np.zeros((2, 4)), None, *results, *[None] * 6]
    native().retime(*fitting, *numbers)
    for place, array in enumerate(fitting):
        for wrong in () if array is None else (None, array[..., :-1].copy(), array.astype(np.float32)):
            with pytest.raises(TypeError, match="of shapes that belong together"):
                native().retime(*fitting[:place], wrong, *fitting[place + 1 :], *numbers)
    with pytest.raises(TypeError, match="of shapes that belong together"):
        native().retime(*fitting, 3, 5, False, True, 1)


def test_without_the_extension_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "traj_integrator_ros.kernels.retime._native", None)
    with pytest.raises(
        BackendUnavailable, match=r"(?s)retiming needs its C\+\+ extension, which is not built.*pip install"
    ):
        retime(WAYPOINTS, LIMITS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"times": torch.tensor([0.0, 1.0, 1.0])}, "times: expected increasing times"),
        ({"times": torch.zeros(2)}, r"times: expected \[3\] or \[1, 3\]"),
        ({"times": torch.tensor([0.0, 1.0, torch.inf])}, "times: expected finite numbers"),
        ({"position": torch.tensor([[0.0], [torch.nan], [1.0]])}, "position: expected finite numbers"),
        ({"acceleration": torch.zeros(3, 1)}, "velocity: expected a tensor with acceleration"),
        ({"velocity": torch.zeros(2, 1)}, r"velocity: expected \[3, 1\]"),
        ({"position": torch.zeros(1, 1)}, "position: expected .* at least 2 points"),
        ({"counts": torch.tensor([4])}, r"counts: expected \[1\] numbers from 2 to 3"),
    ],
)
def test_wrong_arguments_of_certify_are_named(change: dict[str, torch.Tensor], told: str) -> None:
    arguments = {"times": torch.tensor([0.0, 1.0, 2.0]), "position": torch.zeros(3, 1), **change}
    with pytest.raises(ValueError, match=told):
        certify(**arguments)
