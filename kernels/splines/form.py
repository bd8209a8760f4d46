"""The form of a spline: degree, rows for each segment, and how start and goal meet the control points."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import BsplineLayout

DEGREES = (3, 4, 5)


@dataclass(frozen=True)
class SplineForm:
    """The parameters of the map from control points to rows.

    In a spline of degree K, K + 1 extended control points affect each segment. Around the `n` given ones are those that
    represent the start state (the head), and those that represent the goal state or repeat the last one (the tail).

    Raises:
        ValueError: a field out of its range, named.

    """

    degree: int = 3
    """K: 3, 4 or 5."""
    steps: int = 4
    """Rows for each segment."""
    layout: BsplineLayout | str = BsplineLayout.TIGHT

    def __post_init__(self) -> None:
        if self.degree not in DEGREES:
            raise ValueError(f"degree: expected 3, 4 or 5, got {self.degree!r}")
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps: expected a whole number of rows >= 1 for each segment, got {self.steps!r}")
        name = self.layout.value if isinstance(self.layout, BsplineLayout) else self.layout
        if name not in _LAYOUTS:
            raise ValueError(f"layout: expected one of {', '.join(map(repr, _LAYOUTS))}, got {self.layout!r}")
        object.__setattr__(self, "layout", _LAYOUTS[name])

    @property
    def head(self) -> int:
        """Number of extended control points that represent the start state."""
        return self.degree + (self.layout is BsplineLayout.CUROBO)

    def used(self, points: int, has_goal: bool) -> int:
        """Number of given control points that are used: the published layout ignores the last one before a goal."""
        # An int, because symbolic sizes in torch before 2.7 do not accept a bool as a number.
        return points - int(has_goal and self.layout is BsplineLayout.CUROBO)

    def segments(self, points: int) -> int:
        """Number of segments for `points` control points."""
        return points + self.head

    def rows(self, points: int) -> int:
        """Number of rows for `points` control points."""
        return self.segments(points) * self.steps + 1

    @property
    def has_jerk(self) -> bool:
        """Return whether the jerk of start and goal has an effect: the published layout of degree 3 ignores it."""
        return not (self.layout is BsplineLayout.CUROBO and self.degree == 3)

    @property
    def scheme(self) -> tuple[int, int, str]:
        """Scheme arguments of the operator."""
        return self.degree, self.steps, self.layout.value


_LAYOUTS = {layout.value: layout for layout in BsplineLayout}
