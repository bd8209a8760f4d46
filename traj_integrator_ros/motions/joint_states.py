"""One motion from joint states of one or several publishers, with all or some joints, in any order. Knows no ROS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .samples import Nature, RecordingError, Samples, samples_of

Tell = Callable[[str], None]
"""Reports to the user in one line what was left out, merged or sorted."""
_LATEST_NS = 500_000_000
"""Longest time, ns, by which a message may be late: by more, a clock was set back, as a simulation's is."""
_TURN = np.pi
"""Smallest step of an angle, rad, between two joint states that means that it has passed the end of its range."""
_SHOWN_NAMES = 6


class StateRow(NamedTuple):
    """The fields of a sensor_msgs/JointState."""

    names: tuple[str, ...]
    position: Sequence[float]
    velocity: Sequence[float]
    stamp_ns: int
    """Stamp, ns; 0 if there is none."""
    recorded_ns: int
    """Time of recording, ns."""


class _Joint(NamedTuple):
    """The states of a joint: increasing times `[N]`, ns, and values `[N]`; NaN is a velocity that was not given."""

    name: str
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray


def motion_of_states(states: Iterable[StateRow], source: str, kind: str, tell: Tell) -> Samples:
    """Merge joint states into the motion of all joints that have positions, at the times of most of them.

    Times are the sorted stamps without duplicates, or the times of recording if stamps do not go on. Other joints are
    interpolated, and times at which some joint is unknown are cut off. Velocities that are NaN are derived from
    positions, unless all are NaN. `tell` reports all of this. Raises RecordingError if there are no positions.
    """
    rows = _with_positions(states, source, tell)
    joints = _joint_by_joint(rows, _times(rows, tell), tell)
    if not joints:
        raise RecordingError(f"{source}: expected joint states with positions, got NaN in all of them")
    has_velocity = not all(np.isnan(one.velocity).all() for one in joints)
    if has_velocity and (lacking := [one.name for one in joints if np.isnan(one.velocity).any()]):
        tell(f"velocity of {listed(lacking)} by differences where it was not given")
    time, covered = _covered(joints, tell)
    position, velocity = (np.column_stack(values) for values in zip(*(_at(one, time) for one in covered), strict=True))
    seconds = (time - time[:1]) * 1e-9
    names = [one.name for one in covered]
    return samples_of(source, names, seconds, [position, velocity if has_velocity else None], kind, Nature.MEASURED)


def listed(names: Sequence[str]) -> str:
    """Format the first names of a list, and the number of the others."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _with_positions(states: Iterable[StateRow], source: str, tell: Tell) -> list[StateRow]:
    """Return the messages with a position for each of their names; others are counted and reported."""
    rows: list[StateRow] = []
    left_out: Counter[str] = Counter()
    count = 0
    for count, state in enumerate(states, start=1):
        names, dof = state.names, len(state.names)
        if len(set(names)) < dof:
            twice = next(name for name in names if names.count(name) > 1)
            raise RecordingError(f"{source}: expected every joint once, got {twice} twice in message {count - 1}")
        if len(state.position) not in (0, dof):
            left_out["whose positions do not go with their names"] += 1
        elif not dof or not len(state.position):
            left_out[f"with velocities only ({listed(names)})" if len(state.velocity) else "without positions"] += 1
        else:
            rows.append(state)
    description = ", ".join(f"{number} {what}" for what, number in left_out.items())
    if not rows:
        raise RecordingError(f"{source}: expected joint states with positions, got {description or 'no messages'}")
    if description:
        tell(f"left out of {count} messages: {description}")
    return rows


def _times(rows: list[StateRow], tell: Tell) -> np.ndarray:
    """Return the times of messages, ns: their stamps or, where these stand still or were set back, of recording."""
    stamps = np.array([row.stamp_ns for row in rows], np.int64)
    behind = np.maximum.accumulate(stamps) - stamps
    if stamps.min() <= 0 or behind.max() > _LATEST_NS or np.ptp(stamps) == 0 < len(rows) - 1:
        tell(f"{len(rows)} messages timed by their recording, since their stamps do not go on")
        return np.array([row.recorded_ns for row in rows], np.int64)
    if late := np.count_nonzero(behind):
        tell(f"{late} messages out of order, sorted by their stamps")
    return stamps


def _joint_by_joint(rows: list[StateRow], times: np.ndarray, tell: Tell) -> list[_Joint]:
    """Return the states of each joint from all messages that contain it, sorted; what is left out is reported."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for k, row in enumerate(rows):
        groups.setdefault(row.names, []).append(k)
    parts: dict[str, list[tuple[np.ndarray, ...]]] = {}
    for names, places in groups.items():
        nothing = np.full(len(names), np.nan)
        position = np.array([rows[k].position for k in places], np.float64)
        velocity = np.array(
            [one if len(one := rows[k].velocity) == len(names) else nothing for k in places], np.float64
        )
        for joint, name in enumerate(names):
            parts.setdefault(name, []).append((times[places], position[:, joint], velocity[:, joint]))
    if len({frozenset(names) for names in groups}) > 1:
        tell(f"merged by name: messages with {'; '.join(f'{listed(one)} ({len(groups[one])})' for one in groups)}")
    found, without = [], []
    repeated: dict[int, list[str]] = {}
    for name, of_joint in parts.items():
        time, position, velocity = map(np.concatenate, zip(*of_joint, strict=True))
        time, first = np.unique(time, return_index=True)
        repeated.setdefault(len(position) - len(first), []).append(name)
        known = first[~np.isnan(position[first])]
        if len(known):
            found.append(_Joint(name, time[~np.isnan(position[first])], position[known], velocity[known]))
        else:
            without.append(name)
    for count, names in repeated.items():
        if count:
            tell(f"{count} positions of {listed(names)} left out, with the time of another one")
    if without:
        tell(f"left out: {listed(without)}, whose positions are not given (NaN)")
    return found


def _covered(joints: list[_Joint], tell: Tell) -> tuple[np.ndarray, list[_Joint]]:
    """Return the times of most joints at which all others are known, too, and the joints without those left out."""
    sharing = Counter(one.time.tobytes() for one in joints)
    base = max(joints, key=lambda one: (sharing[one.time.tobytes()], len(one.time)))
    time, begin, end, covered = base.time, base.time[0], base.time[-1], []
    for one in joints:
        if not np.array_equal(one.time, time):
            overlap = min(one.time[-1], time[-1]) - max(one.time[0], time[0])
            if len(one.time) < 2 <= len(time) or 2 * overlap < time[-1] - time[0]:
                first, last = ((at - time[0]) * 1e-9 for at in (one.time[0], one.time[-1]))
                tell(f"left out: {one.name}, known from {first:.3f} s to {last:.3f} s only")
                continue
            begin, end = max(begin, one.time[0]), min(end, one.time[-1])
            tell(f"{one.name} ({len(one.time)} messages) interpolated at the times of {base.name} ({len(time)})")
        covered.append(one)
    used = time[(time >= begin) & (time <= end)]
    if len(used) < len(time):
        tell(f"{len(time) - len(used)} of {len(time)} samples left out, at whose times not all joints are known")
    return used, covered


def _at(one: _Joint, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate position and velocity of a joint, `[M]`; an angle that passes the end of its range is not."""
    velocity = _filled(one)
    position, rate = (np.interp(time, one.time, values) for values in (one.position, velocity))
    k = np.clip(np.searchsorted(one.time, time, side="right") - 1, 0, max(len(one.time) - 2, 0))
    turns = np.abs(np.diff(one.position, append=one.position[-1:])[k]) > _TURN
    return np.where(turns, one.position[k], position), np.where(turns, velocity[k], rate)


def _filled(one: _Joint) -> np.ndarray:
    """Replace NaN velocities by differences of positions; 0 for a single sample."""
    unknown = np.isnan(one.velocity)
    if not unknown.any() or len(one.time) < 2:
        return np.where(unknown, 0.0, one.velocity)
    # An angle that passes the end of its range does not move by a whole turn in a sample.
    way, seconds = np.unwrap(one.position), (one.time - one.time[0]) * 1e-9
    return np.where(unknown, np.gradient(way, seconds, edge_order=min(2, len(way) - 1)), one.velocity)
