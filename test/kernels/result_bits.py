"""Prints sums of the bits that everything compiled makes of some numbers: the same on every machine."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from launch_cases import SCHEMES, Case, numbers
from torch import Tensor

from traj_integrator_ros.execution import native as motions
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion, united
from traj_integrator_ros.execution.rows import cubic_spline, taken_up
from traj_integrator_ros.kernels import SplineForm, native
from traj_integrator_ros.kernels.retime import MotionLimits, retime

DTYPES = (torch.float32, torch.float64)


def bits(*results: Tensor | np.ndarray) -> int:
    """A sum of the bits of tensors."""
    total = 0
    for result in results:
        words = np.ascontiguousarray(result.detach() if isinstance(result, Tensor) else result).view(np.int32).ravel()
        total = (total * 31 + int((words.astype(np.int64) * np.arange(1, 1 + len(words))).sum())) % 2**61
    return total


def bits_of(case: Case) -> int:
    """Bits of outputs and gradients."""
    return bits(*case.both("native"), case.dt_gradient(native))


def main() -> None:
    """A line for each kind of result."""
    print(native.instruction_set())
    for variant in SCHEMES:
        for dof, form in ((1, "step"), (7, "scalar"), (7, "both"), (13, "scalar"), (13, "both")):
            for dtype in DTYPES:
                print(variant, dof, form, dtype, bits_of(Case(variant, 5, 33, dof, dtype, seed=1, dt_form=form)))
    for spline in itertools.starmap(SplineForm, itertools.product((3, 4, 5), (1, 3, 4))):
        for dtype in DTYPES:
            case = Case("bspline", 3, 6, 9, dtype, seed=1, form=spline, goal_form="each")
            print(spline, dtype, bits_of(case))
    generator = torch.Generator().manual_seed(3)
    waypoints = numbers(2, 6, 7, generator=generator, dtype=torch.float64)
    for order in (2, 3):
        motion = retime(waypoints, MotionLimits(velocity=2.0, acceleration=8.0, jerk=60.0), order=order)
        print("retime", order, bits(motion.duration), motion.iterations.tolist())
    rows = waypoints[0].numpy()
    motion = taken_up(cubic_spline(np.full(5, 0.1), rows, rows[1]), rows[2], 0.05)
    profile, begin, knots, pieces = [0.25, 0.5, 3.0, -1.0], np.array([0.1, 0.2, 0.3]), np.zeros(3), np.zeros((2, 6, 1))
    count = motions.pieces_of_profile(profile, begin, float("nan"), np.zeros(3), False, knots, pieces)
    stop, most = (np.zeros(15), np.zeros((14, 6, 1))), np.array([0.5])
    kept = motions.stop(begin[:, None], most, most * 60, 1e-6, 0.01, *stop)
    print("motion", bits(motion.knots, motion.coefficients))
    print("motions", count, bits(extremes(motion), motion.states_at(motion.knots), knots, pieces), kept, bits(*stop))
    rest = motion.from_time(0.13).then(motion.until(0.31))
    joined = united({1: Motion(knots, pieces)}, rest)
    print("parts", joined.knots.tolist(), bits(joined.coefficients, *joined.end))


if __name__ == "__main__":
    main()
