"""Robots of LeRobot that move smoothly: an arm of ros2_control (`ros2_control`), or any other one (`smooth`)."""

from importlib.util import find_spec

__all__ = []
if find_spec("rclpy") is not None:
    from .arm import Arm

    __all__ += ["Arm"]
if find_spec("lerobot") is not None:
    from .smooth import Smooth, SmoothConfig

    __all__ += ["Smooth", "SmoothConfig"]
    if find_spec("rclpy") is not None:
        from .ros2_control import Ros2Control, Ros2ControlConfig

        __all__ += ["Ros2Control", "Ros2ControlConfig"]
