"""Bags of joint states, made up on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from joint_state_rows import joint_state
from recorded_messages import JOINT_STATE, write_bag

from traj_integrator_ros.motions.joint_states import StateRow


@pytest.fixture
def write_states(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes joint states by their topics to a bag, in the order of recording; returns the folder."""

    def write(**topics: list[StateRow]) -> Path:
        return write_bag(
            tmp_path / "bag",
            [
                (f"/{topic.replace('__', '/')}", JOINT_STATE, [(row.recorded_ns, joint_state(row)) for row in rows])
                for topic, rows in topics.items()
            ],
        )

    return write
