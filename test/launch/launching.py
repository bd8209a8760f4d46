"""The launch files of the source tree as parts of a launch test."""

from __future__ import annotations

import os

from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import SetRemap
from scenarios import CONFIG, REPOSITORY, Scenario

from traj_integrator_ros.tools.ros_domain import claim_domain


def isolate() -> None:
    """Keep DDS on this machine, in a domain of our own, under launch_test; under pytest test/conftest.py does it."""
    if "PYTEST_CURRENT_TEST" not in os.environ:
        os.environ["ROS_DOMAIN_ID"] = str(claim_domain())
        os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        fast_dds = "FASTRTPS" if os.environ.get("ROS_DISTRO") in ("humble", "iron", "jazzy") else "FASTDDS"
        os.environ[f"{fast_dds}_DEFAULT_PROFILES_FILE"] = str(CONFIG / "fastdds_localhost.xml")


def integrator_launch(scenario: Scenario, **arguments: str) -> GroupAction:
    """Return integrator.launch.py with the arguments and remappings of the scenario, and with more or others."""
    remappings = [SetRemap(name, other) for name, other in scenario.remappings]
    return GroupAction([*remappings, included("integrator.launch.py", {**scenario.launch_arguments(), **arguments})])


def included(name: str, arguments: dict[str, str]) -> IncludeLaunchDescription:
    source = PythonLaunchDescriptionSource(str(REPOSITORY / "launch" / name))
    return IncludeLaunchDescription(source, launch_arguments=arguments.items())
