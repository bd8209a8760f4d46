"""TrajectoryBatch messages as motions: from ROS or from a bag. Knows no ROS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .samples import QUANTITIES, Nature, RecordingError, Samples, samples_of

if TYPE_CHECKING:
    from traj_integrator_interfaces.msg import TrajectoryBatch


def motions_of_batch(message: TrajectoryBatch | Any, source: str) -> Iterator[Samples]:
    """Yield the trajectories of a message, or of an object with its fields, unchanged; missing outputs are None.

    Raises RecordingError if lengths contradict each other.
    """
    batch, horizon, names = int(message.batch), int(message.horizon), tuple(map(str, message.joint_names))
    shape = batch, horizon, len(names)
    time, *outputs = (np.asarray(getattr(message, name), np.float64) for name in ("time_from_start", *QUANTITIES))
    wanted = [(len(outputs[0]), (np.prod(shape),)), *((len(values), (0, np.prod(shape))) for values in outputs[1:])]
    if not all(size in sizes for size, sizes in wanted) or len(time) not in (horizon, batch * horizon):
        got = f"{len(time)} times, {', '.join(str(len(values)) for values in outputs)} numbers"
        raise RecordingError(f"{source}: expected a batch of {list(shape)} numbers in every field, got {got}")
    times = np.broadcast_to(time.reshape(-1, horizon), shape[:2])
    rows = [values.reshape(shape) if values.size else [None] * batch for values in outputs]
    for number, (time, *row) in enumerate(zip(times, *rows, strict=True)):
        yield samples_of(source, names, time, row, f"trajectory {number} of {batch}", Nature.SET_POINTS)
