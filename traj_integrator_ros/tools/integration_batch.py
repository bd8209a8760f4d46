"""`integrate --batch-file`: batches larger than memory, in parts, from an array on disk into arrays on disk.

Files are not mapped, because a mapping would count as this process's memory.
"""

from __future__ import annotations

import argparse
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ..motions.samples import QUANTITIES
from .command_line import ToolFailure, UserError
from .integration_input import ENDS, Sequence, completed, fields_of, told_assumed
from .integration_output import complete
from .progress import Progress

if TYPE_CHECKING:
    from ..requests.sequences import ActionRequest

PART_BYTES = 32 * 2**20
"""Bytes of results in a part, unless --part is given: large enough that the overhead of calls is negligible."""
SPARE_BYTES = 16 * 2**20
"""Bytes to leave free on the disk."""


def integrate_file(options: argparse.Namespace, given: Mapping[str, object]) -> None:
    """Integrate the array that the options name, with the fields that they give. Raises UserError, ToolFailure."""
    from ..engine.call import step_lengths, time_from_start
    from .integration import engine_on, request_of

    actions, out, fields = _opened(options.file), options.out, options.fields
    batch, _, dof = actions.shape
    ends = {name: _end(name, given[name], actions) for name in ENDS if name in given}
    form = {name: value for name, value in given.items() if name not in ENDS}
    whole = completed(Sequence(tuple(f"joint_{i}" for i in range(dof)), fields_of(actions) | ends), form)
    rows = {name: np.broadcast_to(whole.fields[name], (batch, dof)) for name in ENDS if name in whole.fields}

    def request(begin: int, data: np.ndarray) -> ActionRequest:
        """The request of a part, with its rows of starts and goals."""
        part = fields_of(data) | {name: values[begin : begin + len(data)] for name, values in rows.items()}
        try:
            sequence = replace(whole, fields=whole.fields | part)
            return request_of(sequence, options.finite_difference, options.acceleration_integrator)
        except ValueError as error:
            place = re.sub(r"(?<=at \[)\d+", lambda row: str(begin + int(row[0])), str(error))
            raise UserError(f"{options.file}: {place}") from None

    first = request(0, np.zeros((1, *actions.shape[1:]), actions.dtype))
    shape = (batch, first.output_horizon, dof)
    _check_place(options, actions, shape)
    bytes_of_one = len(QUANTITIES) * shape[1] * dof * actions.itemsize
    size = min(options.part or max(1, PART_BYTES // bytes_of_one), batch)
    try:
        engine = engine_on(options.device, actions.dtype.name)
    except ValueError as error:
        raise UserError(f"--{error}") from None
    out.mkdir(parents=True, exist_ok=True)
    done, began = 0, time.monotonic()
    try:
        # Copying into the file cache takes longer than integrating, so each quantity is written by a thread of its own.
        with (
            Progress(options.quiet) as progress,
            _written(out, fields, shape, actions.dtype) as files,
            ThreadPoolExecutor(len(files)) as writers,
        ):
            progress.stage("Integrating", float(batch), "trajectories")
            for data in _parts(actions, size):
                part = request(done, data)
                results = engine.integrate(part.call(part.start))
                chosen = [results[QUANTITIES.index(name)] for name in files]
                list(writers.map(np.ndarray.tofile, chosen, files.values()))
                done += len(data)
                progress.update(float(done), f"{done / max(time.monotonic() - began, 1e-9):.3g} trajectories/s")
    except KeyboardInterrupt:
        print(f"interrupted after {done} of {batch} trajectories: nothing was written to {out}", flush=True)
        raise
    seconds = time.monotonic() - began
    np.save(out / "time.npy", time_from_start(first.control_map, step_lengths(first.dt), first.horizon))
    print(
        f"{batch} trajectories, {shape[1]} rows, {dof} {'joint' if dof == 1 else 'joints'}, "
        f"integrated in {seconds:.1f} s ({batch / max(seconds, 1e-9):.3g} trajectories/s)"
    )
    for told in told_assumed([whole]):
        print(f"note: {told}")
    for name in (*fields, "time"):
        print(f"written: {out / name}.npy")
    for name in QUANTITIES:
        if name not in fields and (out / f"{name}.npy").exists():
            print(f"left unchanged: {out / name}.npy, which does not belong to these results")


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


def _end(name: str, given: list[float] | Path, actions: np.memmap) -> np.ndarray:
    """Rows [1, D] or [B, D] of a start or goal, mapped where they come from a file."""
    option, (batch, _, dof) = f"--{name.replace('_', '-')}", actions.shape
    try:
        found = np.load(given, mmap_mode="r", allow_pickle=False) if isinstance(given, Path) else np.array([given])
    except ValueError as error:
        raise UserError(f"{option}: expected an NPY array, got {given}: {error}") from None
    if found.shape not in ((1, dof), (batch, dof)):
        raise UserError(f"{option}: expected [1, {dof}] or [{batch}, {dof}], got {list(found.shape)}")
    if found.dtype.kind != "f":
        raise UserError(f"{option}: expected floating-point numbers, got {found.dtype}")
    return found


def _check_place(options: argparse.Namespace, actions: np.memmap, shape: tuple[int, ...]) -> None:
    """Check, before the work, that results can be written there."""
    out, fields = options.out, options.fields
    given = {"FILE": options.file, **{f"--{name.replace('_', '-')}": getattr(options, name) for name in ENDS}}
    for target in (out / f"{name}.npy" for name in (*fields, "time")):
        for argument, path in given.items():
            if isinstance(path, Path) and target.exists() and target.samefile(path):
                raise UserError(f"--out: expected another folder than that of {argument}, which {target} would replace")
    place = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not place.is_dir():
        raise UserError(f"--out: expected a folder, got the file {place}")
    wanted = len(fields) * int(np.prod(shape)) * actions.itemsize + SPARE_BYTES
    free = shutil.disk_usage(place).free
    if free < wanted:
        raise UserError(f"--out: expected {wanted / 1e9:.2f} GB of free space in {place}, got {free / 1e9:.2f} GB")


@contextmanager
def _written(out: Path, fields: list[str], shape: tuple[int, ...], dtype: np.dtype) -> Iterator[dict[str, BinaryIO]]:
    """Files to write the fields to. They get their final names when all are complete; otherwise they are removed."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with ExitStack() as stack:
        parts = {name: stack.enter_context(complete(out / f"{name}.npy")) for name in fields}
        files = {name: stack.enter_context(part.open("wb", buffering=0)) for name, part in parts.items()}
        for file in files.values():
            np.lib.format.write_array_header_1_0(file, header)
        yield files


def _parts(actions: np.memmap, size: int) -> Iterator[np.ndarray]:
    """The actions, so many trajectories at a time, read from the file one after the other."""
    batch, horizon, dof = actions.shape
    with Path(actions.filename).open("rb", buffering=0) as source:
        source.seek(actions.offset)
        for begin in range(0, batch, size):
            shape = (min(size, batch - begin), horizon, dof)
            data = np.fromfile(source, actions.dtype, int(np.prod(shape)))
            if data.size != np.prod(shape):
                raise ToolFailure(f"{actions.filename}: expected its {batch} trajectories, got the end of the file")
            yield data.reshape(shape)
