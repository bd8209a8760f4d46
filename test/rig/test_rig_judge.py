"""The rig's judge finds each error of a command by itself, and none in a command that keeps its limits.

test/soak/test_stream_judge.py has the errors that the judge of streams finds by the same rules.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rig.judge import Judged

RATE = 1000


class Played(Judged):
    """One joint that was commanded these positions, cycle by cycle."""

    limits: ClassVar = {"v": 1.0, "a": 4.0, "j": 60.0, "lo": -0.1, "hi": 0.6}

    def __init__(self, positions: np.ndarray, refused: tuple = ()) -> None:
        super().__init__(RATE)
        self.positions, self.unfit = positions, list(refused)

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


def test_every_fault_of_a_motion_is_found() -> None:
    there_and_back = np.append(minimum_jerk(), 0.4 - minimum_jerk(0.01)[:500])
    played = Played(there_and_back, refused=((0.5, "ends in the past"),))
    assert not played.rests() and not played.back() and not played.ends_at([0.4])
    played.within()
    assert "ends in the past" in played.fails[-1]
    assert played.steps() and not played.steps(most=1.87 * 0.4 / RATE)
    for distance, side in ((0.7, "hi"), (-0.2, "lo")):
        beyond = Played(minimum_jerk(distance, 3.0))
        beyond.within()
        assert [fail.partition(" at ")[0] for fail in beyond.fails] == [f"0.1 beyond position limit {side}"]
