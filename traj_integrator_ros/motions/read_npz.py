"""Reads motions from NumPy archives, as the tool `integrate` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from .door import reason
from .joint_states import Tell
from .samples import QUANTITIES, Nature, RecordingError, Samples, samples_of
from .table_times import seconds
from .units import UNITS_OF_THE_FILE, GivenUnits, tell_of_degrees


def load_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return those arrays of an archive that have one of these names. Raises RecordingError."""
    archive = np.load(path, allow_pickle=False)
    if not isinstance(archive, Mapping):
        raise RecordingError(f"{path}: expected an archive of named arrays (NPZ), got a single one")
    arrays: dict[str, np.ndarray] = {}
    with archive:
        for name in names:
            if name in archive.files:
                try:
                    arrays[name] = np.asanyarray(archive[name])
                except Exception as error:  # damaged bytes raise errors of many types
                    raise RecordingError(f"{path}: expected numbers in {name}, got {reason(error)}") from error
    return arrays


def read_npz(path: Path, tell: Tell, units: GivenUnits = UNITS_OF_THE_FILE) -> Iterator[Samples]:
    """The motions of `time` [N] or [B, N] and `position` [N, D] or [B, N, D], as they are; velocity, acceleration,
    jerk (of the same shape) and `joint_names` [D] where they are there. Units are the given ones, else rad, m and, for
    times, that of their steps and size. Raises RecordingError.
    """
    arrays = load_arrays(path, ("time", *QUANTITIES, "joint_names"))
    if not {"time", "position"} <= arrays.keys():
        raise RecordingError(f"{path}: expected arrays time and position, got {', '.join(arrays) or 'neither'}")
    rows = {name: numbers(path, name, arrays[name]) for name in ("time", *QUANTITIES) if name in arrays}
    time, position = rows["time"], rows["position"]
    if position.ndim not in (2, 3) or position.shape[-1] == 0:
        got = list(position.shape)
        raise RecordingError(f"{path}: expected position of shape [N, D] or [B, N, D], got {got}")
    shape = position.shape if position.ndim == 3 else (1, *position.shape)
    fitting = {"time": (shape[1:2], (1, shape[1]), shape[:2])}
    for name, values in rows.items():
        wanted = fitting.get(name, (position.shape,))
        if values.shape not in wanted:
            got = list(values.shape)
            raise RecordingError(f"{path}: expected {name} of shape {list(wanted[0])} to go with position, got {got}")
    if time.size:
        try:
            whole = arrays["time"].dtype.kind in "iu"
            time = seconds(arrays["time"].astype(np.int64) if whole else time, "time", units.time, tell)
        except RecordingError as error:
            raise RecordingError(f"{path}: {error}") from None
    names, times = joint_names(path, arrays, shape[2]), np.broadcast_to(time, shape[:2])
    nature = Nature.EXACT if "acceleration" in rows else Nature.MEASURED
    sizes = np.array([1.0 if (size := units.of_joint(name)) is None else size for name in names])
    tell_of_degrees(names, [*np.moveaxis(position, -1, 0)], units, tell)
    quantities = [(rows[name] * sizes).reshape(shape) if name in rows else [None] * len(times) for name in QUANTITIES]
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
