"""Opens motions in any supported format: rosbag2, a table, or an NPZ archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from .batches import motions_of_batch
from .door import each_read, reading
from .joint_states import Tell, motion_of_states
from .read_bag import (
    JOINT_STATE,
    JOINT_TRAJECTORY,
    TRAJECTORY_BATCH,
    messages_of,
    open_bag,
    state_of,
    topic_in,
    with_messages,
)
from .read_csv import read_csv
from .read_npz import read_npz
from .samples import Nature, RecordingError, Samples
from .trajectories import PlannedTrajectory, planned_trajectory, samples_of_trajectory, trajectory_of_samples
from .units import UNITS_OF_THE_FILE, GivenUnits

FORMATS = {
    **dict.fromkeys((".db3", ".mcap"), "bag"),
    **dict.fromkeys((".csv", ".txt"), "table"),
    ".npz": "archive",
}


def format_of(path: Path) -> str:
    """Return one of FORMATS; a folder is a bag. Raises RecordingError for a missing path or another format."""
    if not path.exists():
        raise RecordingError(f"{path}: no such file or folder")
    found = "bag" if path.is_dir() else FORMATS.get(path.suffix.lower())
    if found is None:
        raise RecordingError(f"{path}: expected a rosbag2 folder or a file ending in {', '.join(FORMATS)}")
    return found


def read_samples(
    path: Path,
    topic: str | None,
    tell: Tell,
    row: int | None = None,
    *,
    states_first: bool = True,
    units: GivenUnits = UNITS_OF_THE_FILE,
) -> Samples:
    """Read the motion in a file.

    `topic` names a topic of a bag, `row` is the index of one of several motions, and `units` are those of tables and
    archives that name none. From a bag with both, joint states are taken, unless `states_first` is false. `tell` is
    called with notes on omitted, merged or sorted parts. Raises RecordingError with one line.
    """
    with reading(path):
        motions = _motions(path, topic, tell, units, states_first=states_first)
        before = sum(1 for _ in islice(motions, row or 0))
        chosen = next(motions, None)
        if chosen is None:
            expected = f"a trajectory below {before}, got {row}" if before else "a trajectory, got none"
            raise RecordingError(f"{path}: expected {expected}")
        if row is None and (others := sum(1 for _ in motions)):
            if isinstance(chosen, PlannedTrajectory):
                raise RecordingError(f"{path}: expected one joint_trajectory, got {1 + others}")
            tell(f"motion 0 of {1 + others} taken, the others left out")
        if isinstance(chosen, PlannedTrajectory):
            return samples_of_trajectory(chosen, str(path), tell)
        return chosen.checked()


def read_trajectories(
    path: Path,
    topic: str | None,
    tell: Tell,
    made_of: Callable[[Samples], Samples] = lambda motion: motion,
    units: GivenUnits = UNITS_OF_THE_FILE,
) -> Iterator[PlannedTrajectory]:
    """Read every trajectory in a file, unchanged and unchecked. Raises RecordingError.

    From a bag with both, trajectories are taken and not joint states. Joint states become one motion, which `made_of`
    may change if it was measured; motions with accelerations are not changed.
    """
    for one in each_read(path, _motions(path, topic, tell, units, states_first=False)):
        if isinstance(one, PlannedTrajectory):
            yield one
            continue
        yield trajectory_of_samples(made_of(one) if one.nature is Nature.MEASURED else one)


def _motions(
    path: Path, topic: str | None, tell: Tell, units: GivenUnits, *, states_first: bool
) -> Iterator[Samples | PlannedTrajectory]:
    """Yield all motions in a file, unchanged."""
    found = format_of(path)
    if found == "bag":
        yield from _in_bag(path, topic, tell, states_first=states_first)
    elif found == "table":
        yield read_csv(path, tell, units)
    else:
        yield from read_npz(path, tell, units)


def _in_bag(path: Path, topic: str | None, tell: Tell, *, states_first: bool) -> Iterator[Samples | PlannedTrajectory]:
    """Yield the joint states of a bag as one motion, or every trajectory of a topic."""
    with open_bag(path, tell) as reader:
        trajectories = JOINT_TRAJECTORY, TRAJECTORY_BATCH
        kinds = (JOINT_STATE, *trajectories) if states_first else (*trajectories, JOINT_STATE)
        there = {one.msgtype for one in with_messages(reader, topic) if topic in (None, one.topic)}
        kind = next((one for one in kinds if one in there), JOINT_STATE)
        connections = topic_in(path, reader, (kind,), topic, tell)
        messages = messages_of(path, reader, connections, tell)
        if kind == JOINT_STATE:
            rows = [state_of(message, stamp) for _, stamp, message in messages]
            yield motion_of_states(rows, str(path), f"rosbag2, topic {connections[0].topic}", tell)
            return
        for _, _, message in messages:
            if kind == TRAJECTORY_BATCH:
                yield from motions_of_batch(message, str(path))
            else:
                yield planned_trajectory(message)
