"""Where the tool `integrate` puts trajectories: a table, an archive, or a rosbag2 recording."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..execution.motion import Motion
from ..motions.samples import QUANTITIES, Nature, Samples
from .command_line import UserError
from .integration_input import Sequence

STATES_TOPIC, TRAJECTORIES_TOPIC = "/joint_states", "/traj_integrator/joint_trajectory"
_NS = 1_000_000_000


@dataclass(frozen=True)
class Integrated:
    """A batch of trajectories: `time` [H] or [B, H] s from the start, the quantities [B, H, D], float64."""

    joint_names: tuple[str, ...]
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    with_accelerations: bool = True
    """Whether its JointTrajectory has accelerations: False if they jump at the points."""
    curves: tuple[Motion, ...] = ()
    """The motions between the points, if a figure of the points alone would not show them."""

    def samples(self, row: int, source: str) -> Samples:
        """One trajectory from its start on: a point before it (central differences have one) is left out."""
        time = self.time[row] if self.time.ndim == 2 else self.time
        kept = time >= 0
        arrays = (getattr(self, name)[row][kept] for name in QUANTITIES)
        return Samples(self.joint_names, time[kept], *arrays, source, "integrated", Nature.EXACT)


def write_table(path: Path, samples: Samples) -> None:
    """A CSV of time, position_<joint> and so on, without what the samples lack; a run that ends before leaves none."""
    found = [name for name in QUANTITIES if getattr(samples, name) is not None]
    columns = [samples.time[:, None], *(getattr(samples, name) for name in found)]
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["time", *(f"{name}_{joint}" for name in found for joint in samples.joint_names)])
            writer.writerows(np.concatenate(columns, axis=1).tolist())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_archive(path: Path, results: list[Integrated], fitted: Sequence | None = None) -> None:
    """An NPZ of joint_names, time and the quantities [B, H, D], the sequences one after the other in B.

    `fitted`, if given, are the control points, which are stored with them and can be integrated again.
    """
    first = results[0]
    for number, one in enumerate(results):
        if one.joint_names != first.joint_names or one.position.shape[1:] != first.position.shape[1:]:
            raise UserError(
                f"--out: an archive takes sequences of one shape, got {list(first.position.shape[1:])} in sequence 0 "
                f"and {list(one.position.shape[1:])} in sequence {number}; choose one by --sequence, or write a bag"
            )
    arrays = {name: np.concatenate([getattr(one, name) for one in results]) for name in QUANTITIES}
    times = [np.broadcast_to(one.time, one.position.shape[:2]) for one in results]
    time = np.concatenate(times)
    if fitted is not None:
        arrays |= {
            name: getattr(fitted, name) for name in ("actions", "dt", "control_space", "degree", "steps", "layout")
        }
        ends = {"start": fitted.start, "goal": fitted.goal}
        arrays |= {f"{end}_{name}": values for end, rows in ends.items() for name, values in rows.items()}
    np.savez_compressed(
        path, joint_names=np.array(first.joint_names), time=time[0] if np.all(time == time[0]) else time, **arrays
    )


def write_bag(path: Path, motions: list[Samples], accelerations: bool, *, states_only: bool = False) -> None:
    """A rosbag2 folder with a JointTrajectory for each motion, and the motions one after the other as joint states.

    `accelerations`: whether the trajectories have them. `states_only`: the joint states without the trajectories.
    """
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.rosbag2.errors import WriterError
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)

    def message(name: str, /, **fields: object) -> object:
        return types.types[name](**fields)

    def header(stamp_ns: int) -> object:
        stamp = message("builtin_interfaces/msg/Time", sec=stamp_ns // _NS, nanosec=stamp_ns % _NS)
        return message("std_msgs/msg/Header", stamp=stamp, frame_id="")

    def point(time_ns: int, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> object:
        return message(
            "trajectory_msgs/msg/JointTrajectoryPoint",
            positions=position,
            velocities=velocity,
            accelerations=acceleration if accelerations else nothing,
            effort=nothing,
            time_from_start=message("builtin_interfaces/msg/Duration", sec=time_ns // _NS, nanosec=time_ns % _NS),
        )

    nothing = np.zeros(0)
    try:
        with Writer(path, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
            states = writer.add_connection(STATES_TOPIC, "sensor_msgs/msg/JointState", typestore=types)
            kind = "trajectory_msgs/msg/JointTrajectory"
            plans = None if states_only else writer.add_connection(TRAJECTORIES_TOPIC, kind, typestore=types)
            begin = _NS
            for samples in motions:
                names, times_ns = list(samples.joint_names), np.rint(samples.time * _NS).astype(int).tolist()
                rows = [np.ascontiguousarray(values) for values in (samples.position, samples.velocity)]
                if plans is not None:
                    points = [*map(point, times_ns, *rows, np.ascontiguousarray(samples.acceleration))]
                    plan = message(kind, header=header(0), joint_names=names, points=points)
                    writer.write(plans, begin, types.serialize_cdr(plan, kind))
                for time, position, velocity in zip(times_ns, *rows, strict=True):
                    state = message(
                        states.msgtype, header=header(begin + time), name=names, position=position, velocity=velocity,
                        effort=nothing,
                    )  # fmt: skip
                    writer.write(states, begin + time, types.serialize_cdr(state, states.msgtype))
                begin += round(samples.duration * _NS) + _NS
    except WriterError as error:
        raise UserError(f"--out: {error}") from None
