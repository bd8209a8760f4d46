"""Steps of motions: compiled (`src/`), one call each instead of many of numpy, or `reference`'s if not built.

`reference` says what each of them does. Compiled ones raise TypeError for arrays that are not contiguous or float64, or
have another shape.
"""

from __future__ import annotations

from . import reference

try:
    from . import _native as steps
except ImportError:  # no compiler, or sources that were not installed
    steps = reference

is_reference = steps is reference
spline = steps.spline
widen = steps.widen
retreats = steps.retreats
united = steps.united
pieces_of_profile = steps.pieces_of_profile
stop = steps.stop
states_at = steps.states_at
points = steps.points
shift = steps.shift
add = steps.add
blend = steps.blend
all_finite = steps.all_finite
