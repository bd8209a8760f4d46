"""The rig's judge finds each error of a command by itself, and none in a command that keeps its limits."""

from __future__ import annotations

import numpy as np
import pytest

from rig.judge import Judged

RATE = 1000
LIMITS = {"v": 1.0, "a": 4.0, "j": 60.0, "lo": -0.1, "hi": 0.6}


class Played(Judged):
    """One joint that was commanded these positions, cycle by cycle."""

    judge_rate, judged_from, limits = RATE, None, LIMITS

    def __init__(self, positions: np.ndarray, refused: tuple = ()) -> None:
        super().__init__()
        self.positions, self.refused = positions, refused

    def played(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(self.positions)) / RATE, self.positions[:, None]


def minimum_jerk(distance: float = 0.4, duration: float = 1.0) -> np.ndarray:
    """Peaks of 1.875 d/T, 5.77 d/T^2 and 60 d/T^3; then rest for 50 ms."""
    s = np.clip(np.arange(RATE * duration + 50) / RATE / duration, 0.0, 1.0)
    return distance * (10 * s**3 - 15 * s**4 + 6 * s**5)


def test_a_motion_within_its_limits_passes() -> None:
    played = Played(minimum_jerk())
    played.within(), played.rests(), played.ends_at([0.4]), played.back()
    assert not played.fails and len(played.figures) == 7


def stepping(by: float) -> np.ndarray:
    positions = minimum_jerk()
    positions[500:] += by
    return positions


@pytest.mark.parametrize(
    ("positions", "findings"),
    [
        (minimum_jerk(duration=0.7), ("v 1.07", "a 1.1", "j 1.1")),
        (stepping(1e-4), ("a 25",)),
        (stepping(1e-6), ("j 33",)),
        (minimum_jerk(0.7, 3.0), ("0.1 beyond position limit hi",)),
        (-minimum_jerk(0.2), ("0.1 beyond position limit lo",)),
        (np.append(minimum_jerk(), np.nan), ("finite",)),
    ],
)
def test_what_is_beyond_a_limit_is_found(positions: np.ndarray, findings: tuple[str, ...]) -> None:
    played = Played(positions)
    played.within()
    assert all(any(finding in fail for fail in played.fails) for finding in findings), played.fails


def test_every_fault_of_a_motion_is_found() -> None:
    there_and_back = np.append(minimum_jerk(), 0.4 - minimum_jerk(0.01)[:500])
    played = Played(there_and_back, refused=((0.5, "ends in the past"),))
    assert not played.rests() and not played.back() and not played.ends_at([0.4])
    played.within()
    assert "ends in the past" in played.fails[-1]
    assert played.steps() and not played.steps(most=1.87 * 0.4 / RATE)
