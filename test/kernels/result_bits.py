"""Prints checksums of the bits that every compiled part makes of some numbers: the same on every machine."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from launch_cases import DTYPES, Launch
from operator_cases import Case, numbers
from torch import Tensor

from traj_integrator_ros.execution import native as motions
from traj_integrator_ros.execution.complete import played
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion, united
from traj_integrator_ros.kernels import MAPS, control_map, native
from traj_integrator_ros.kernels.retime import MotionLimits, retime


def bits(*results: Tensor | np.ndarray) -> int:
    """A checksum of the bits of tensors."""
    total = 0
    for result in results:
        words = np.ascontiguousarray(result.detach() if isinstance(result, Tensor) else result).view(np.int32).ravel()
        total = (total * 31 + int((words.astype(np.int64) * np.arange(1, 1 + len(words))).sum())) % 2**61
    return total


def main() -> None:
    """A line for each kind of result."""
    print(native.instruction_set())
    forms = ((1, "[H]"), (7, "scalar"), (7, "[B, H]"), (13, "scalar"), (13, "[B, H]"))
    sized = [(kernel, dof, "[B, 1]" if kernel.uniform_dt_only else dt) for kernel in MAPS.values() for dof, dt in forms]
    cases = [Case(kernel, 5, 33, dof, dt) for kernel, dof, dt in sized]
    for form in itertools.product((3, 4, 5), (1, 3, 4), ("tight", "curobo")):
        degree, steps, layout = form
        cases.append(Case(control_map(5, None, None, degree, steps, layout), 3, 6, 9, "number", goal="own"))
    for case, dtype, truncated in itertools.product(cases, DTYPES, (False, True)):
        launch = Launch(case, dtype, truncated=truncated)
        results = [one for one in (*launch.both("native"), launch.dt_gradient(native)) if one is not None]
        print(case.kernel.name, case.dof, case.dt, dtype, bits(*results))
    waypoints = numbers(2, 6, 7, generator=torch.Generator().manual_seed(3))
    for order in (2, 3):
        motion = retime(waypoints, MotionLimits(velocity=2.0, acceleration=8.0, jerk=60.0), order=order)
        print("retime", order, bits(motion.duration), motion.iterations.tolist())
    rows = waypoints[0].numpy()
    velocity = np.where(np.arange(6)[:, None] % 5 > 0, np.nan, 0.0) * np.ones(7)
    motion = played(np.full(5, 0.1), rows.astype(float), velocity)
    begin, stop, most = np.array([0.1, 0.2, 0.3]), (np.zeros(15), np.zeros((14, 6, 1))), np.array([0.5])
    kept = motions.stop(begin[:, None], most, most * 60, 1e-6, 0.01, *stop)
    print("motion", bits(motion.knots, motion.coefficients))
    print("motions", bits(extremes(motion), motion.states_at(motion.knots)), kept, bits(*stop))
    joined = united({1: Motion(stop[0][: kept + 1], stop[1][:kept])}, motion)
    print("parts", joined.knots.tolist(), bits(joined.coefficients))


if __name__ == "__main__":
    main()
