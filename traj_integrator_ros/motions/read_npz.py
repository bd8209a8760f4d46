"""Reads motions from NumPy archives, as the tool `integrate` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from .joint_states import Tell
from .samples import QUANTITIES, Nature, RecordingError, Samples, samples_of
from .table_times import TIME_UNITS, seconds, time_unit, unit_by_numbers
from .units import ANGLES, UNITS_OF_THE_FILE, GivenUnits, JointUnits, tell_of_degrees, without_unit

_TIME_NAME = re.compile(r"time(?:[_ ]?[\[(]?(?P<unit>[^\W\d_]+)[\])]?)?")
_NEEDED = ("time", "position", "actions")
_MOST_PACKED = 100
"""Largest share of sizes, unpacked to packed, that is not a sign of an archive made to fill the memory."""
_MUCH = 2**26
"""Size, bytes, up to which arrays may be packed as well as they are."""


def load_arrays(path: Path, tell: Tell) -> dict[str, np.ndarray]:
    """Return the arrays of an archive by name. Arrays of objects, and unreadable ones, are left out and reported.

    Raises RecordingError if a motion needs one of these, or if no other array remains.
    """
    arrays: dict[str, np.ndarray] = {}
    unread: dict[str, str] = {}
    archive = np.load(path, allow_pickle=False)
    if not isinstance(archive, Mapping):
        raise RecordingError(f"{path}: expected an archive of named arrays (NPZ), got a single one")
    with archive:
        if packed := _packed_too_well(archive):
            got = f"{packed / 2**20:.0f} MiB packed into next to nothing (np.savez writes them unpacked)"
            raise RecordingError(f"{path}: expected arrays of a motion, got {got}")
        for name in archive.files:
            try:
                arrays[name] = np.asanyarray(archive[name])
            except Exception as error:  # whatever damage makes of an array, the others may be whole
                unread[name] = "objects" if "Object arrays" in str(error) else "what cannot be read"
    needed = [name for name in unread if name in _NEEDED or not arrays]
    if needed:
        raise RecordingError(f"{path}: expected numbers in {needed[0]}, got {unread[needed[0]]}")
    for name, got in unread.items():
        tell(f"array left out: {name}, which holds {got}")
    return arrays


def _packed_too_well(archive: np.lib.npyio.NpzFile) -> int:
    """Return the bytes of arrays that no measured motion packs as well, if they are many; 0 otherwise."""
    sizes = (one.file_size for one in archive.zip.infolist() if one.file_size > _MOST_PACKED * one.compress_size)
    total = sum(sizes)
    return total if total > _MUCH else 0


def read_npz(path: Path, tell: Tell, units: GivenUnits = UNITS_OF_THE_FILE) -> Iterator[Samples]:
    """The motions of `time` [N] or [B, N] and `position` [N, D] or [B, N, D], as they are; velocity, acceleration,
    jerk (of the same shape) and `joint_names` [D] where they are there. Times are dates, or numbers in
    the unit that they suggest; names of arrays may end in a unit, such as position_deg. Raises RecordingError.
    """
    arrays, sizes = _named_units(path, load_arrays(path, tell), tell)
    if not {"time", "position"} <= arrays.keys():
        raise RecordingError(f"{path}: expected arrays time and position, got {', '.join(arrays) or 'nothing'}")
    rows = {name: numbers(path, name, arrays[name]) for name in QUANTITIES if name in arrays}
    rows = {"time": _seconds(path, arrays["time"], sizes.get("time"), units, tell), **rows}
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
    names, times = joint_names(path, arrays, shape[2]), np.broadcast_to(time, shape[:2])
    nature = Nature.EXACT if "acceleration" in rows else Nature.MEASURED
    others = [name for name, size in sizes.items() if name in QUANTITIES and size != 1.0]
    without = [name for name in rows if name in QUANTITIES and name not in sizes]
    if others and without and units.angle is None and any(JointUnits().of(name)[0] == "rad" for name in names):
        raise RecordingError(
            f"{path}: expected a unit of {without[0]}, since {others[0]} has one; "
            f"say which by --angle-unit ({', '.join(ANGLES)})"
        )
    given = np.array([1.0 if (size := units.of_joint(name)) is None else size for name in names])
    for name in rows.keys() & {*QUANTITIES}:
        rows[name] = rows[name] * sizes.get(name, given)
    if "position" not in sizes:
        tell_of_degrees(names, [*np.moveaxis(rows["position"], -1, 0)], units, tell)
    quantities = [rows[name].reshape(shape) if name in rows else [None] * len(times) for name in QUANTITIES]
    for time, *one in zip(times, *quantities, strict=True):
        yield samples_of(path, names, time, one, "archive of a motion", nature)


def _named_units(
    path: Path, arrays: dict[str, np.ndarray], tell: Tell
) -> tuple[dict[str, np.ndarray], dict[str, float | str]]:
    """Arrays by their names without units, and the units: sizes in rad or m, or the name of one of times."""
    found: dict[str, np.ndarray] = {}
    sizes: dict[str, float | str] = {}
    for name, values in arrays.items():
        bare, unit, size = without_unit(name)
        time = _TIME_NAME.fullmatch(name)
        of_time = time_unit(time["unit"]) if time and time["unit"] else None
        is_time = time is not None and (of_time is not None or not time["unit"])
        bare = "time" if is_time else bare if unit and bare in QUANTITIES else name
        if bare in found:
            raise RecordingError(f"{path}: expected one array {bare}, got {name}, too")
        found[bare] = values
        if of_time is not None:
            sizes[bare] = of_time
        elif bare != name and bare in QUANTITIES:
            if size is None:
                raise RecordingError(f"{path}: expected a unit such as deg or rad/s in {name}, got {unit!r}")
            sizes[bare] = size
    if converted := [name for name, size in sizes.items() if size not in (1.0, *TIME_UNITS)]:
        tell(f"converted to rad (or m), as their names say: {', '.join(converted)}")
    return found, sizes


def _seconds(path: Path, times: np.ndarray, unit: object, units: GivenUnits, tell: Tell) -> np.ndarray:
    """Times in s; whole ones keep all digits, since those of 1970 have more than a float64."""
    if times.dtype.kind in "mM":
        if np.datetime_data(times.dtype)[0] == "generic":
            raise RecordingError(f"{path}: expected a unit of time, such as timedelta64[ns], got {times.dtype}")
        if np.isnat(times).any():
            raise RecordingError(f"{path}: expected times, got NaT in time")
        whole = times.astype("datetime64[ns]" if times.dtype.kind == "M" else "timedelta64[ns]").astype(np.int64)
        return seconds(whole.reshape(-1)).reshape(times.shape)
    values = numbers(path, "time", times)
    if not times.ndim:
        raise RecordingError(f"{path}: expected time of shape [N] or [B, N], got a single number")
    known = unit or units.time
    first = values.reshape(-1, values.shape[-1] if values.size else 1)[:1].reshape(-1)
    try:
        found = str(known or unit_by_numbers(first, "time"))
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from None
    if found == "s":
        return values
    if known is None:
        tell(f"times in time are taken as {found}, as large as they are")
    if times.dtype.kind in "iu":  # in 64 bits with a sign, since differences may be longer, and below 0
        if times.max(initial=0) >= 2**63:
            raise RecordingError(f"{path}: expected times below 2^63, got {times.max()} in time")
        times = times.astype(np.int64)
    return (times - times.reshape(-1)[:1]).astype(np.float64) * 10.0 ** (TIME_UNITS[found] - 9)


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
