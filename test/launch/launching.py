"""The launch files of the source tree as parts of a launch test."""

from __future__ import annotations

import os

from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import SetRemap
from scenarios import REPOSITORY, Scenario

from traj_integrator_ros.traffic import local_dds


def isolate() -> None:
    """Keep DDS on this machine, in a domain of our own, under launch_test; under pytest test/conftest.py does it."""
    if "PYTEST_CURRENT_TEST" not in os.environ:
        local_dds.isolate()


def integrator_launch(scenario: Scenario, **arguments: str) -> GroupAction:
    """Return integrator.launch.py with the arguments and remappings of the scenario, and with more or others."""
    remappings = [SetRemap(name, other) for name, other in scenario.remappings]
    return GroupAction([*remappings, included("integrator.launch.py", {**scenario.launch_arguments(), **arguments})])


def included(name: str, arguments: dict[str, str]) -> IncludeLaunchDescription:
    source = PythonLaunchDescriptionSource(str(REPOSITORY / "launch" / name))
    return IncludeLaunchDescription(source, launch_arguments=arguments.items())
