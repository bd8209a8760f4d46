"""`integrate --batch-file`: batches larger than memory, from an array on disk into arrays on disk.

The batch is read, integrated and written in parts, so that memory does not grow with it. Files are read and written
through the system's file cache rather than mapped, because a mapping would count as this process's memory.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ..motions.samples import QUANTITIES
from .command_line import ToolFailure, UserError
from .integration_input import BSPLINE, STATE
from .integration_options import assumed
from .progress import make_progress

if TYPE_CHECKING:
    from ..engine.integrator import StartState, TrajectoryIntegrator
    from ..kernels import ControlSpace

PART_BYTES = 32 * 2**20
"""Bytes of results in a part, unless --part is given: large enough that the overhead of calls is negligible."""
SPARE_BYTES = 16 * 2**20
"""Bytes to leave free on the disk."""


def integrate_file(options: argparse.Namespace) -> int:
    """Integrate the array that the options name; returns the exit code."""
    actions = _opened(options.file)
    rows = {end: _end(options, end, actions) for end in ("start", "goal")}
    engine, space, part = _engine(options, actions)
    out, fields = options.out, options.fields
    batch, horizon = actions.shape[0], engine.output_horizon(actions.shape[1], space)
    shape = (batch, horizon, actions.shape[2])
    _check_place(options, actions, shape)
    out.mkdir(parents=True, exist_ok=True)
    done = 0
    begin = time.monotonic()
    try:
        with make_progress(quiet=options.quiet) as progress, _written(out, fields, shape, actions.dtype) as files:
            progress.stage("Integrating", float(batch), "trajectories")
            for done in _parts(engine, space, actions, rows, part, files, options.dt):
                progress.update(float(done), f"{done / max(time.monotonic() - begin, 1e-9):.3g} trajectories/s")
    except KeyboardInterrupt:
        print(f"interrupted after {done} of {batch} trajectories: nothing was written to {out}", flush=True)
        raise
    seconds = time.monotonic() - begin
    np.save(out / "time.npy", engine.time_from_start(options.dt, 1, actions.shape[1], space))
    print(
        f"{batch} trajectories, {horizon} rows, {shape[2]} {'joint' if shape[2] == 1 else 'joints'}, "
        f"integrated in {seconds:.1f} s ({batch / max(seconds, 1e-9):.3g} trajectories/s)"
    )
    for note in assumed(options, space=True, dt=True, start=options.start_position is None):
        print(f"note: {note}")
    for name in (*fields, "time"):
        print(f"written: {out / name}.npy")
    for name in QUANTITIES:
        if name not in fields and (out / f"{name}.npy").exists():
            print(f"left unchanged: {out / name}.npy, which does not belong to these results")
    return 0


def _opened(path: Path) -> np.memmap:
    """The array of a file, whose numbers are not read yet. Raises UserError if it does not fit."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        shape, dtype = found.shape, found.dtype
    except (ValueError, AttributeError) as error:
        told = f"{path}: expected an NPY array, got something else ({error}): is it complete?"
        raise UserError(told) from None
    if not found.flags.c_contiguous:
        raise UserError(f"{path}: expected the last axis to be the fastest (order C), got order F")
    if dtype not in (np.dtype("float32"), np.dtype("float64")):
        raise UserError(f"{path}: expected float32 or float64 in this machine's byte order, got {dtype.str}")
    if len(shape) != 3 or 0 in shape:
        raise UserError(f"{path}: expected actions of shape [B, Ha, D], got {list(shape)}")
    return found


def _engine(options: argparse.Namespace, actions: np.memmap) -> tuple[TrajectoryIntegrator, ControlSpace, int]:
    """The engine, the control space, and the number of trajectories in a part."""
    from ..engine.integrator import IntegratorConfig, TrajectoryIntegrator
    from ..kernels import ControlSpace

    space = ControlSpace[options.control_space.upper()]
    _, action_horizon, dof = actions.shape
    asked = [name for name in ("degree", "steps", "layout") if getattr(options, name)]
    if asked and space is not ControlSpace.BSPLINE:
        raise UserError(f"--{asked[0]}: expected with --control-space {BSPLINE} only, got {options.control_space}")
    known = {
        "dof": dof,
        "control_space": space,
        "finite_difference": options.finite_difference,
        "acceleration_integrator": options.acceleration_integrator,
        "dt": options.dt,
        "device": options.device,
        "dtype": actions.dtype.name,
        "max_horizon": action_horizon,
        **{f"bspline_{name}": getattr(options, name) for name in asked},
    }
    horizon = TrajectoryIntegrator(IntegratorConfig(**known)).output_horizon(action_horizon)
    one = len(QUANTITIES) * horizon * dof * actions.dtype.itemsize
    part = min(options.part or max(1, PART_BYTES // one), actions.shape[0])
    return TrajectoryIntegrator(IntegratorConfig(**known, max_batch=part)), space, part


def _end(options: argparse.Namespace, end: str, actions: np.memmap) -> dict[str, np.ndarray]:
    """Rows [1, D] or [B, D] of the start or the goal, mapped where they come from files."""
    batch, _, dof = actions.shape
    rows = {}
    for name in STATE:
        given = getattr(options, f"{end}_{name}")
        if given is None:
            continue
        if isinstance(given, Path):
            try:
                found = np.load(given, mmap_mode="r", allow_pickle=False)
            except ValueError as error:
                raise UserError(f"--{end}-{name}: expected an NPY array, got {given}: {error}") from None
        else:
            found = np.array([given])
        if found.shape not in ((1, dof), (batch, dof)):
            raise UserError(f"--{end}-{name}: expected [1, {dof}] or [{batch}, {dof}], got {list(found.shape)}")
        if found.dtype.kind != "f":
            raise UserError(f"--{end}-{name}: expected floating-point numbers, got {found.dtype}")
        _check_finite(f"--{end}-{name}", found, 0)
        rows[name] = found
    if end == "start":
        return {"position": np.zeros((1, dof)), **rows}
    if rows and "position" not in rows:
        raise UserError(f"--{end}-position: expected with --{end}-{next(iter(rows))}, got none")
    return rows


def _check_place(options: argparse.Namespace, actions: np.memmap, shape: tuple[int, ...]) -> None:
    """Check, before the work, that results can be written there."""
    out, fields = options.out, options.fields
    rows = [f"{end}_{name}" for end in ("start", "goal") for name in STATE]
    given = {"FILE": options.file, **{f"--{name.replace('_', '-')}": getattr(options, name) for name in rows}}
    for target in (out / f"{name}.npy" for name in (*fields, "time")):
        for argument, path in given.items():
            if isinstance(path, Path) and target.exists() and target.samefile(path):
                raise UserError(f"--out: expected another folder than that of {argument}, which {target} would replace")
    place = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not place.is_dir():
        raise UserError(f"--out: expected a folder, got the file {place}")
    wanted = len(fields) * int(np.prod(shape)) * actions.dtype.itemsize + SPARE_BYTES
    free = shutil.disk_usage(place).free
    if free < wanted:
        raise UserError(f"--out: expected {wanted / 1e9:.2f} GB of free space in {place}, got {free / 1e9:.2f} GB")


@contextmanager
def _written(out: Path, fields: list[str], shape: tuple[int, ...], dtype: np.dtype) -> Iterator[dict[str, BinaryIO]]:
    """Files to write the fields to. They get their final names when all are complete; otherwise they are removed."""
    parts = {name: out / f"{name}.npy.part" for name in fields}
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    try:
        with ExitStack() as stack:
            files = {name: stack.enter_context(path.open("wb", buffering=0)) for name, path in parts.items()}
            for file in files.values():
                np.lib.format.write_array_header_1_0(file, header)
            yield files
        for name, path in parts.items():
            path.replace(out / f"{name}.npy")
    except BaseException:
        for path in parts.values():
            path.unlink(missing_ok=True)
        raise


def _parts(
    engine: TrajectoryIntegrator,
    space: ControlSpace,
    actions: np.memmap,
    rows: dict[str, dict[str, np.ndarray]],
    part: int,
    files: dict[str, BinaryIO],
    dt: float,
) -> Iterator[int]:
    """Integrate and write part after part; yields how many trajectories are done."""
    batch, action_horizon, dof = actions.shape
    # Copying into the file cache takes longer than integrating, so each quantity is written by a thread of its own.
    with Path(actions.filename).open("rb", buffering=0) as source, ThreadPoolExecutor(len(files)) as writers:
        source.seek(actions.offset)
        for begin in range(0, batch, part):
            end = min(begin + part, batch)
            given = np.fromfile(source, actions.dtype, (end - begin) * action_horizon * dof)
            if given.size != (end - begin) * action_horizon * dof:
                raise ToolFailure(
                    f"{actions.filename}: expected all of its {batch} trajectories, got the end of the file"
                )
            given = given.reshape(end - begin, action_horizon, dof)
            _check_finite("actions", given, begin)
            states = {name: _state(rows[name], begin, end, given) for name in rows}
            try:
                results = engine.integrate_array(states["start"], given, dt, control_space=space, goal=states["goal"])
            except ValueError as error:
                raise UserError(f"{actions.filename}: {error}") from None
            written = [writers.submit(results[QUANTITIES.index(name)].tofile, file) for name, file in files.items()]
            for one in written:
                one.result()
            yield end


def _state(rows: dict[str, np.ndarray], begin: int, end: int, like: np.ndarray) -> StartState | None:
    """The rows of one part: as many for each quantity."""
    from ..engine.integrator import StartState

    if not rows:
        return None
    own = {name: row if len(row) == 1 else row[begin:end] for name, row in rows.items()}
    count = max(map(len, own.values()))
    shape = (count, like.shape[2])
    return StartState(
        **{name: np.ascontiguousarray(np.broadcast_to(row, shape), like.dtype) for name, row in own.items()}
    )


def _check_finite(name: str, values: np.ndarray, begin: int) -> None:
    """Raise UserError for the first row with a number that is not finite; a sum shows whether there may be one."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    wrong = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if wrong.any():
        row = begin + int(wrong.argmax())
        raise UserError(f"{name}: expected finite numbers, got NaN or infinity in trajectory {row}")
