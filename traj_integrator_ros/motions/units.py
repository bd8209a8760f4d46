"""Units of joints, from a URDF or from their names, and units of columns and arrays, in which angles may be degrees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

_SLIDE_BY_NAME = re.compile(
    r"(?<!shoulder_)lift_joint|prismatic|slider|linear_(?:axis|joint)|(?:panda|fer|fr3)_finger_joint"
)
"""Names of well-known prismatic joints: torso of Fetch and PR2, fingers of Panda; a UR's shoulder_lift turns."""


_RADIANS = {
    **dict.fromkeys(("rad", "rads", "radian", "radians", "m", "meter", "meters", "metre", "metres"), 1.0),
    **dict.fromkeys(("mrad", "mm", "millimeter", "millimeters"), 1e-3),
    "cm": 1e-2,
    **dict.fromkeys(("deg", "degs", "degree", "degrees", "\u00b0", "dps"), np.pi / 180),
    **dict.fromkeys(("rev", "revs", "revolution", "revolutions", "turn", "turns"), 2 * np.pi),
}
"""Sizes of units of position, rad or m."""
_RATE = r"(?:[/ ._]?(?:s|sec|second)(?:(?:\^|\*\*)?-?[123]|[\u00b2\u00b3])?)"
_UNIT = rf"(?P<unit>\u00b0|dps|[a-z]+?)(?:[/ _]?p(?:er[ _]?)?s(?:ec|econd)?\d?|{_RATE}{{1,3}})?"
_ALONE = re.compile(rf"[\[(]?\s*{_UNIT}\s*[\])]?", re.IGNORECASE)
_INSIDE = r"[^\[\](){}]"
_IN_BRACKETS = re.compile(
    rf"(?P<name>.*?[^\s_])[\s_]*[\[({{]\s*(?P<content>{_INSIDE}*[^\[\](){{}}\d\s]{_INSIDE}*)[\])}}]"
)
_ANGLE = rf"(?:deg|degs|degrees?|rads?|radians?|mrad|\u00b0)(?:_?ps\d?|_per_s\w*|{_RATE}{{1,3}})?"
_BETWEEN = r"[\s_./|:<'\"-]"
_AT_END = re.compile(rf"(?P<name>.+?){_BETWEEN}+(?:in{_BETWEEN}+)?(?P<content>{_ANGLE})[\s_.>'\"]*", re.I)
_BEFORE_JOINT = re.compile(
    r"(?P<quantity>position|velocity|acceleration|jerk|action)[ _]?"
    rf"(?P<open>[\[({{])?(?P<content>{_ANGLE})(?(open)[\])}}])[ _](?P<joint>.+)",
    re.I,
)
_LONGEST = 200
"""Largest number of characters of a name that may end in a unit: damaged files have lines of megabytes."""
_SIGNS = str.maketrans("\u00b7*\u207b\u2212\u00b9\u00b2\u00b3\u00ba", "  --123\u00b0")
"""Signs of products, powers and degrees, and simple ones that mean the same."""
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


def size_of_unit(text: str) -> float | None:
    """Return the size, rad or m, of a unit such as deg, (deg/s) or [rad/s^2]; None for anything else."""
    found = _ALONE.fullmatch(text.strip().rstrip(".").translate(_SIGNS).removeprefix("in "))
    return _RADIANS.get(found["unit"].lower()) if found else None


def tell_of_degrees(
    joints: Sequence[str], positions: Sequence[np.ndarray], units: GivenUnits, tell: Callable[[str], None]
) -> None:
    """Report angles in rad that are as large as degrees, unless their unit was given."""
    large = [float(np.nanmax(np.abs(values), initial=0.0)) for values in positions]
    unlikely = [k for k, joint in enumerate(joints) if large[k] > MOST_RAD and JointUnits().of(joint)[0] == "rad"]
    if unlikely and units.angle is None:
        k = unlikely[0]
        tell(f"{joints[k]} is at up to {large[k]:g}, taken as rad (degrees: --angle-unit deg)")


def without_unit(column: str) -> tuple[str, str, float | None]:
    """Return a column's name without its unit, the unit as written, and its size, rad or m; "" and None without one.

    The size of an unknown unit in brackets is None, too.
    """
    if len(column) > _LONGEST:
        return column, "", None
    if found := _BEFORE_JOINT.fullmatch(column):
        return f"{found['quantity']}_{found['joint']}", found["content"], size_of_unit(found["content"])
    if found := _IN_BRACKETS.fullmatch(column) or _AT_END.fullmatch(column):
        return found["name"].strip(), found["content"].strip(), size_of_unit(found["content"].lstrip("_"))
    return column, "", None


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
