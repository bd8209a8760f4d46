"""Compares duration, executed motion, time and failures with toppra, copp-py and ruckig.

Each peer is given the same path, limits and grid. Only the solver's time counts for a peer; ours is the whole call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.interpolate import CubicSpline

from traj_integrator_ros.kernels.retime import Retimed, retime

from .. import report
from .executed import executed_points
from .paths import Limits, as_limits, random_limits, random_path, states_of

RESULTS = Path(__file__).resolve().parent.parent / "results"
_LINEARIZATIONS, _STATIONS = 4, 400
_REPEATS = 5
_TICK_S = 0.01
Row = dict[str, object]
Points = tuple[np.ndarray, list[np.ndarray]]
"""Times, s, and positions, velocities and perhaps accelerations."""


class Case(NamedTuple):
    """One path: our motion and its time, ms; one with limits held between points of the grid, too; a peer's, if any."""

    ours_ms: float
    ours: Retimed
    held_ms: float
    held: Retimed
    theirs_ms: float
    theirs: Points | None
    limits: Limits


def compare(count: int | None, seed: int) -> None:
    """Print and write all rows."""
    parts = toppra_rows(count or 20, seed), copp_rows(count or 8, seed), ruckig_rows(count or 20, seed)
    rows = []
    for row in chain(*parts):
        rows.append({name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()})
        print(", ".join(f"{name}: {value}" for name, value in rows[-1].items()), flush=True)
    path = RESULTS / report.machine_name() / "retiming.json"
    report.write(rows, path)
    print(path)


def toppra_rows(count: int, seed: int) -> Iterator[Row]:
    """Compare order 2 with toppra on the same grid, by joints and rows."""
    import toppra
    import toppra.algorithm
    import toppra.constraint as limited

    toppra.setup_logging("ERROR")
    for dof, rows, per_segment in ((2, 10, 40), (7, 5, 25), (7, 10, 40), (7, 50, 10), (14, 10, 40), (30, 10, 40)):
        found = []
        for way, limits in _paths(count, seed, rows, dof):
            grid = _grid(way, per_segment)
            spline = toppra.SplineInterpolator(_knots(way), way, "natural")
            velocity = np.stack([-limits["velocity"], limits["velocity"]], 1)
            acceleration = np.stack([-limits["deceleration"], limits["acceleration"]], 1)
            scheme = limited.DiscretizationType.Interpolation
            constraints = [
                limited.JointVelocityConstraint(velocity),
                limited.JointAccelerationConstraint(acceleration, scheme),
            ]
            solver = toppra.algorithm.TOPPRA(constraints, spline, gridpoints=grid, solver_wrapper="seidel")
            theirs_ms, profile = _timed(partial(solver.compute_parameterization, 0, 0))
            speed = profile[1]
            theirs = None if speed is None or not np.isfinite(speed).all() else _every_tick(spline, grid, speed)
            waypoints, bounds = torch.tensor(way)[None], as_limits(limits)
            ours = partial(retime, waypoints, bounds, order=2, intervals=len(grid) - 1, threads=1)
            found.append(Case(*_timed(partial(ours, hold=False)), *_timed(ours), theirs_ms, theirs, limits))
        yield _row("toppra, order 2", dof, rows, found)


def copp_rows(count: int, seed: int) -> Iterator[Row]:
    """Compare order 3 with copp-py."""
    for dof, rows in ((2, 8), (7, 4), (7, 8), (14, 8)):
        found = []
        for way, limits in _paths(count, seed, rows, dof):
            theirs_ms, theirs = _timed(partial(copp, way, limits), repeats=1)
            ours = _timed(partial(retime, torch.tensor(way)[None], as_limits(limits), threads=1))
            found.append(Case(*ours, *ours, theirs_ms, theirs, limits))
        yield _row(f"copp-py TOPP3-SOCP, {_STATIONS} stations, order 3", dof, rows, found)


def copp(way: np.ndarray, limits: Limits) -> Points | None:
    """The motion by its stations; None if it fails."""
    import copp_py

    knots, dof = _knots(way), way.shape[1]
    path = CubicSpline(knots, way, bc_type="natural")
    s = np.linspace(0, knots[-1], _STATIONS)
    each = [np.ascontiguousarray(path(s, n)) for n in range(4)]
    robot = copp_py.Robot(dof, capacity=_STATIONS)
    robot.append_s(s)
    robot.set_q(*each[:3], 0, dddq=each[3])
    everywhere = {"start_idx_s": 0, "length": _STATIONS}
    robot.add_velocity_limits(limits["velocity"], -limits["velocity"], **everywhere)
    robot.add_acceleration_limits(limits["acceleration"], -limits["deceleration"], **everywhere)
    robot.add_jerk_limits(limits["jerk"], -limits["jerk"], **everywhere)
    second, third = copp_py.solver.topp2_ra, copp_py.solver.topp3_socp
    try:
        problem = second.Problem(robot.constraints, idx_s_interval=(0, _STATIONS - 1), a_boundary=(0.0, 0.0))
        guess = {"a_linearization": second.solve(problem, second.Options())}
        for _ in range(_LINEARIZATIONS):
            profile = third.solve(third.Problem(robot.constraints, **guess))
            guess = {"a_linearization": profile.a, "b_linearization": profile.b}
    except copp_py.CoppError:
        return None
    _, times = copp_py.interpolation.s_to_t_topp3(s, profile, 0.0)
    a, b = profile.a[:, None], profile.b[:, None]
    states = [each[0], each[1] * np.sqrt(np.maximum(a, 0)), each[2] * a + each[1] * b]
    return np.asarray(times), states


def ruckig_rows(count: int, seed: int) -> Iterator[Row]:
    """Compare straight lines with ruckig, which is exact there."""
    import ruckig

    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        limits, length = random_limits(rng, 1), 10 ** rng.uniform(-3, 1)
        limits["deceleration"] = limits["acceleration"]
        state = ruckig.InputParameter(1)
        state.current_position, state.target_position = [0.0], [length]
        for name in ("velocity", "acceleration", "jerk"):
            setattr(state, f"max_{name}", limits[name].tolist())
        line, optimum = torch.tensor([[[0.0], [length]]], dtype=torch.float64), ruckig.Trajectory(1)
        theirs_ms, _ = _timed(partial(ruckig.Ruckig(1).calculate, state, optimum))
        ours = _timed(partial(retime, line, as_limits(limits), threads=1))
        ticks = _ticks(optimum.duration)
        states = [np.array(part) for part in zip(*(optimum.at_time(t) for t in ticks), strict=True)][:3]
        found.append(Case(*ours, *ours, theirs_ms, (ticks, states), limits))
    yield _row("ruckig, straight lines, order 3", 1, 2, found)


def _row(name: str, dof: int, rows: int, found: list[Case]) -> Row:
    both = [case for case in found if case.theirs is not None and bool(case.ours.ok.all())]
    lasts = [case.theirs[0][-1] for case in both]
    durations = [float(case.ours.duration[0]) / last for case, last in zip(both, lasts, strict=True)]
    executed = [_executed_by_both(case) for case in both]
    factors = [max(1, factor) * last for (*_, factor), last in zip(executed, lasts, strict=True)]
    stretched = [float(case.held.duration[0]) / last for case, last in zip(both, factors, strict=True)]
    return {
        "compared with": name,
        "joints": dof,
        "rows": rows,
        "cases": len(found),
        "failed, ours": sum(not bool(case.ours.ok.all()) for case in found),
        "failed, theirs": sum(case.theirs is None for case in found),
        "duration ratio, mean": statistics.fmean(durations),
        "duration ratio, worst": max(durations),
        "duration ratio, theirs stretched, mean": statistics.fmean(stretched),
        "duration ratio, theirs stretched, worst": max(stretched),
        "executed, ours": max(ours for ours, *_ in executed),
        "executed, theirs, mean": statistics.fmean(theirs for _, theirs, _ in executed),
        "executed, theirs, worst": max(theirs for _, theirs, _ in executed),
        "ours, ms": statistics.median(case.ours_ms for case in found),
        "ours, held, ms": statistics.median(case.held_ms for case in found),
        "theirs, ms": statistics.median(case.theirs_ms for case in found),
    }


def _executed_by_both(case: Case) -> tuple[float, float, float]:
    """Return both motions' largest ratios to limits (at order 2 without jerk), and how much theirs was stretched."""
    kinds = 2 if case.held.acceleration is None else 3
    ours, theirs = (executed_points(*one, case.limits)[:kinds] for one in (states_of(case.held, 0), case.theirs))
    return float(ours.max()), float(theirs.max()), float((theirs ** (1 / np.arange(1, kinds + 1))).max())


def _paths(count: int, seed: int, rows: int, dof: int) -> Iterator[tuple[np.ndarray, Limits]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield random_path(rng, rows, dof), random_limits(rng, dof)


def _timed(run: Callable[[], object], repeats: int = _REPEATS) -> tuple[float, object]:
    """The least CPU time of several runs, ms, and the result: others may use the machine, too."""
    took = []
    for _ in range(repeats):
        began = time.process_time()
        result = run()
        took.append(time.process_time() - began)
    return 1e3 * min(took), result


def _knots(way: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(way, axis=0), axis=1))])


def _grid(way: np.ndarray, per_segment: int) -> np.ndarray:
    knots = _knots(way)
    parts = [np.linspace(a, b, per_segment, endpoint=False) for a, b in pairwise(knots)]
    return np.concatenate([*parts, knots[-1:]])


def _ticks(duration: float) -> np.ndarray:
    ticks = np.arange(0, duration, _TICK_S)
    return np.append(ticks[ticks < duration - 1e-3], duration)


def _every_tick(path: Callable[[np.ndarray, int], np.ndarray], grid: np.ndarray, speed: np.ndarray) -> Points:
    """The motion along speeds on a grid, as points every 10 ms with positions and velocities."""
    u = np.diff(speed**2) / (2 * np.diff(grid))
    times = np.concatenate([[0], np.cumsum(2 * np.diff(grid) / (speed[1:] + speed[:-1]))])
    ticks = _ticks(times[-1])
    at = np.clip(np.searchsorted(times, ticks, side="right") - 1, 0, len(u) - 1)
    since = ticks - times[at]
    s, rate = grid[at] + since * (speed[at] + u[at] * since / 2), speed[at] + u[at] * since
    return ticks, [path(s, 0), path(s, 1) * rate[:, None]]
