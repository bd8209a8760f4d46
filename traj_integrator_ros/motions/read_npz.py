"""Reads motions from NumPy archives, as the tool `integrate` writes them."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from .joint_states import Tell
from .samples import QUANTITIES, Nature, RecordingError, Samples, samples_of

_NEEDED = ("time", "position", "actions")
_UNREADABLE = (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def load_arrays(path: Path, tell: Tell) -> dict[str, np.ndarray]:
    """The arrays of an archive by name. Arrays of objects, and unreadable ones, are left out and told.

    Raises RecordingError where these are ones without which there is no motion, or where there are no others.
    """
    arrays: dict[str, np.ndarray] = {}
    unread: dict[str, str] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, Mapping):
                raise RecordingError(f"{path}: expected an archive of named arrays (NPZ), got a single one")
            for name in archive.files:
                try:
                    arrays[name] = archive[name]
                except _UNREADABLE as error:
                    unread[name] = "objects" if "Object arrays" in str(error) else "what cannot be read"
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or 'not an NPZ archive'}") from None
    except _UNREADABLE:
        raise RecordingError(f"{path}: not an NPZ archive of numbers and names") from None
    needed = [name for name in unread if name in _NEEDED or not arrays]
    if needed:
        raise RecordingError(f"{path}: expected numbers in {needed[0]}, got {unread[needed[0]]}")
    for name, got in unread.items():
        tell(f"array left out: {name}, which holds {got}")
    return arrays


def read_npz(path: Path, tell: Tell) -> Iterator[Samples]:
    """The motions of `time` [N] or [B, N] and `position` [N, D] or [B, N, D], as they are; velocity, acceleration,
    jerk (of the same shape) and `joint_names` [D] where they are there. Raises RecordingError.
    """
    arrays = load_arrays(path, tell)
    if not {"time", "position"} <= arrays.keys():
        raise RecordingError(f"{path}: expected arrays time and position, got {', '.join(arrays) or 'nothing'}")
    rows = {name: numbers(path, name, arrays[name]) for name in ("time", *QUANTITIES) if name in arrays}
    time, position = rows["time"], rows["position"]
    if position.ndim not in (2, 3):
        got = list(position.shape)
        raise RecordingError(f"{path}: expected position of shape [N, D] or [B, N, D], got {got}")
    shape = position.shape if position.ndim == 3 else (1, *position.shape)
    fitting = {"time": (shape[1:2], (1, shape[1]), shape[:2])}
    for name, values in rows.items():
        wanted = fitting.get(name, (position.shape,))
        if values.shape not in wanted:
            got = list(values.shape)
            raise RecordingError(f"{path}: expected {name} of shape {list(wanted[0])} to go with position, got {got}")
    names, times = joint_names(path, arrays, shape[2]), np.broadcast_to(time, shape[:2])
    nature = Nature.EXACT if "acceleration" in rows else Nature.MEASURED
    quantities = [rows[name].reshape(shape) if name in rows else [None] * len(times) for name in QUANTITIES]
    for time, *one in zip(times, *quantities, strict=True):
        yield samples_of(path, names, time, one, "archive of a motion", nature)


def joint_names(path: Path, arrays: Mapping[str, np.ndarray], dof: int) -> list[str]:
    """The array `joint_names` [dof]; joint_0 and so on if it is missing. Raises RecordingError."""
    if "joint_names" not in arrays:
        return [f"joint_{i}" for i in range(dof)]
    names = arrays["joint_names"]
    if names.shape != (dof,):
        raise RecordingError(f"{path}: expected {dof} joint_names, got shape {list(names.shape)}")
    return [text_of(name) for name in names]


def text_of(value: object) -> str:
    """A name from an archive; HDF5 gives names as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    """An array as float64. Raises RecordingError if it does not contain numbers."""
    if values.dtype.kind not in "fiu":
        raise RecordingError(f"{path}: expected numbers in {name}, got {values.dtype}")
    return values.astype(np.float64)
