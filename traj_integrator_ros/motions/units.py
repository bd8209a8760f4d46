"""Units of joints: from a robot's URDF, which says which of them slide, or else what their names suggest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

_SLIDE_BY_NAME = re.compile(
    r"(?<!shoulder_)lift_joint|prismatic|slider|linear_(?:axis|joint)|(?:panda|fer|fr3)_finger_joint"
)
"""Well-known joints: Fetch's and PR2's torso and Panda's fingers slide; a UR's shoulder_lift turns."""


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
