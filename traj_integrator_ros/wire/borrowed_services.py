"""Services whose requests are read from the structs that the middleware filled, and whose responses point to results.

rclpy's objects, one for each nested message, take as long as everything else that the node does for a small request.
rclpy takes the functions that convert a message to its struct and back from the message's class; the classes here
provide their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import ClassVar

from rclpy.serialization import deserialize_message, serialize_message

from .repeated_requests import RepeatedRequests
from .struct_layout import StructLayout

_ADDRESS = ctypes.c_void_p
_CONVERT_TO_PY = ctypes.CFUNCTYPE(ctypes.py_object, _ADDRESS)
_CONVERT_FROM_PY = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.py_object, _ADDRESS)
_CREATE = ctypes.CFUNCTYPE(_ADDRESS)
_DESTROY = ctypes.CFUNCTYPE(None, _ADDRESS)


VARYING = frozenset({"data", "position", "velocity", "acceleration", "weight", "target", "terminal_weight"})
"""Arrays of requests that an optimizer changes from call to call; those of upstream gradients, too."""


class BorrowedResponse(SimpleNamespace):
    """Base of the responses of `borrowed`: its arrays are contiguous, and must not change until it is sent.

    Its fields have their defaults until they are set.
    """

    _layout: ClassVar[StructLayout]
    _image: bytes | None = None

    def __getattr__(self, name: str) -> object:
        blank = vars(self._layout.blank())
        if name not in blank:
            raise AttributeError(f"{type(self).__name__} has no field {name}")
        vars(self).update(blank | vars(self))
        return vars(self)[name]

    def keep(self) -> None:
        """Send this response as it is now, with what its arrays then contain; its strings must be empty."""
        self._image = self._layout.image(self)


def borrowed(service: type, *, keeps: bool = True) -> type:
    """Return a type to serve `service` with, whose requests are named tuples, and responses BorrowedResponses.

    Fields, names and values are those of rclpy's objects, with numpy arrays, until the next request is read (see
    `RepeatedRequests`, also for `keeps`); a request that cannot be read is replaced
    by the exception, and a response that cannot be written says so in its message. Each node needs types of its own,
    since they keep the last requests and one response. Returns `service` itself if this
    rclpy or its messages do not have the expected layout, which is checked with an example.
    """
    try:
        parts = {"Request": _request(service.Request, keeps), "Response": _response(service.Response)}
        # A derived class, so that rclpy finds the attributes that it needs to create the service.
        return type(service)(service.__name__, (service,), parts)
    except (AttributeError, KeyError, TypeError):
        return service


def _request(message: type, keeps: bool) -> type:
    layout = _checked_layout(message)
    upstream = {name for name in message.get_fields_and_field_types() if name.startswith("grad_")}
    requests = RepeatedRequests(layout, VARYING | upstream, keeps=keeps)
    return _converted_by(message, requests.read)


def _response(message: type) -> type:
    layout = _checked_layout(message)
    memory = ctypes.create_string_buffer(layout.size)

    def converted(response: BorrowedResponse, _: int) -> bool:
        try:
            image = response._image or layout.image(response)
        except Exception as error:  # C has no exceptions
            failed = layout.blank()
            failed.success, failed.message = False, f"response: {error}"
            image = layout.image(failed)
        ctypes.memmove(memory, image, layout.size)
        return True

    # One struct for all responses, which owns nothing: rclpy creates one at a time, and drops it when it is sent.
    functions = {
        "_CREATE_ROS_MESSAGE": _CREATE(lambda: ctypes.addressof(memory)),
        "_DESTROY_ROS_MESSAGE": _DESTROY(lambda _: None),
        "_CONVERT_FROM_PY": _CONVERT_FROM_PY(converted),
    }

    metaclass = _metaclass(message, functions)
    return metaclass(message.__name__, (BorrowedResponse,), {"_layout": layout})


def _checked_layout(message: type) -> StructLayout:
    """The layout of a message.

    Raises:
        TypeError: its struct has another layout.

    """
    layout = StructLayout(message)
    example = layout.example()
    words = deserialize_message(serialize_message(example), _converted_by(message, layout.words))
    if not layout.agrees(words, example):
        raise TypeError(f"{message.__name__}: expected the C layout of rosidl, got another one")
    return layout


def _converted_by(message: type, convert: Callable[[int], object]) -> type:
    """A message type that rclpy converts by `convert`, which takes the address of the struct."""

    def converted(at: int) -> object:
        try:
            return convert(at)
        except Exception as error:  # C has no exceptions: reading a field raises it
            return error

    return _metaclass(message, {"_CONVERT_TO_PY": _CONVERT_TO_PY(converted)})(message.__name__, (), {})


def _metaclass(message: type, functions: dict[str, object]) -> type:
    """A metaclass like the message's, from which rclpy takes these functions."""
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [_ADDRESS, ctypes.c_char_p, _ADDRESS]
    capsules = {name: new_capsule(ctypes.cast(function, _ADDRESS), None, None) for name, function in functions.items()}
    metaclass = type(message)
    return type(metaclass)(metaclass.__name__, (metaclass,), {**capsules, "_functions": functions})
