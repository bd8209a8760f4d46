"""Degree x layout x goal: how far splines, their gradients and the fit are from scipy. Run it to see the table.

python test/kernels/spline_table.py
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
from spline_oracle import spline_trajectory
from torch import Tensor

from traj_integrator_ros.kernels import bspline_step, fit_bspline

FORMS = tuple(itertools.product((3, 4, 5), ("tight", "curobo"), (False, True)))
STATE = ("position", "velocity", "acceleration", "jerk")
DT, BATCH, POINTS, STEPS, DOF = 0.07, 2, 6, 3, 2


class Errors(NamedTuple):
    """Relative errors, in the norm."""

    scipy: float
    """Of the four outputs."""
    gradients: float
    """Of control points, start and goal rows: against scipy's rows for unit vectors."""
    dt: float
    """Of dt: against the difference quotient of scipy's rows, whose own error is about 1e-9."""
    double_backward: float
    """Of the upstream gradients: against scipy's rows for the tangents."""
    fit: float
    """Of control points fitted to a spline's own positions."""


class Spline:
    """Random arguments of one form."""

    def __init__(self, degree: int, layout: str, has_goal: bool) -> None:
        self.degree, self.layout, self.has_goal = degree, layout, has_goal
        random = np.random.default_rng(degree)
        self.inputs = [random.standard_normal((BATCH, POINTS, DOF))]
        self.inputs += [random.standard_normal((BATCH, DOF)) for _ in range(8 if has_goal else 4)]

    def ours(self, *inputs: Tensor, dt: float | Tensor = DT) -> tuple[Tensor, ...]:
        """The map, of control points, four start rows and four goal rows."""
        goal = {f"goal_{kind}": row for kind, row in zip(STATE, inputs[5:], strict=False)}
        options = {"dt": dt, "degree": self.degree, "steps": STEPS, "layout": self.layout}
        return tuple(bspline_step(*inputs[:5], **goal, **options))

    def scipy(self, inputs: list[np.ndarray], dt: float = DT) -> np.ndarray:
        """The same by scipy, `[4, B, H, D]`."""
        rows = []
        for b in range(BATCH):
            points, *states = (x[b] for x in inputs)
            goal = states[4:] if self.has_goal else None
            rows.append(spline_trajectory(points, states[:4], goal, dt, self.degree, STEPS, self.layout))
        return np.stack(rows, axis=1)

    def pulled_back(self, upstream: np.ndarray) -> list[np.ndarray]:
        """The transpose by scipy: one unit vector after the other, of all trajectories and joints at once."""
        results = []
        for which, value in enumerate(self.inputs):
            gradient = np.zeros_like(value)
            places = range(POINTS) if which == 0 else (slice(None),)
            for place in places:
                unit = [np.zeros_like(x) for x in self.inputs]
                unit[which][:, place] = 1.0
                gradient[:, place] = (self.scipy(unit) * upstream).sum((0, 2))
            results.append(gradient)
        return results


def errors(degree: int, layout: str, has_goal: bool) -> Errors:
    """One row of the table."""
    spline = Spline(degree, layout, has_goal)
    inputs = [torch.tensor(x, requires_grad=True) for x in spline.inputs]
    dt = torch.tensor(DT, dtype=torch.float64, requires_grad=True)
    outputs = spline.ours(*inputs, dt=dt)
    exact = spline.scipy(spline.inputs)
    random = np.random.default_rng(1)
    # Every order has the same weight, in spite of the powers of the segments' length.
    weight = random.standard_normal(exact.shape) / np.abs(exact).max((1, 2, 3), keepdims=True)
    upstream = [torch.tensor(x, requires_grad=True) for x in weight]
    *gradients, by_dt = torch.autograd.grad(outputs, [*inputs, dt], upstream, create_graph=True)
    tangents = [random.standard_normal(x.shape) for x in spline.inputs]
    again = torch.autograd.grad(gradients, upstream, [torch.tensor(x) for x in tangents])
    step = 1e-3 * DT
    at = [(weight * spline.scipy(spline.inputs, DT + k * step)).sum() for k in (-2, -1, 1, 2)]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
    states = inputs[1:5]
    goal = {f"goal_{kind}": row for kind, row in zip(STATE, inputs[5:], strict=False)}
    options = {"dt": DT, "degree": degree, "steps": STEPS, "layout": layout}
    fitted = fit_bspline(outputs[0], *states, **goal, **options)
    used = POINTS - (has_goal and layout == "curobo")
    return Errors(
        max(_error(got, want) for got, want in zip(outputs, exact, strict=True)),
        max(_error(got, want) for got, want in zip(gradients, spline.pulled_back(weight), strict=True)),
        abs(by_dt.item() - slope) / abs(slope),
        max(_error(got, want) for got, want in zip(again, spline.scipy(tangents), strict=True)),
        _error(fitted[:, :used], spline.inputs[0][:, :used]),
    )


def _error(got: Tensor, want: np.ndarray) -> float:
    scale = np.linalg.norm(want)
    return float(np.linalg.norm(got.detach().numpy() - want) / (scale if scale > 0 else 1.0))


if __name__ == "__main__":
    print("degree  layout  goal  " + "  ".join(f"{name:>15}" for name in Errors._fields))
    for form in FORMS:
        figures = "  ".join(f"{value:15.1e}" for value in errors(*form))
        print(f"{form[0]:>6}  {form[1]:<6}  {'yes' if form[2] else 'no':<4}  {figures}")
