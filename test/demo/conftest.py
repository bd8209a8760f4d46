"""Recordings for the demo's tests, made up on the spot."""

from __future__ import annotations

import pytest
from motions import sine_motion

from traj_integrator_ros.demo.recording import Motion


@pytest.fixture
def sine() -> Motion:
    return sine_motion()
