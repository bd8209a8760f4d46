"""Files with the motion that the demo plays, for the tools: a table, or the joint states as a rosbag2 recording."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..motions.extras import MissingLibrary, require
from ..motions.files import TABLE_SUFFIXES
from ..motions.samples import Nature, RecordingError, Samples
from ..tools.command_line import UserError
from ..tools.integration_output import write_bag, write_table
from .motion import Motion

TABLE, BAG = "motion.csv", "motion_bag"


def write_motion(motion: Motion, path: Path) -> None:
    """Write a table (.csv) or a bag (no suffix). Raises RecordingError for other suffixes, UserError for an old bag."""
    samples = Samples(
        motion.joint_names,
        motion.time,
        motion.position,
        motion.velocity,
        motion.acceleration,
        None,
        motion.source,
        motion.kind,
        Nature.MEASURED if motion.acceleration is None else Nature.EXACT,
    )
    if path.suffix not in ("", TABLE_SUFFIXES[0]):
        raise RecordingError(f"expected .csv, or no suffix for a bag, got {path}")
    if path.suffix == "":
        require("rosbags", "writing bags", extra="demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix:
        write_table(path, samples)
    else:
        write_bag(path, [samples], accelerations=False, states_only=True)


def write_recordings(motion: Motion, folder: Path) -> str:
    """Write both beside the demo's report, in place of those of an earlier run; return what was written."""
    write_motion(motion, folder / TABLE)
    bag = folder / BAG
    ours = {"metadata.yaml", f"{BAG}.db3"}
    if bag.is_dir() and {path.name for path in bag.iterdir()} <= ours:
        shutil.rmtree(bag)
    try:
        write_motion(motion, bag)
    except (MissingLibrary, UserError) as error:
        return f"{TABLE} (no {BAG}: {str(error).removeprefix('--out: ')})"
    return f"{TABLE}, {BAG}"
