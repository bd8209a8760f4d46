"""Promises of splines beyond those of every map: fit, evaluation, and errors."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import STATE
from spec_oracle import extended_spline
from torch.autograd import gradcheck

from traj_integrator_ros.kernels import SplineForm, bspline_step, evaluate_bspline, fit_bspline

FORMS = tuple(itertools.product((3, 4, 5), ("tight", "curobo"), (False, True)))


def arguments(degree=3, layout="tight", has_goal=True, *, batch=2, points=4, dof=2, steps=2, dt=0.3, seed=0, rows=None):
    """Positional and keyword arguments of `bspline_step`, float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    rows = batch if rows is None else rows
    inputs = [normal(batch, points, dof), *(normal(rows, dof) for _ in range(4))]
    goal = {f"goal_{kind}": normal(rows, dof) for kind in STATE} if has_goal else {}
    return inputs, {**goal, "dt": dt, "degree": degree, "steps": steps, "layout": layout}


@settings(max_examples=40, deadline=None)
@given(form=st.sampled_from(FORMS), points=st.integers(1, 30), steps=st.integers(1, 8), seed=st.integers(0, 2**31))
def test_a_fit_to_a_spline_gives_back_its_positions(form, points, steps, seed):
    inputs, options = arguments(*form, points=points, steps=steps, seed=seed)
    position = bspline_step(*inputs, **options).position
    fitted = fit_bspline(position, *inputs[1:], **options)
    assert fitted.shape == inputs[0].shape
    again = bspline_step(fitted, *inputs[1:], **options).position
    torch.testing.assert_close(again, position, rtol=0, atol=1e-10)


def test_a_fit_is_the_least_squares_solution_and_differentiable():
    inputs, options = arguments(points=3, steps=4)
    position = torch.randn(2, SplineForm().rows(3), 2, dtype=torch.float64).requires_grad_()
    fitted = fit_bspline(position, *inputs[1:], **options)
    leaf = fitted.detach().requires_grad_()
    residual = bspline_step(leaf, *inputs[1:], **options).position - position.detach()
    (gradient,) = torch.autograd.grad(residual.square().sum(), leaf)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-10)
    start = [row.requires_grad_() for row in inputs[1:]]
    assert gradcheck(lambda *x: fit_bspline(*x, **options), [position, *start])


def test_a_fit_names_the_numbers_of_rows_that_splines_have():
    with pytest.raises(ValueError, match=r"^position: expected 17, 21, 25, ... rows for degree 3, 4 steps .* got 20$"):
        fit_bspline(torch.zeros(1, 20, 2), torch.zeros(1, 2), dt=0.1)


@pytest.mark.parametrize(("degree", "layout", "has_goal"), FORMS)
def test_evaluation_equals_the_rows_and_scipy_between_them(degree, layout, has_goal):
    inputs, options = arguments(degree, layout, has_goal, steps=3, dt=0.02)
    trajectory = bspline_step(*inputs, **options)
    rows = trajectory[0].shape[1]
    at_rows = evaluate_bspline(*inputs, **options, times=torch.arange(rows, dtype=torch.float64) * 0.02)
    for got, want in zip(at_rows, trajectory, strict=True):
        assert (got - want).norm() <= 1e-11 * want.norm()
    times = torch.rand(2, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * (rows - 1) * 0.02
    between = evaluate_bspline(*inputs, **options, times=times)
    control, *start = (x.numpy() for x in inputs)
    for b in range(2):
        goal = [options[f"goal_{kind}"].numpy()[b] for kind in STATE] if has_goal else None
        spline = extended_spline(control[b], [row[b] for row in start], goal, 0.06, degree, layout)
        for order, got in enumerate(between):
            want = spline(times[b].numpy() / 0.06, order) / 0.06**order
            assert np.linalg.norm(got[b].numpy() - want) <= 1e-11 * np.linalg.norm(want)


def test_times_outside_of_the_spline_give_its_ends():
    inputs, options = arguments()
    outside = evaluate_bspline(*inputs, **options, times=[-1.0, 1e3])
    assert evaluate_bspline(*inputs, **options, times=[float("nan")]).position.isnan().all()
    ends = evaluate_bspline(*inputs, **options, times=[0.0, 0.3 * (SplineForm(steps=2).rows(4) - 1)])
    for got, want in zip(outside, ends, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


ROW = torch.zeros(1, 3)
BESIDE_A_POOL = "expected 1 row, or one for each of the 2 trajectories, or {}_index to pick from a pool; got 4 rows"
MISUSES = [
    ({"degree": 2}, "degree: expected 3, 4 or 5, got 2"),
    ({"steps": 0}, "steps: expected a whole number of rows >= 1 for each segment, got 0"),
    ({"steps": True}, "steps: expected a whole number of rows >= 1 for each segment, got True"),
    ({"layout": "loose"}, "layout: expected one of 'tight', 'curobo', got 'loose'"),
    ({"dt": torch.ones(4)}, "dt: B-splines need one step length per trajectory"),
    ({"goal_velocity": ROW}, "goal_position: expected a tensor with goal_velocity, got None"),
    ({"goal_position": torch.zeros(4, 3)}, "goal_position: " + BESIDE_A_POOL.format("goal")),
    ({"start_jerk": torch.zeros(4, 3)}, "start_jerk: " + BESIDE_A_POOL.format("start")),
    ({"goal_position": ROW, "goal_velocity": torch.zeros(1, 2)}, "goal_velocity: expected shape [rows, dof = 3]"),
    ({"goal_position": torch.zeros(2, 4)}, "goal_position: expected shape [rows, dof = 3]"),
    ({"goal_position": ROW, "goal_index": torch.zeros(3).long()}, "goal_index: expected shape [batch = 2], got [3]"),
]


@pytest.mark.parametrize(("change", "message"), MISUSES)
def test_misuse_is_named(change, message):
    correct = {"control_points": torch.zeros(2, 4, 3), "start_position": torch.zeros(2, 3), "dt": 0.1}
    for options in ({}, {"backend": "reference"}):  # the direct way into the C++ kernels, and the general one
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            bspline_step(**{**correct, **options, **change})
