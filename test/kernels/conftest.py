"""Calls of the operators to their backends."""

from __future__ import annotations

import pytest

from traj_integrator_ros.kernels import operator
from traj_integrator_ros.kernels.types import Inputs, VjpInputs


@pytest.fixture
def backend_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Inputs | VjpInputs]]:
    """Direction and inputs of every call of a backend that the operators make in a test."""
    calls = []
    launcher = operator.launcher

    def spying_launcher(name: str, direction: str, *which: str | None):
        launch = launcher(name, direction, *which)

        def spy(inputs: Inputs | VjpInputs, **options: object):
            calls.append((direction, inputs))
            return launch(inputs, **options)

        return spy

    monkeypatch.setattr(operator, "launcher", spying_launcher)
    return calls
