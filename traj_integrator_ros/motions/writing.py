"""Writes motions and trajectories as a table, an archive, or a rosbag2 recording."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from .read_bag import JOINT_STATE, JOINT_TRAJECTORY
from .samples import QUANTITIES, RecordingError, Samples
from .trajectories import SECOND_NS

STATES_TOPIC = "/joint_states"
TRAJECTORIES_TOPIC = "/traj_integrator/joint_trajectory"
BAGS = {".db3": "SQLITE3", ".mcap": "MCAP"}
"""Suffixes of recordings in one file, without metadata.yaml, and their storage."""


@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` at the end of the block, unless the block raises an error."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_table(path: Path, samples: Samples) -> None:
    """Write a CSV of time, position_<joint> and so on without missing quantities; an interrupted run leaves no file."""
    found = [name for name in QUANTITIES if getattr(samples, name) is not None]
    columns = [samples.time[:, None], *(getattr(samples, name) for name in found)]
    with complete(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *(f"{name}_{joint}" for name in found for joint in samples.joint_names)])
        writer.writerows(np.concatenate(columns, axis=1).tolist())


def write_archive(path: Path, results: list[list[Samples]]) -> None:
    """Write an NPZ of joint_names, time and the quantities `[B, H, D]` of all sequences."""
    first, shape = results[0][0], results[0][0].position.shape
    for number, (one, *_) in enumerate(results):
        if one.joint_names != first.joint_names or one.position.shape != shape:
            raise RecordingError(
                f"--out: an archive takes sequences of one shape, got {list(shape)} in sequence 0 and "
                f"{list(one.position.shape)} in sequence {number}; write a bag"
            )
    rows = [row for one in results for row in one]
    arrays = {name: np.stack([getattr(row, name) for row in rows]) for name in ("time", *QUANTITIES)}
    if np.all(arrays["time"] == first.time):
        arrays["time"] = first.time
    np.savez_compressed(path, joint_names=np.array(first.joint_names), **arrays)


def write_bag(path: Path, motions: list[Samples], accelerations: bool, *, states_only: bool = False) -> None:
    """Write motions to a rosbag2 folder or, by the suffix of the path, to a single file of BAGS.

    Each motion becomes a JointTrajectory, with or without accelerations, and all of them joint states; with
    `states_only`, joint states alone. An interrupted run leaves no file.
    """
    if path.suffix not in BAGS:
        _write_folder(path, "SQLITE3", motions, accelerations, states_only)
        return
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as made:
        folder = Path(made) / path.stem
        _write_folder(folder, BAGS[path.suffix], motions, accelerations, states_only)
        (folder / f"{folder.name}{path.suffix}").replace(path)


def _write_folder(path: Path, storage: str, motions: list[Samples], accelerations: bool, states_only: bool) -> None:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.rosbag2.errors import WriterError
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    message = types.types

    def header(stamp_ns: int) -> object:
        stamp = message["builtin_interfaces/msg/Time"](stamp_ns // SECOND_NS, stamp_ns % SECOND_NS)
        return message["std_msgs/msg/Header"](stamp, "")

    def point(time_ns: int, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> object:
        time = message["builtin_interfaces/msg/Duration"](time_ns // SECOND_NS, time_ns % SECOND_NS)
        given = acceleration if accelerations else nothing
        return message["trajectory_msgs/msg/JointTrajectoryPoint"](position, velocity, given, nothing, time)

    nothing = np.zeros(0)
    try:
        with Writer(path, version=9, storage_plugin=StoragePlugin[storage]) as writer:
            states = writer.add_connection(STATES_TOPIC, JOINT_STATE, typestore=types)
            if not states_only:
                plans = writer.add_connection(TRAJECTORIES_TOPIC, JOINT_TRAJECTORY, typestore=types)
            begin = SECOND_NS
            for samples in motions:
                names, times_ns = list(samples.joint_names), np.rint(samples.time * SECOND_NS).astype(int).tolist()
                rows = [np.ascontiguousarray(values) for values in (samples.position, samples.velocity)]
                if not states_only:
                    points = [*map(point, times_ns, *rows, np.ascontiguousarray(samples.acceleration))]
                    plan = message[JOINT_TRAJECTORY](header(0), names, points)
                    writer.write(plans, begin, types.serialize_cdr(plan, JOINT_TRAJECTORY))
                for time, position, velocity in zip(times_ns, *rows, strict=True):
                    state = message[JOINT_STATE](header(begin + time), names, position, velocity, nothing)
                    writer.write(states, begin + time, types.serialize_cdr(state, JOINT_STATE))
                begin += round(samples.duration * SECOND_NS) + SECOND_NS
    except WriterError as error:
        raise RecordingError(f"--out: {error}") from None
