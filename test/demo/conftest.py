"""Recordings for the demo's tests, made up on the spot."""

from __future__ import annotations

import pytest
from motions import sine_motion

from traj_integrator_ros.motions.samples import Samples


@pytest.fixture
def sine() -> Samples:
    return sine_motion()
