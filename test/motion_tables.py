"""Writes motions as tables that readers and tools are tested on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.samples import Samples


def read_plain(path: Path, row: int | None = None) -> Samples:
    """The motion in a file that needs no notes."""
    notes: list[str] = []
    samples = read_samples(path, None, notes.append, row)
    assert not notes
    return samples


def write_table(path: Path, samples: Samples, quantities: tuple[str, ...] = ("position", "velocity")) -> Path:
    """Write the quantities of a motion as a table in the project's own columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *(f"{name}_{joint}" for name in quantities for joint in samples.joint_names)])
        columns = [samples.time[:, None], *(getattr(samples, name) for name in quantities)]
        writer.writerows(np.concatenate(columns, axis=1).tolist())
    return path
