"""Goals of FollowJointTrajectory with their trajectory as bytes.

rclpy makes objects of all points while no other thread runs, stops included: half a second for 20,000. Here, it makes
none: its conversion of requests is replaced by one that serializes the trajectory and then shows it no points.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from types import SimpleNamespace
from typing import NamedTuple

from rclpy.serialization import serialize_message
from rclpy.type_support import check_for_type_support
from trajectory_msgs.msg import JointTrajectory

from ..wire.readers import read_position_trajectory
from .rclpy_features import SerializedMessage, rcl

_Convert = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(("PyCapsule_New", ctypes.pythonapi))
_name = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Sequence(ctypes.Structure):
    """A sequence or a string in C."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("capacity", ctypes.c_size_t))


class _Trajectory(ctypes.Structure):
    """A JointTrajectory in C."""

    _fields_ = (
        ("stamp", ctypes.c_int32 * 2),
        ("frame_id", _Sequence),
        ("joint_names", _Sequence),
        ("points", _Sequence),
    )


class _Request(ctypes.Structure):
    """The beginning of a request to execute a goal, in C."""

    _fields_ = (("goal_id", ctypes.c_uint8 * 16), ("trajectory", _Trajectory))


class _Allocator(ctypes.Structure):
    _fields_ = (("functions", ctypes.c_void_p * 5),)


class TakenGoal(NamedTuple):
    """A goal of FollowJointTrajectory."""

    fields: object
    """The goal, whose trajectory may have no points."""
    trajectory: bytes
    """Its serialized trajectory."""


def taken_goal(request: object) -> TakenGoal:
    """Return a goal that a server has taken of the type below, or of FollowJointTrajectory itself."""
    return request if isinstance(request, TakenGoal) else TakenGoal(request, serialize_message(request.trajectory))


def taking_goals(action: type) -> type:
    """FollowJointTrajectory for a server that gets `TakenGoal`s; unchanged where rclpy's library is not found."""
    library = rcl()
    if not hasattr(library, "rmw_serialize"):
        return action
    for kind in (action, JointTrajectory):
        check_for_type_support(kind)
    request = action.Impl.SendGoalService.Request
    as_object = _Convert(_address(type(request)._CONVERT_TO_PY))
    type_support = _address(type(JointTrajectory)._TYPE_SUPPORT)

    def convert(address: int) -> object:
        with suppress(Exception):  # C could not pass it on: rclpy's own conversion remains
            trajectory = _Request.from_address(address).trajectory
            serialized = _serialized(library, ctypes.addressof(trajectory), type_support)
            points = trajectory.points
            count = points.size
            if read_position_trajectory(serialized, 0).count == count:  # the layout is the one above
                points.size = 0
                try:
                    taken = as_object(address)
                finally:
                    points.size = count
                return SimpleNamespace(goal_id=taken.goal_id, goal=TakenGoal(taken.goal, serialized))
        return as_object(address)

    function = _Convert(convert)
    capsule = _new_capsule(ctypes.cast(function, ctypes.c_void_p), None, None)
    # rclpy looks for the conversion in the type of the request's type, which keeps the function alive as well
    kind = type("TakenRequestType", (type(request),), {"_CONVERT_TO_PY": capsule, "function": function})

    class Impl(action.Impl):
        class SendGoalService(action.Impl.SendGoalService):
            Request = kind("TakenRequest", (request,), {})

    return type(action)("Action", (action,), {"Impl": Impl})


def _address(capsule: object) -> int:
    return _pointer(capsule, _name(capsule))


def _serialized(library: ctypes.CDLL, address: int, type_support: int) -> bytes:
    """Serialize a message in C, while other threads run. Raises RuntimeError."""
    library.rcutils_get_default_allocator.restype = _Allocator
    message = SerializedMessage(allocator=library.rcutils_get_default_allocator().functions)
    try:
        if library.rmw_serialize(ctypes.c_void_p(address), ctypes.c_void_p(type_support), ctypes.byref(message)):
            raise RuntimeError(f"{JointTrajectory.__name__}: expected one that can be serialized")
        return ctypes.string_at(message.buffer, message.length)
    finally:
        library.rcutils_uint8_array_fini(ctypes.byref(message))
