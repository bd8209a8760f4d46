"""Reads motions from NumPy archives, as the tool `integrate` writes them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from .samples import QUANTITIES, Nature, RecordingError, Samples, checked_samples


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an archive by name. Raises RecordingError."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, Mapping):
                raise RecordingError(f"{path}: expected an archive of named arrays (NPZ), got a single one")
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or 'not an NPZ archive'}") from None
    except (ValueError, EOFError, zipfile.BadZipFile, NotImplementedError):
        raise RecordingError(f"{path}: not an NPZ archive of numbers and names") from None


def read_npz(path: Path, row: int = 0) -> Samples:
    """The motion of `time` [N] and `position` [N, D] or [B, N, D], of which `row` is taken; velocity, acceleration,
    jerk (of the same shape) and `joint_names` [D] where they are there. Raises RecordingError.
    """
    return _motion(path, load_arrays(path), row, as_is=False)


def read_npz_batch(path: Path, *, as_is: bool = False) -> Iterator[Samples]:
    """All B motions of an archive as in `read_npz`; one where `position` is [N, D]. Raises RecordingError; with `as_is`
    not for numbers that are not finite, nor for times that do not increase.
    """
    arrays = load_arrays(path)
    position = arrays.get("position")
    for row in range(len(position) if position is not None and position.ndim == 3 else 1):
        yield _motion(path, arrays, row, as_is=as_is)


def _motion(path: Path, arrays: Mapping[str, np.ndarray], row: int, *, as_is: bool) -> Samples:
    missing = [name for name in ("time", "position") if name not in arrays]
    if missing:
        found = ", ".join(arrays) or "nothing"
        raise RecordingError(f"{path}: expected arrays time and position, got {found}")
    rows = {name: _row(path, name, arrays[name], row) for name in QUANTITIES if name in arrays}
    position = rows["position"]
    time = numbers(path, "time", arrays["time"])
    time = time[min(row, len(time) - 1)] if time.ndim == 2 else time
    for name, values in rows.items():
        if values.shape != position.shape or values.shape[:1] != time.shape:
            raise RecordingError(
                f"{path}: expected {name} of shape {[*time.shape, position.shape[1]]} to go with time and position, "
                f"got {list(values.shape)}"
            )
    return checked_samples(
        path,
        joint_names(path, arrays, position.shape[1]),
        time,
        *(rows.get(name) for name in QUANTITIES),
        kind="archive of a motion",
        nature=Nature.EXACT if "acceleration" in rows else Nature.MEASURED,
        as_is=as_is,
    )


def joint_names(path: Path, arrays: Mapping[str, np.ndarray], dof: int) -> list[str]:
    """The array `joint_names` [dof]; joint_0 and so on if there is none. Raises RecordingError."""
    if "joint_names" not in arrays:
        return [f"joint_{i}" for i in range(dof)]
    names = arrays["joint_names"]
    if names.shape != (dof,):
        raise RecordingError(f"{path}: expected {dof} joint_names, got shape {list(names.shape)}")
    return [str(name) for name in names]


def numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    """An array as float64. Raises RecordingError if it does not contain numbers."""
    if values.dtype.kind not in "fiu":
        raise RecordingError(f"{path}: expected numbers in {name}, got {values.dtype}")
    return values.astype(np.float64)


def _row(path: Path, name: str, values: np.ndarray, row: int) -> np.ndarray:
    values = numbers(path, name, values)
    if values.ndim == 3:
        if row >= len(values):
            raise RecordingError(f"{path}: expected a trajectory below {len(values)}, got {row}")
        values = values[row]
    if values.ndim != 2:
        raise RecordingError(f"{path}: expected {name} of shape [N, D] or [B, N, D], got {list(values.shape)}")
    return values
