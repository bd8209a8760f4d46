"""Policies that end in a step are exported to ONNX, and onnx's own evaluator computes what torch does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from traj_integrator_ros.kernels import MAPS

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # the first export imports for half a minute where others use the cores
    pytest.mark.filterwarnings("ignore"),  # of the exporter
]


class Policy(torch.nn.Module):
    """A layer, and steps after it."""

    def __init__(self, *kernels):
        super().__init__()
        self.net, self.kernels = torch.nn.Linear(2, 2), kernels

    def forward(self, features, position, velocity):
        start = self.net(features), position, velocity
        steps = [kernel.step(*start, dt=0.05) for kernel in self.kernels]
        steps.append(MAPS["bspline_tight"].step(*start, dt=0.05, goal_position=torch.ones(1, 2)))
        return tuple(output for step in steps for output in step)


def test_a_policy_that_ends_in_a_step_is_exported():
    """The same motion with another batch size than the exported one; other maps consist of the same operators."""
    policy = Policy(*(MAPS[name] for name in ("clique", "clique_central", "jerk")))
    few, many = ([torch.randn(batch, *shape) for shape in ((5, 2), (2,), (2,))] for batch in (3, 4))
    batch = torch.export.Dim("batch", min=2)
    shapes = {"dynamic_shapes": ({0: batch},) * 3}
    exported = torch.onnx.export(policy, tuple(few), dynamo=True, verbose=False, **shapes).model_proto
    onnx.checker.check_model(exported)
    inputs = {given.name: value.numpy() for given, value in zip(exported.graph.input, many, strict=True)}
    found = onnx.reference.ReferenceEvaluator(exported).run(None, inputs)
    with torch.no_grad():
        expected = [output.numpy() for output in policy(*many)]
    for one, right in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        # The graph computes in float64, so differences are roundings of a float32 result.
        np.testing.assert_allclose(one, right, rtol=0, atol=2e-6 * np.abs(right).max())
