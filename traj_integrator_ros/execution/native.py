"""Steps of motions: compiled (`src/`), one call each instead of many of numpy, or those of `reference` if not built.

`reference` says what each of them does. Compiled ones raise TypeError for arrays that are not contiguous or float64, or
have another shape.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from . import reference


def _steps() -> ModuleType:
    try:
        from . import _native
    except ImportError:  # no compiler, or sources that were not installed
        return reference
    return _native


_built = _steps()
is_reference = _built is reference
motion_through: Callable[..., None] = _built.motion_through
surely_keeps: Callable[..., bool] = _built.surely_keeps
extremes: Callable[..., None] = _built.extremes
retreats: Callable[..., None] = _built.retreats
united: Callable[..., int] = _built.united
pieces_of_profiles: Callable[..., list[int]] = _built.pieces_of_profiles
states_at: Callable[..., None] = _built.states_at
end: Callable[..., None] = _built.end
from_time: Callable[..., int] = _built.from_time
then: Callable[..., None] = _built.then
points: Callable[..., None] = _built.points
shift: Callable[..., None] = _built.shift
quintics: Callable[..., None] = _built.quintics
blend: Callable[..., None] = _built.blend


def all_finite(values: np.ndarray) -> bool:
    """Whether real numbers of any shape hold neither NaN nor infinity."""
    finite = _built.all_finite(values)
    return reference.all_finite(values) if finite is None else finite
