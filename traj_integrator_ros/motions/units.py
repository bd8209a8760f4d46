"""Units of joints, from a URDF or from their names, and units of columns, in which angles may be degrees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

_SLIDE_BY_NAME = re.compile(
    r"(?<!shoulder_)lift_joint|prismatic|slider|linear_(?:axis|joint)|(?:panda|fer|fr3)_finger_joint"
)
"""Names of well-known prismatic joints: torso of Fetch and PR2, fingers of Panda; a UR's shoulder_lift turns."""


_SIZES = {"rad": 1.0, "m": 1.0, "deg": np.pi / 180}
"""Units of position, with their sizes in rad or m."""
_WITH_UNIT = re.compile(r"(.+?)(?:[ _]?[\[(]([^\[\]()\d][^\[\]()]*)[\])]|_(rad|deg))")
"""A name with a unit in brackets, perhaps over a power of s, or with one of two units at its end."""
ANGLES = {"rad": 1.0, "deg": np.pi / 180}
"""Units of angles that users may choose, rad."""
MOST_RAD = 4 * np.pi
"""Largest usual angle of an arm's joint, rad: larger numbers are probably degrees."""


@dataclass(frozen=True)
class GivenUnits:
    """Units that a user gives for a table or archive that names none. None: times by their numbers, angles in rad."""

    time: str | None = None
    """Unit of times: s, ms, us or ns."""
    angle: str | None = None
    """Unit of angles: rad or deg."""

    def of_joint(self, joint: str) -> float | None:
        """Return the size of a joint's unit, rad or m, in a column that names none; None if it is not given."""
        return None if self.angle is None or JointUnits().of(joint)[0] == "m" else ANGLES[self.angle]


UNITS_OF_THE_FILE = GivenUnits()


def tell_of_degrees(
    joints: Sequence[str], positions: Sequence[np.ndarray], units: GivenUnits, tell: Callable[[str], None]
) -> None:
    """Report angles in rad that are as large as degrees, unless their unit was given."""
    large = [float(np.nanmax(np.abs(values), initial=0.0)) for values in positions]
    unlikely = [k for k, joint in enumerate(joints) if large[k] > MOST_RAD and JointUnits().of(joint)[0] == "rad"]
    if unlikely and units.angle is None:
        k = unlikely[0]
        tell(f"{joints[k]} is at up to {large[k]:g}, taken as rad (degrees: --angle-unit deg)")


def without_unit(column: str) -> tuple[str, float | None]:
    """Return a column's name without its unit, and the size of that, rad or m; None without one.

    Raises ValueError for another unit than rad, deg or m, or one of these over a power of s.
    """
    found = _WITH_UNIT.fullmatch(column)
    if found is None:
        return column, None
    unit = found[2] or found[3]
    if (size := _SIZES.get(unit.partition("/")[0].strip())) is None:
        raise ValueError(f"expected a unit such as deg or rad/s in column {column}, got {unit!r}")
    return found[1], size


@dataclass(frozen=True)
class JointUnits:
    """Units of position, velocity, acceleration and jerk of joints by name.

    Args:
        slides: whether a joint is prismatic; a joint that it does not name is judged by its name.

    """

    slides: Mapping[str, bool] = field(default_factory=dict)

    def of(self, joint_name: str) -> tuple[str, str, str, str]:
        """Units as in messages: rad, rad/s, rad/s^2, rad/s^3, or m and so on."""
        slides = self.slides.get(joint_name)
        if slides is None:
            slides = _SLIDE_BY_NAME.search(joint_name) is not None
        base = "m" if slides else "rad"
        return base, f"{base}/s", f"{base}/s^2", f"{base}/s^3"

    def in_figures(self, joint_name: str) -> tuple[str, str, str, str]:
        """Units with raised exponents."""
        return tuple(unit.replace("^2", "²").replace("^3", "³") for unit in self.of(joint_name))

    def rms(self, values: np.ndarray, order: int, joint_names: Sequence[str]) -> str:
        """The RMS of `values` `[N, D]` over the joints that share a unit; `order` is that of the derivative."""
        kinds = self.kinds(joint_names).items()
        return " and ".join(f"{np.sqrt(np.mean(values[:, joints] ** 2)):.3g} {kind[order]}" for kind, joints in kinds)

    def kinds(self, joint_names: Sequence[str]) -> dict[tuple[str, str, str, str], list[int]]:
        """Indices of the joints by their units: most robots have joints of one kind."""
        found: dict[tuple[str, str, str, str], list[int]] = {}
        for index, name in enumerate(joint_names):
            found.setdefault(self.of(name), []).append(index)
        return found
