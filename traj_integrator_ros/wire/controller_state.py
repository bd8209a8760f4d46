"""The joint_trajectory_controller's reports about itself, read from their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .readers import CdrReader, RememberedNames, nanoseconds, stamp_of_header

_POINT, _POINTS_OF_FRAMES = "trajectory_msgs/JointTrajectoryPoint", "trajectory_msgs/MultiDOFJointTrajectoryPoint"
_HEADER, _NAMES, _NUMBER = "std_msgs/Header", "sequence<string>", "double"
_KNOWN = (_HEADER, _NAMES, _POINT, _POINTS_OF_FRAMES, _NUMBER)
_DOUBLES_OF_FRAMES = (("transforms", 7), ("velocities", 6), ("accelerations", 6))
_TIME_SIZE = 8
_NEEDED = {"header": _HEADER, "joint_names": _NAMES, "reference": _POINT}
_SCALING = "speed_scaling_factor"


class ReceivedPoint(NamedTuple):
    """A JointTrajectoryPoint; arrays that the controller leaves out are empty."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray


class ReceivedControllerState(NamedTuple):
    """The fields of a JointTrajectoryControllerState that are used."""

    stamp_ns: int
    names: tuple[str, ...]
    reference: ReceivedPoint
    speed_scaling: float
    """1 where the release of control_msgs has no such field."""


class ControllerStateReader:
    """Reads serialized JointTrajectoryControllerStates of the release whose fields are given.

    Args:
        fields: type of each field by its name, in their order, as `get_fields_and_field_types` returns them.

    Raises:
        ValueError: a field that is needed is missing, or one has an unknown type.

    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        for name, kind in _NEEDED.items():
            if fields.get(name) != kind:
                raise ValueError(f"JointTrajectoryControllerState.{name}: expected {kind}, got {fields.get(name)}")
        for name, kind in fields.items():
            if kind not in _KNOWN:
                expected = ", ".join(_KNOWN)
                raise ValueError(f"JointTrajectoryControllerState.{name}: expected one of {expected}, got {kind}")
        last = list(fields).index(_SCALING if _SCALING in fields else "reference")
        self._fields = tuple(fields.items())[: last + 1]  # what follows is not needed
        self._names = RememberedNames()
        self._others: dict[str, RememberedNames] = {}

    def read(self, data: bytes) -> ReceivedControllerState:
        """Return views of a message, of which only the lengths are checked.

        Raises:
            Rejected: malformed_message.

        """
        reader = CdrReader(data)
        stamp_ns, names, reference, scaling = 0, (), None, 1.0
        for name, kind in self._fields:
            if kind == _HEADER:
                stamp_ns = nanoseconds(stamp_of_header(reader))
            elif kind == _NAMES:
                remembered = self._names if name == "joint_names" else self._others.setdefault(name, RememberedNames())
                found = reader.strings(name, remembered)
                names = found if name == "joint_names" else names
            elif kind == _POINT:
                point = _point(reader, name)
                reference = point if name == "reference" else reference
            elif kind == _POINTS_OF_FRAMES:
                _pass_over_frames(reader, name)
            else:
                number = reader.double(name)
                scaling = number if name == _SCALING else scaling
        return ReceivedControllerState(stamp_ns, names, reference, scaling)


def _point(reader: CdrReader, field: str) -> ReceivedPoint:
    arrays = [reader.array(f"{field}.{part}", "f8") for part in ("positions", "velocities", "accelerations", "effort")]
    reader.skip(f"{field}.time_from_start", _TIME_SIZE, 4)
    return ReceivedPoint(*arrays[:3])


def _pass_over_frames(reader: CdrReader, field: str) -> None:
    for part, doubles in _DOUBLES_OF_FRAMES:
        count = reader.count(f"{field}.{part}", 8 * doubles)
        if count:
            reader.skip(f"{field}.{part}", 8 * doubles * count, 8)
    reader.skip(f"{field}.time_from_start", _TIME_SIZE, 4)
