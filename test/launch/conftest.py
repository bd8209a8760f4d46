"""Which tests of this folder need a ROS 2 installation, and why they are skipped where there is none."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reason = _why_launch_cannot_run(config)
    for item in items:
        if reason and item.path.parent == Path(__file__).parent and item.path.name.startswith("test_launch_"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_launch_cannot_run(config: pytest.Config) -> str | None:
    if find_spec("launch_testing") is None:
        return "launch_testing cannot be imported: it comes with a ROS 2 installation"
    if not config.pluginmanager.hasplugin("launch_testing"):
        return "the pytest plugin of launch_testing is not loaded"
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        get_package_prefix("traj_integrator_ros")
    except PackageNotFoundError:
        return "traj_integrator_ros is not on AMENT_PREFIX_PATH: colcon build, then source install/setup.bash"
    return None
