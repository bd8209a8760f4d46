"""The public function: from waypoints and limits to times."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .gradient import Envelope, WithGradient, wants_gradient
from .limits import MotionLimits
from .native import native, refuse_transformed
from .retimed import Retimed
from .smoothing import smoothed

MODES = ("fastest", "slow only")
_LEAST_INTERVALS = {2: 100, 3: 360}
"""Smallest number of intervals by order: with 360 of order 3, short paths take at most 0.5 % longer than the optimum.
"""
_PER_SEGMENT = {2: 40, 3: 16}
_FEWEST_PER_SEGMENT = 4
"""Smallest number of intervals in each segment, order 3: with one, 14 of 160 paths with little jerk had no motion, and
others took up to 2.4 times as long.
"""
_MANY_INTERVALS = 1600
"""Largest number of intervals of order 3 by default: more found nothing faster, took long, and gave motions up to 10 %
slower.
"""
_REST = 2e-5
"""Largest speed, rad/s (in mode "slow only", rate of the plan's time), that counts as rest: it comes from rounding."""


def retime(
    waypoints: Tensor,
    limits: MotionLimits,
    *,
    order: int = 3,
    mode: str = "fastest",
    dt: float | Tensor | None = None,
    velocity: Tensor | None = None,
    acceleration: Tensor | None = None,
    start_speed: float | Tensor | None = None,
    start_acceleration: float | Tensor = 0.0,
    end_speed: float | Tensor | None = None,
    end_acceleration: float | Tensor = 0.0,
    duration: float | Tensor | None = None,
    intervals: int | None = None,
    hold: bool = True,
    tolerance: float | Tensor = 0.0,
    threads: int | None = None,
) -> Retimed:
    """Find the times at which a path is passed so that velocity, acceleration and jerk keep their limits everywhere.

    "fastest": the path is the natural cubic spline through the waypoints, over the distances between them. The result
    is the shortest motion along it, or one of the wanted `duration`. "slow only": the waypoints are a plan with its own
    times (`dt`). It is slowed where it exceeds a limit, and returned to the last bit if it exceeds none.

    C++ computes it in float64 on the CPU; tensors on other devices are copied there, and the results back. With order
    3, the shortest `duration` is differentiable once in waypoints and limits. Gradients of states and times are an
    error.

    Args:
        waypoints: `[B, W, D]`, rad, at least 2 of them; rows may repeat the one before in mode "fastest".
        limits: limits of the joints.
        order: 2: velocity and acceleration; 3: jerk, too.
        mode: "fastest" or "slow only".
        dt: slow only: between rows, s; a number or a tensor `[W - 1]`, `[B, 1]` or `[B, W - 1]`.
        velocity: slow only: the plan's, `[B, W, D]`, rad/s. Without it the plan is a cubic spline at rest at both ends.
        acceleration: slow only: the plan's, rad/s^2; order 3 needs it wherever there are velocities.
        start_speed: a number or `[B]`: the length of the joint velocity, rad/s, default 0; slow only: the rate of the
            plan's time, at most 1, default 1, and without effect where the plan rests. Up to 2e-5 it is rest.
        start_acceleration: its derivative by time; order 3 only, and without effect at rest.
        end_speed: the same at the end.
        end_acceleration: the same at the end.
        duration: wanted, s, a number or `[B]`; "fastest" only.
        intervals: of the grid, at least one for each segment, of order 3 in mode "fastest" 4, as far as 1600 in all
            are enough; default: of order 2, 40 for each segment and at least 100; of order 3, 16 for each segment and
            at least 360, at most 1600 or one for each segment; slow only: 2 for each row.
        hold: order 2: keep the limits between the points of the grid, too. False leaves out that and the certificate's
            stretch, as toppra does.
        tolerance: rad, a number, `[D]` or `[B, D]`: the smoothest path (or plan without velocities) within it of all
            waypoints is timed, from the first to the last one. For rows that are rounded to an encoder's step it
            is that step; without it, they take up to 5 times as long. It costs a few ms for each row.
        threads: at most; default: those of torch.

    Raises:
        TypeError, ValueError: an argument of a wrong type, shape or value, named. What depends on the values of one
            trajectory is in `status` instead.
        NotImplementedError: a tensor requires a gradient that there is not, or is one of a `torch.func` transform.
        BackendUnavailable: the C++ extension is not built.

    """
    refuse_transformed(waypoints=waypoints)
    _check(waypoints, limits, order, mode, intervals)
    slow = mode == "slow only"
    plan = {"dt": dt, "velocity": velocity, "acceleration": acceleration}
    rates = {"start_speed": start_speed, "start_acceleration": start_acceleration}
    rates |= {"end_speed": end_speed, "end_acceleration": end_acceleration}
    refuse_transformed(duration=duration, tolerance=tolerance, **plan, **rates)
    refuse_transformed(**{f"limits.{name}": value for name, value in vars(limits).items()})
    for name, value in {"duration": duration}.items() if slow else plan.items():
        if value is not None:
            raise ValueError(f"{name}: expected None in mode {mode!r}, got a value")
    if slow and dt is None:
        raise ValueError("dt: expected the plan's step length in mode 'slow only', got None")
    if acceleration is not None and velocity is None:
        raise ValueError("velocity: expected a tensor with acceleration, got None")
    if order == 3 and velocity is not None and acceleration is None:
        raise ValueError("acceleration: expected a tensor with velocity for order 3, got None")
    batch, rows, dof = waypoints.shape
    bounds = limits.rows(batch, dof)
    if not any(bool(torch.isfinite(bound).any()) for bound in bounds[:3]):
        raise ValueError("limits: expected a limit of velocity or acceleration, got none")
    given = []
    for name, value in (("waypoints", waypoints), ("velocity", velocity), ("acceleration", acceleration)):
        if value is not None and value.shape != waypoints.shape:
            raise ValueError(f"{name}: expected {list(waypoints.shape)}, got {list(value.shape)}")
        given.append(None if value is None else value.detach().to("cpu", torch.float64).contiguous())
    knots = _knots(dt, batch, rows) if slow else None
    if smooths := _tolerance(tolerance, batch, dof):
        if velocity is not None:
            raise ValueError("tolerance: expected 0 for a plan with velocities, got more")
        if wants_gradient(waypoints, limits):
            raise NotImplementedError("gradients of the duration: there are none with a tolerance")
        each_plan = [None] * batch if knots is None else knots.expand(batch, rows).numpy()
        paths = zip(given[0].numpy(), smooths, each_plan, strict=True)
        given[0] = torch.from_numpy(np.stack([smoothed(*path) for path in paths])) if batch else given[0]
    default = 1.0 if slow else 0.0
    each = []
    for name, value in rates.items():
        least, missing = (-_REST, default) if name.endswith("_speed") else (-math.inf, 0.0)
        each.append(_each(name, missing if value is None else value, batch, least))
    for speeds in each[::2]:
        speeds[:] = [0.0 if speed <= _REST else speed for speed in speeds]
    ends = torch.tensor(each, dtype=torch.float64, device="cpu").T.contiguous()
    if slow and float(ends[:, [0, 2]].max()) > 1:
        raise ValueError("start_speed, end_speed: expected rates of at most 1 in mode 'slow only', got more")
    wanted = None if duration is None else _each("duration", duration, batch, 0.0)
    wanted = None if wanted is None else torch.tensor(wanted, dtype=torch.float64, device="cpu")
    if intervals is None:
        fine = 2 if slow else _PER_SEGMENT[order]
        intervals = max(4 if slow else _LEAST_INTERVALS[order], fine * (rows - 1))
        if order == 3 and not slow:
            intervals = min(intervals, max(rows - 1, _MANY_INTERVALS))
    fewest = _FEWEST_PER_SEGMENT if order == 3 and not slow else 1
    N = max(intervals, rows - 1, min(fewest * (rows - 1), _MANY_INTERVALS))
    points = max(N + 1 if order == 2 else 2 * N + 1 + rows, rows)
    envelope = None
    if wants_gradient(waypoints, limits):
        if order == 2 or slow or duration is not None:
            raise NotImplementedError(
                "gradients of the duration: only with order 3, mode 'fastest' and no wanted duration"
            )
        envelope = Envelope.empty(batch, rows, dof, N)
    info = torch.zeros(batch, 6, dtype=torch.int64, device="cpu")
    scalars, times = _zeros(batch, 5), _zeros(batch, points)
    states, row_times = _zeros(3, batch, points, dof), _zeros(batch, rows)
    segment_ratio = _zeros(batch, rows - 1, 3)
    segment_joint = torch.full((batch, rows - 1, 3), -1, dtype=torch.int64, device="cpu")
    inputs = (*given, knots, *(bound.detach().contiguous() for bound in bounds), ends, wanted)
    results = (info, scalars, times, *states, row_times, segment_ratio, segment_joint)
    arrays = (None if x is None else x.numpy() for x in (*inputs, *results, *(envelope or [None] * 6)))
    native().retime(*arrays, order, N, slow, bool(hold), torch.get_num_threads() if threads is None else threads)
    lasts = scalars[:, 0]
    if envelope is not None:
        inputs = waypoints, *bounds, envelope, info[:, 5]
        lasts, times, row_times, *states = WithGradient.apply(*inputs, lasts, times, row_times, *states)
    most = max(int(info[:, 1].max()), 1) if batch else 1
    device = waypoints.device
    has_acceleration = order == 3 or bool(info[:, 2].any())
    parts = {
        "status": info[:, 0],
        "duration": lasts,
        "largest_start_speed": scalars[:, 1],
        "count": info[:, 1],
        "times": times[:, :most],
        "position": states[0][:, :most],
        "velocity": states[1][:, :most],
        "acceleration": states[2][:, :most] if has_acceleration else None,
        "row_times": row_times,
        "ratio": scalars[:, 2:5],
        "segment_ratio": segment_ratio,
        "segment_joint": segment_joint,
        "unchanged": info[:, 2] > 0,
        "iterations": info[:, 3:5],
    }
    return Retimed(**{name: None if x is None else x.to(device) for name, x in parts.items()})


def _check(waypoints: Tensor, limits: MotionLimits, order: int, mode: str, intervals: int | None) -> None:
    if not isinstance(waypoints, Tensor) or not waypoints.is_floating_point():
        raise TypeError("waypoints: expected a tensor of real numbers")
    if waypoints.dim() != 3 or waypoints.shape[1] < 2 or waypoints.shape[2] < 1:
        raise ValueError(f"waypoints: expected [B, W, D] with at least 2 rows, got {list(waypoints.shape)}")
    if not isinstance(limits, MotionLimits):
        raise TypeError(f"limits: expected MotionLimits, got {type(limits).__name__}")
    if order not in (2, 3):
        raise ValueError(f"order: expected 2 or 3, got {order!r}")
    if order == 3 and limits.jerk is None:
        raise ValueError("limits: expected a limit of jerk for order 3, got None")
    if mode not in MODES:
        raise ValueError(f"mode: expected 'fastest' or 'slow only', got {mode!r}")
    if intervals is not None and (isinstance(intervals, bool) or not isinstance(intervals, int) or intervals < 4):
        raise ValueError(f"intervals: expected a whole number of at least 4, got {intervals!r}")


def _knots(dt: float | Tensor, batch: int, rows: int) -> Tensor:
    """Return the times of the plans' rows, s, `[1 or B, W]`."""
    steps = torch.as_tensor(dt, dtype=torch.float64, device="cpu").detach()
    shapes = (), (1,), (rows - 1,), (batch, 1), (batch, rows - 1)
    if steps.shape not in shapes or not bool((torch.isfinite(steps) & (steps > 0)).all()):
        each = f"[{rows - 1}], [{batch}, 1] or [{batch}, {rows - 1}]"
        raise ValueError(f"dt: expected seconds greater than 0, a number, {each}, got {dt}")
    steps = torch.atleast_2d(steps)
    return torch.nn.functional.pad(steps.expand(-1, rows - 1).cumsum(1), (1, 0)).contiguous()


def _tolerance(tolerance: float | Tensor, batch: int, dof: int) -> list[np.ndarray]:
    """Return the tolerances of each path, rad, `[D]`; empty if all are 0."""
    given = torch.as_tensor(tolerance, dtype=torch.float64, device="cpu").detach()
    if given.shape not in ((), (1,), (dof,), (batch, 1), (batch, dof)):
        raise ValueError(f"tolerance: expected a number, [{dof}] or [{batch}, {dof}], got {list(given.shape)}")
    if not bool((torch.isfinite(given) & (given >= 0)).all()):
        raise ValueError(f"tolerance: expected finite numbers of at least 0, got {tolerance}")
    return [*given.expand(batch, dof).numpy()] if bool((given > 0).any()) else []


def _each(name: str, value: float | Tensor, batch: int, least: float) -> list[float]:
    if isinstance(value, (int, float)):  # Usually so, without operations of torch.
        numbers = [float(value)]
    else:
        tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()
        if tensor.shape not in ((), (1,), (batch,)):
            raise ValueError(f"{name}: expected a number or [{batch}], got {list(tensor.shape)}")
        numbers = tensor.reshape(-1).tolist()
    if not all(math.isfinite(number) and number >= least for number in numbers):
        bound = " of at least 0" if math.isfinite(least) else ""
        raise ValueError(f"{name}: expected finite numbers{bound}, got {value}")
    return numbers if len(numbers) == batch else numbers * batch


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.float64, device="cpu")
