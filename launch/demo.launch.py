"""Run the demo against a node that the launch starts, and end with it.

    ros2 launch traj_integrator_ros demo.launch.py data:=recording.db3

The launch ends when the demo does. Its exit status is 0 if the demo succeeded or was interrupted, and 1 if it failed.
DDS stays on this machine, unless the environment says otherwise.
"""

from pathlib import Path

import launch.logging
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import EnvironmentVariable, LaunchConfiguration
from launch_ros.actions import Node

from traj_integrator_ros.node.launch_arguments import require_declared

HERE = Path(__file__).parent


def generate_launch_description() -> LaunchDescription:
    arguments = {
        "data": ("", "Recording to play: a rosbag2, a CSV or a RobotTrajectory; empty = a planned motion."),
        "out": ("", "Folder for report and figures; empty = build/demo."),
        "device": ("", "auto, cpu, cuda or cuda:N; empty = auto."),
        "namespace": ("", "Namespace of the node and of the demo; empty = the root namespace."),
        "log_level": ("info", "Least severity that the node logs: debug, info, warn, error, fatal."),
        "transport_profile": ("auto", "Fast DDS profile of the node, as in integrator.launch.py."),
        "respawn": ("false", "true = start the node again if it ends before the demo does."),
    }
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=description)
                for name, (default, description) in arguments.items()
            ),
            SetEnvironmentVariable(
                "ROS_AUTOMATIC_DISCOVERY_RANGE",
                EnvironmentVariable("ROS_AUTOMATIC_DISCOVERY_RANGE", default_value="LOCALHOST"),
            ),
            OpaqueFunction(function=_prepare, args=[list(arguments)]),
        ]
    )


def _prepare(context: LaunchContext, arguments: list[str]) -> list[LaunchDescriptionEntity]:
    """Let the demo write the parameters that its motion needs, then start the node with them."""
    require_declared(__file__, arguments, context.argv)
    parameters = Path(launch.logging.launch_config.log_dir) / "node_params.yaml"
    prepare = _demo(context, "--write-node-params", str(parameters))

    def start(event: ProcessExited, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        _raise_if_failed(event, context)
        if context.is_shutdown:
            return []
        demo = _demo(context, "--external-node")
        return [_integrator(parameters), demo, RegisterEventHandler(OnProcessExit(target_action=demo, on_exit=_end))]

    return [prepare, RegisterEventHandler(OnProcessExit(target_action=prepare, on_exit=start))]


def _end(event: ProcessExited, context: LaunchContext) -> list[Shutdown]:
    """End the launch, but not twice after Ctrl-C: its ROS adapter fails then, and launch exits with 1."""
    _raise_if_failed(event, context)
    return [] if context.is_shutdown else [Shutdown(reason="the demo is over")]


def _raise_if_failed(event: ProcessExited, context: LaunchContext) -> None:
    """Raise RuntimeError if the demo failed by itself: launch then ends all processes and exits with 1."""
    if event.returncode != 0 and not context.is_shutdown:
        raise RuntimeError(f"the demo ended with exit code {event.returncode}")


def _integrator(parameters: Path) -> IncludeLaunchDescription:
    passed_on = ("device", "namespace", "log_level", "transport_profile", "respawn")
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(HERE / "integrator.launch.py")),
        launch_arguments=[
            ("robot", "none"),
            ("params_file", str(parameters)),
            *((name, LaunchConfiguration(name)) for name in passed_on),
        ],
    )


def _demo(context: LaunchContext, *arguments: str) -> Node:
    """Return the demo as a process, with the launch arguments that were given and those passed here."""
    data, out = (LaunchConfiguration(name).perform(context) for name in ("data", "out"))
    options = [data] * bool(data) + ["--out", out] * bool(out)
    return Node(
        package="traj_integrator_ros",
        executable="demo",
        namespace=LaunchConfiguration("namespace"),
        arguments=[*options, *arguments],
        output="screen",
    )
