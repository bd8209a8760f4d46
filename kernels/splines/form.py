"""The form of a spline: degree, rows for each segment, and how start and goal meet the control points."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import BsplineLayout

DEGREES = (3, 4, 5)


@dataclass(frozen=True)
class SplineForm:
    """What turns control points into rows, apart from numbers that are data.

    A spline of degree K has K + 1 extended control points in reach of each segment. Around the `n` that are given lie
    those that carry the start state (the head) and the goal state, or the last one repeated (the tail).

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
        """Extended control points that carry the start state."""
        return self.degree + (self.layout is BsplineLayout.CUROBO)

    def tail(self, has_goal: bool) -> int:
        """Extended control points behind those given: they carry the goal state, or repeat the last one."""
        return self.head if has_goal else self.degree

    def used(self, points: int, has_goal: bool) -> int:
        """Control points that count, of those given: the published layout ignores the last one before a goal."""
        # An int, because symbolic sizes of torch before 2.7 take no truth value as a number.
        return points - int(has_goal and self.layout is BsplineLayout.CUROBO)

    def segments(self, points: int) -> int:
        """Segments that `points` control points make."""
        return points + self.head

    def rows(self, points: int) -> int:
        """Rows of the trajectory that `points` control points make."""
        return self.segments(points) * self.steps + 1

    @property
    def has_jerk(self) -> bool:
        """Whether the jerk of start and goal is seen: the published layout of degree 3 leaves it out."""
        return not (self.layout is BsplineLayout.CUROBO and self.degree == 3)

    @property
    def scheme(self) -> tuple[int, int, str]:
        """Scheme arguments of the operator."""
        return self.degree, self.steps, self.layout.value


_LAYOUTS = {layout.value: layout for layout in BsplineLayout}
