"""An arm of ros2_control as a robot of LeRobot: `--robot.type=ros2_control`."""

from .arm import Arm

try:
    from .config_ros2_control import Ros2ControlConfig
    from .ros2_control import Ros2Control
except ModuleNotFoundError as error:  # the arm is of use without LeRobot, too
    if (error.name or "").partition(".")[0] != "lerobot":
        raise
    __all__ = ["Arm"]
else:
    __all__ = ["Arm", "Ros2Control", "Ros2ControlConfig"]
