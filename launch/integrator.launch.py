"""Start the integrator node for one robot.

    ros2 launch traj_integrator_ros integrator.launch.py robot:=ur5e namespace:=left device:=cpu

Parameters come from config/<robot>.yaml, then from `params_file`, then from the arguments given; the later ones
override the earlier ones. An argument left empty sets nothing, so every default has one place, the YAML file.
"""

from collections.abc import Sequence
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode

from traj_integrator_ros.node.launch_arguments import require_declared
from traj_integrator_ros.wire.transport import LIMIT_VARIABLE, profile_variable

# Both in the source tree and in share/traj_integrator_ros, config/ is beside launch/.
CONFIG = Path(__file__).parent.parent / "config"
NODE_NAME = "traj_integrator"
TOPICS = {  # what each argument remaps
    "joint_states_topic": "joint_states",
    "joint_trajectory_topic": "~/joint_trajectory",
    "controller_state_topic": "controller_state",
}
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
RESPAWN_DELAY_S = 1.0


def generate_launch_description() -> LaunchDescription:
    robots = ", ".join(_robot_files())
    profiles = ", ".join(_transport_profiles())
    arguments = {
        "robot": ("franka", f"Robot whose config/<robot>.yaml is read: {robots}; none = params_file alone."),
        "params_file": ("", "YAML file of parameters that override those of the robot; empty = no overrides."),
        "namespace": ("", "Namespace of the node; empty = the root namespace."),
        "joint_states_topic": ("", "Topic of the robot's joint states; empty = joint_states."),
        "joint_trajectory_topic": ("", "Topic of the controller's trajectories; empty = ~/joint_trajectory."),
        "controller_state_topic": ("", "Topic of what the controller commands; empty = controller_state."),
        "use_sim_time": ("", "true = the clock is the topic /clock, false = the system's; empty = as in the files."),
        "device": ("", "auto, cpu, cuda or cuda:N; empty = as in the parameter files."),
        "log_level": ("info", f"Least severity that the node logs: {', '.join(LOG_LEVELS)}."),
        "autostart": ("", "true = active by itself, false = waits for transitions; empty = as in the parameter files."),
        "transport_profile": (
            "auto",
            f"Fast DDS profile of the node: {profiles}, or the path of an XML file; none = the environment as it is; "
            "auto = shared memory by max_batch, max_horizon and joints, unless the environment chooses transports.",
        ),
        "respawn": ("false", f"true = start the node again {RESPAWN_DELAY_S:g} s after it ended."),
    }
    declarations = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in arguments.items()
    ]
    return LaunchDescription([*declarations, OpaqueFunction(function=_start_node, args=[list(arguments)])])


def _start_node(context: LaunchContext, arguments: list[str]) -> list[LifecycleNode]:
    """Check every argument first, so that a wrong one ends the launch with one line, before a process starts."""
    require_declared(__file__, arguments, context.argv)

    def given(argument: str) -> str:
        return LaunchConfiguration(argument).perform(context)

    overrides: dict[str, str | bool] = {}
    if given("device") != "":
        overrides["device"] = given("device")
    for name in ("autostart", "use_sim_time"):
        if given(name) != "":
            overrides[name] = _boolean(name, given(name))
    # Loggers have dotted names: left.traj_integrator. The level is not meant for rcl and the middleware. A launch file
    # that includes this one may have pushed a namespace, below which the node's lies, unless that begins with a slash.
    pushed = "" if given("namespace").startswith("/") else context.launch_configurations.get("ros_namespace", "")
    spaces = [part for part in f"{pushed}/{given('namespace')}".split("/") if part]
    logger = ".".join([*spaces, NODE_NAME])
    level = _one_of("log_level", given("log_level").lower(), LOG_LEVELS)
    node = LifecycleNode(
        package="traj_integrator_ros",
        executable="integrator_node",
        name=NODE_NAME,
        namespace=given("namespace"),
        parameters=[*_parameter_files(given("robot"), given("params_file")), overrides],
        remappings=[(topic, given(name)) for name, topic in TOPICS.items() if given(name) != ""],
        ros_arguments=["--log-level", f"{logger}:={level}"],
        additional_env=_transport_environment(given("transport_profile")),
        output="screen",
        respawn=_boolean("respawn", given("respawn")),
        respawn_delay=RESPAWN_DELAY_S,
    )
    return [node]


def _robot_files() -> dict[str, Path]:
    return {path.stem: path for path in sorted(CONFIG.glob("*.yaml"))}


def _transport_profiles() -> dict[str, Path]:
    return {path.stem.removeprefix("fastdds_"): path for path in sorted(CONFIG.glob("fastdds_*.xml"))}


def _parameter_files(robot: str, params_file: str) -> list[Path]:
    """Return the parameter files in the order in which the node reads them."""
    files = _robot_files()
    _one_of("robot", robot, [*files, "none"])
    if robot == "none" and params_file == "":
        raise ValueError("params_file: expected a YAML file that names the joints, because robot is none; got none")
    paths = [] if robot == "none" else [files[robot]]
    if params_file != "":
        paths.append(_existing_file("params_file", params_file))
    return paths


def _transport_environment(profile: str) -> dict[str, str]:
    """Return the environment variables that choose the node's transports; without any, the node fits them itself."""
    if profile == "auto":
        return {}
    if profile == "none":
        return {LIMIT_VARIABLE: "0"}
    profiles = _transport_profiles()
    if profile in profiles:
        path = profiles[profile]
    elif profile.endswith(".xml"):
        path = _existing_file("transport_profile", profile)
    else:
        names = ", ".join([*profiles, "none", "auto"])
        raise ValueError(f"transport_profile: expected one of {names}, or the path of an .xml file; got '{profile}'")
    return {profile_variable(): str(path)}


def _existing_file(argument: str, text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise ValueError(f"{argument}: expected an existing file, got '{text}' (looked for {path})")
    return path


def _boolean(argument: str, text: str) -> bool:
    return _one_of(argument, text.lower(), ("true", "false")) == "true"


def _one_of(argument: str, text: str, expected: Sequence[str]) -> str:
    if text not in expected:
        raise ValueError(f"{argument}: expected one of {', '.join(expected)}; got '{text}'")
    return text
