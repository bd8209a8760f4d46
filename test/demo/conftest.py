"""Recordings that the demo's tests make themselves."""

from __future__ import annotations

import pytest
from motions import sine_motion

from traj_integrator_ros.motions.samples import Samples


@pytest.fixture
def sine() -> Samples:
    return sine_motion()
