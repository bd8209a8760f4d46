"""One motion from joint states of one or several publishers, with all or some joints, in any order. Knows no ROS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .samples import Nature, RecordingError, Samples, samples_of

Tell = Callable[[str], None]
"""Reports to the user in one line what was left out, merged or sorted."""
_CLOCK_JUMP_NS = 1_000_000_000
"""Time, ns, by which a stamp of a late message may go back; by more, a clock was set back."""
_TURN = np.pi
"""Smallest step of an angle, rad, between two joint states that means that it has passed the end of its range."""
_LONG = 8
"""Number of rows after a step back of the stamps that show whether a clock was set back."""
_FEW = 2
"""Number of such rows up to which they are late messages instead."""
_SHUFFLED = 4
"""If one row in so many is out of order, messages are shuffled, and no clock was set back."""
_SHOWN_NAMES = 6


class StateRow(NamedTuple):
    """The fields of a sensor_msgs/JointState."""

    names: tuple[str, ...]
    position: Sequence[float]
    velocity: Sequence[float]
    stamp_ns: int
    """Stamp, ns; 0 if there is none."""
    recorded_ns: int | None = None
    """Time of recording, ns; None if unknown."""


@dataclass(frozen=True)
class _Series:
    """States of some joints: increasing times `[N]`, ns, and values `[N, D]`; NaN is a velocity that was not given."""

    names: tuple[str, ...]
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray

    @property
    def step(self) -> float:
        """Mean step, ns."""
        return float(self.time[-1] - self.time[0]) / max(1, len(self.time) - 1)


def motion_of_states(states: Iterable[StateRow], source: str, kind: str, tell: Tell) -> Samples:
    """Merge joint states into the motion of all joints that have positions, at the times of the largest group of
    joints.

    Times are the sorted stamps without duplicates, or the times of recording if stamps do not advance. Other joints are
    interpolated, and times at which some joint is unknown are cut off. Velocities that are NaN are derived from
    positions, unless all are NaN. `tell` reports all of this. Raises RecordingError if there are no positions.
    """
    groups = _by_joints(states, source, tell)
    joints = _joint_by_joint(_in_order(groups, source, tell), tell)
    has_velocity = not all(np.isnan(one.velocity).all() for one in joints)
    if has_velocity:
        _tell_of_velocities([one.names[0] for one in joints if np.isnan(one.velocity).any()], tell)
    return _merged([_with_velocity(one) for one in joints], source, kind, tell, has_velocity=has_velocity)


def in_order(samples: Samples, tell: Tell) -> Samples:
    """Sort the rows of a table or archive by time, without duplicates. Raises RecordingError for several recordings."""
    time = samples.time
    if not np.isfinite(time).all() or (np.diff(time) > 0).all():
        return samples
    if _set_back_at(time) < len(time):
        k = 1 + int(np.argmin(np.diff(time)))
        got = f"{time[k]:.6f} s after {time[k - 1]:.6f} s in sample {k}, as of another recording"
        raise RecordingError(f"{samples.source}: expected increasing times, got {got}")
    order, late = _order(time)
    of_rows = {
        "out of order, sorted by their times": late,
        "left out, with the time of another one": len(time) - len(order),
    }
    _tell_counts(tell, "row", of_rows)
    return samples.rows(order)


def with_velocity(samples: Samples, tell: Tell) -> Samples:
    """Replace NaN velocities of measured samples by differences; if all are NaN, drop the velocities."""
    time, position, velocity = samples.time, samples.position, samples.velocity
    if velocity is None or samples.nature is not Nature.MEASURED or not (unknown := np.isnan(velocity)).any():
        return samples
    if unknown.all():
        return replace(samples, velocity=None)
    if not (np.isfinite(position).all() and np.isfinite(time).all() and (np.diff(time) > 0).all()):
        return samples
    lacking = unknown.any(axis=0).tolist()
    _tell_of_velocities([name for name, lacks in zip(samples.joint_names, lacking, strict=True) if lacks], tell)
    return replace(samples, velocity=_filled(time, position, velocity))


def _by_joints(states: Iterable[StateRow], source: str, tell: Tell) -> dict[tuple[str, ...], list[StateRow]]:
    """Group the valid messages by the joints that they name; invalid ones are counted and reported."""
    groups: dict[tuple[str, ...], list[StateRow]] = {}
    known: set[tuple[object, ...]] = set()
    left_out: Counter[str] = Counter()
    count = 0
    for count, state in enumerate(states, start=1):
        names, dof = state.names, len(state.names)
        if len(set(names)) < dof:
            twice = next(name for name in names if names.count(name) > 1)
            raise RecordingError(f"{source}: expected every joint once, got {twice} twice in message {count - 1}")
        position, velocity = (np.array(values, np.float64) for values in (state.position, state.velocity))
        same = names, state.stamp_ns, position.tobytes(), velocity.tobytes()
        if len(position) not in (0, dof):
            left_out["whose positions do not go with their names"] += 1
        elif not dof or not len(position):
            left_out[f"with velocities only ({listed(names)})" if len(velocity) else "without positions"] += 1
        elif state.stamp_ns and same in known:
            left_out["received twice"] += 1
        else:
            known.add(same)
            if len(velocity) not in (0, dof):
                left_out["whose velocities do not go with their names (only those)"] += 1
            given = velocity if len(velocity) == dof else np.full(dof, np.nan)
            groups.setdefault(names, []).append(state._replace(position=position, velocity=given))
    description = ", ".join(f"{number} {what}" for what, number in left_out.items())
    if not groups:
        raise RecordingError(f"{source}: expected joint states with positions, got {description or 'no messages'}")
    if description:
        tell(f"left out of {count} messages: {description}")
    kinds: Counter[tuple[str, ...]] = Counter()
    for names, rows in groups.items():
        kinds[min((one for one in groups if set(one) == set(names)), default=names)] += len(rows)
    if len(kinds) > 1:
        tell(f"merged by name: messages with {'; '.join(f'{listed(one)} ({kinds[one]})' for one in kinds)}")
    return groups


def _in_order(groups: dict[tuple[str, ...], list[StateRow]], source: str, tell: Tell) -> list[_Series]:
    """Sort each group by time, without duplicates."""
    stamps = [np.array([row.stamp_ns for row in rows], np.int64) for rows in groups.values()]
    timed = [_tell_the_time(times) for times in stamps]
    recorded = [np.array([row.recorded_ns or 0 for row in rows], np.int64) for rows in groups.values()]
    of_groups = zip(stamps, timed, recorded, strict=True)
    later = [known[~takes & (times > 0)] for times, takes, known in of_groups if takes.any()]
    # All publishers share one clock, which is set back for all of them.
    if begin := min((int(known[0]) for known in later if len(known)), default=0):
        timed = [takes & (known < begin) for takes, known in zip(timed, recorded, strict=True)]
    of_all = zip([row for rows in groups.values() for row in rows], np.concatenate(timed), strict=True)
    known = sorted((row.stamp_ns, row.recorded_ns) for row, takes in of_all if takes and row.recorded_ns is not None)
    delays = [at - stamp for stamp, at in known] or [0]
    # After a reset, all times follow those before it.
    delay = delays[-1] if begin else sorted(delays)[len(delays) // 2]
    series, untimed, late, repeated = [], 0, 0, 0
    for (names, rows), times, takes in zip(groups.items(), stamps, timed, strict=True):
        if not takes.all():
            if any(row.recorded_ns is None for row in rows):
                raise RecordingError(f"{source}: expected stamps that go on, got others with {listed(names)}")
            times = np.where(takes, times, [row.recorded_ns - delay for row in rows])
            untimed += int(np.count_nonzero(~takes))
        order, behind = _order(times)
        late += behind
        repeated += len(rows) - len(order)
        fields = (np.stack([getattr(row, field) for row in rows])[order] for field in ("position", "velocity"))
        series.append(_Series(names, times[order], *fields))
    _tell_counts(tell, "message", {
        "timed by their recording, since their stamps do not go on": untimed,
        "out of order, sorted by their stamps": late,
        "left out, with the stamp of another one": repeated,
    })  # fmt: skip
    return series


def _order(times: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the sorted indices of times without duplicates, and how many times follow a later one."""
    order = np.argsort(times, kind="stable")
    late = int(np.count_nonzero(times < np.maximum.accumulate(times)))
    return order[np.diff(times[order], prepend=times[order[0]] - 1) > 0], late


def _tell_counts(tell: Tell, one: str, counts: dict[str, int]) -> None:
    """Report how many things of a kind there are, if any."""
    for what, number in counts.items():
        if number:
            tell(f"{number} {one if number == 1 else f'{one}s'} {what}")


def _set_back_at(times: np.ndarray) -> int:
    """Return the index of the first time after a clock was set back; N if it never was.

    After that, many times lie among earlier ones. Messages that merely overtook others lie between later ones, and
    messages that were delayed for long fill a gap.
    """
    back = 1 + np.flatnonzero(np.diff(times) < 0)
    if len(back) * _SHUFFLED > len(times):
        return len(times)
    latest = np.maximum.accumulate(times)
    for k, end in zip(back, np.append(back, len(times))[1:], strict=True):
        run = times[k : min(end, k + _LONG)]
        behind = run[run <= latest[k - 1]]
        is_long = len(behind) > max(len(run) / 2, _FEW)
        if is_long and ((times[:k] >= behind[0]) & (times[:k] <= behind[-1])).any():
            return 1 + int(np.argmax(times[:k]))
    return len(times)


def _tell_the_time(stamps: np.ndarray) -> np.ndarray:
    """Return which stamps are valid, bool `[N]`: none if most stand still, and none after a clock was set back."""
    takes = stamps > 0
    if 2 * len(np.unique(stamps)) < len(stamps):
        return np.zeros(len(stamps), bool)
    far = np.maximum.accumulate(stamps) - stamps > _CLOCK_JUMP_NS
    takes &= ~np.logical_or.accumulate(far & takes)
    given = np.flatnonzero(takes)
    takes[given[_set_back_at(stamps[given]) :]] = False
    return takes


def _joint_by_joint(groups: list[_Series], tell: Tell) -> list[_Series]:
    """Return the states of each joint from all messages that contain it; joints without a position are reported."""
    found, without, gaps = [], [], 0
    repeated: dict[int, list[str]] = {}
    for name in dict.fromkeys(name for group in groups for name in group.names):
        parts = [(group, group.names.index(name)) for group in groups if name in group.names]
        time = np.concatenate([group.time for group, _ in parts])
        position, velocity = (
            np.concatenate([getattr(group, field)[:, i : i + 1] for group, i in parts])
            for field in ("position", "velocity")
        )
        order, _ = _order(time)
        repeated.setdefault(len(time) - len(order), []).append(name)
        known = order[~np.isnan(position[order, 0])]
        if len(known):
            gaps += len(order) - len(known)
            found.append(_Series((name,), time[known], position[known], velocity[known]))
        else:
            without.append(name)
    for count, names in repeated.items():
        if count:
            tell(f"{count} positions of {listed(names)} left out, with the stamp of another one")
    if without:
        tell(f"left out: {listed(without)}, whose positions are not given (NaN)")
    if gaps:
        tell(f"{gaps} positions that are not given (NaN) are left out")
    return found


def _merged(joints: list[_Series], source: str, kind: str, tell: Tell, *, has_velocity: bool) -> Samples:
    """Merge joints with different times into one motion."""
    shared: dict[bytes, list[_Series]] = {}
    for one in joints:
        shared.setdefault(one.time.tobytes(), []).append(one)
    base, *others = sorted(shared.values(), key=lambda like: (-len(like), -len(like[0].time)))
    time, step = base[0].time, base[0].step
    covered, begin, end = [*base], time[0], time[-1]
    for like in others:
        one, names = like[0], listed([joint.names[0] for joint in like])
        first, last = one.time[0] - max(step, one.step), one.time[-1] + max(step, one.step)
        if len(one.time) < 2 <= len(time) or min(last, time[-1]) - max(first, time[0]) < (time[-1] - time[0]) / 2:
            messages = f"{len(one.time)} {'message' if len(one.time) == 1 else 'messages'}"
            tell(f"left out: {names}, known from {_seconds(one.time[0] - time[0])} to "
                 f"{_seconds(one.time[-1] - time[0])} only ({messages})")  # fmt: skip
            continue
        begin, end = max(begin, first), min(end, last)
        tell(f"{names} ({len(one.time)} messages) interpolated at the times of "
             f"{listed([joint.names[0] for joint in base])} ({len(time)} messages)")  # fmt: skip
        covered += like
    used = (time >= begin) & (time <= end)
    if not used.all():
        tell(f"{np.count_nonzero(~used)} of {len(time)} samples left out, at whose times not all joints are known")
    rows = [_at(one, time[used], step) for one in covered]
    position, velocity = (np.concatenate(values, axis=1) for values in zip(*rows, strict=True))
    seconds = (time[used] - time[used][:1]) * 1e-9
    names = [one.names[0] for one in covered]
    return samples_of(source, names, seconds, [position, velocity if has_velocity else None], kind, Nature.MEASURED)


def _at(one: _Series, time: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate position and velocity of a joint, `[M, 1]`: by cubics, and beyond its samples by a line."""
    if len(one.time) < 2 or np.isin(time, one.time).all():
        k = np.searchsorted(one.time, time)
        return one.position[k], one.velocity[k]
    slopes = one.velocity
    k = np.clip(np.searchsorted(one.time, time, side="right") - 1, 0, len(one.time) - 2)
    length = (one.time[k + 1] - one.time[k])[:, None] * 1e-9
    share = np.clip((time - one.time[k])[:, None] * 1e-9 / length, 0.0, 1.0)
    start, end, first, last = one.position[k], one.position[k + 1], slopes[k] * length, slopes[k + 1] * length
    by_way = end - start
    cubic, square = first + last - 2 * by_way, 3 * by_way - 2 * first - last
    position = start + share * (first + share * (square + share * cubic))
    velocity = (first + share * (2 * square + 3 * share * cubic)) / length
    turns, nearest = np.abs(by_way) > _TURN, k + (share[:, 0] > 0.5)
    position, velocity = np.where(turns, one.position[nearest], position), np.where(turns, slopes[nearest], velocity)
    beyond = time[:, None] - np.clip(time, one.time[0], one.time[-1])[:, None]
    return position + velocity * 1e-9 * np.clip(beyond, -step, step), velocity


def _with_velocity(one: _Series) -> _Series:
    return replace(one, velocity=_filled((one.time - one.time[0]) * 1e-9, one.position, one.velocity))


def _filled(time: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Replace NaN velocities `[N, D]` by differences of positions; 0 for a single sample."""
    unknown = np.isnan(velocity)
    if not unknown.any() or len(time) < 2:
        return np.where(unknown, 0.0, velocity)
    # An angle that passes the end of its range does not move by a whole turn in a sample.
    way = np.unwrap(position, axis=0)
    return np.where(unknown, np.gradient(way, time, axis=0, edge_order=min(2, len(time) - 1)), velocity)


def _tell_of_velocities(names: Sequence[str], tell: Tell) -> None:
    if names:
        tell(f"velocity of {listed(names)} by differences where it was not given")


def listed(names: Sequence[str]) -> str:
    """Format the first names of a list, and the number of the others."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds * 1e-9:.3f} s"
