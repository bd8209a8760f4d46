"""The compiled steps of motions refuse unsuitable arguments."""

from __future__ import annotations

import numpy as np
import pytest

from traj_integrator_ros.execution import native


def refuses(step, *arguments):
    with pytest.raises(TypeError, match="float64"):
        step(*arguments)


COEFFICIENTS, KNOTS, TIMES = np.zeros((2, 6, 3)), np.arange(3) * 0.1, np.array([0.05, 0.1])
ROWS, ROW = np.zeros((3, 3)), np.zeros(3)
PIECES, STATE = np.zeros((2, 6, 1)), np.array([0.0, 1.0, 0.0])
STATES, BOUNDS = np.stack([STATE, STATE], axis=1), np.ones((4, 2))
TRACKED = np.ones(2), np.ones((2, 3)), 1.0, STATE, -BOUNDS, BOUNDS
SIDES, KINDS = np.stack([-np.ones((4, 3)), np.ones((4, 3))]), np.zeros((2, 3), int)


def sevens(*shape: int, dtype: type = float) -> np.ndarray:
    """An array for output that shows which parts were written."""
    return np.full(shape, 7, dtype)


BLENDED = sevens(208), sevens(207, 6, 3), sevens(3)

CALLS = {
    "states_at": (COEFFICIENTS, KNOTS, TIMES, sevens(4, 2, 3)),
    "united": (np.ones(2, int), np.append(TIMES, TIMES), PIECES, TIMES, 1e-6, 0.01, sevens(18), sevens(17, 6, 2)),
    "interpolate": (KNOTS, KNOTS, ROWS, False, False, ROW, sevens(2, 6, 3), sevens(3)),
    "points": (COEFFICIENTS, KNOTS, KNOTS, False, sevens(3, 3, 3)),
    "profile": (STATE, np.ones(2), STATE[:2], 0.5, sevens(3), sevens(2, 6, 1)),
    "shift": (COEFFICIENTS, TIMES, sevens(2, 6, 3)),
    "between": (TIMES, np.zeros((1, 3, 3)), sevens(2, 6, 3)),
    "spline": (KNOTS, ROWS, ROW, ROW, sevens(3, 3)),
    "stop": (STATES, np.ones(2), np.ones(2), 1e-6, 0.01, sevens(30), sevens(29, 6, 2)),
    "follow": (COEFFICIENTS, KNOTS, True, False, 0.0, 0.1, ROWS, SIDES, ROW, KINDS, *BLENDED),
    "track": (*TRACKED, sevens(3, 3), sevens(2)),
    "widen": (np.zeros((3, 6, 3)), np.arange(4) * 0.1, sevens(1, 2, 4, 3)),
    "widen each": (COEFFICIENTS, KNOTS, sevens(2, 2, 4, 3)),
}
"""A suitable call of each compiled function."""


def unfit(value: object) -> list[object]:
    """Arguments that resemble a suitable one: arrays of another kind or shape, and integers for floats."""
    if not isinstance(value, np.ndarray):
        return [int(value)] if isinstance(value, float) else []
    apart, like = np.repeat(value, 2, axis=-1)[..., ::2], [value.astype(value.dtype.str[:-1] + "4"), value.tolist()]
    if is_written(value):
        return [apart, *like, frozen(value), *(np.repeat(value, 2, axis) for axis in {0, value.ndim - 1})]
    return [apart, *like, *(np.delete(value, 0, axis) for axis in {0, value.ndim - 1})]


def frozen(value: np.ndarray) -> np.ndarray:
    copy = value.copy()
    copy.flags.writeable = False
    return copy


def is_written(value: object) -> bool:
    return isinstance(value, np.ndarray) and bool((value == 7).all())


@pytest.mark.parametrize("name", CALLS)
def test_arrays_of_another_kind_or_shape_are_refused(name):
    function, suits = getattr(native, name.removesuffix(" each")), CALLS[name]
    for place, value in enumerate(suits):
        for wrong in unfit(value):
            given = [np.array(other) if isinstance(other, np.ndarray) else other for other in suits]
            given[place] = wrong
            refuses(function, *given)
            assert all(is_written(x) for x, y in zip(given, suits, strict=True) if is_written(y) and x is not wrong)
    refuses(function, *suits[:-1])
    function(*(np.array(value) if isinstance(value, np.ndarray) else value for value in suits))


def test_what_does_not_belong_together_is_refused():
    _, *suits, knots, pieces = CALLS["united"]
    for counts in ([], [1], [2], [2, 0], [3, -1], [1, 1, 0]):
        refuses(native.united, np.array(counts, int), *suits, knots, pieces)
    for size in (1, 7):
        refuses(native.widen, np.zeros((2, size, 3)), KNOTS, sevens(1, 2, 4, 3))
