"""The limits in force: those of the parameters, then of MoveIt's file, then of the URDF. Knows no ROS."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

from ..limits.found import QUANTITIES, FoundLimits, LimitsError, unlimited
from ..limits.moveit import load_moveit
from ..limits.urdf import load_urdf, read_urdf
from .parameters import InvalidParameters, NodeParameters, check_limits
from .table import ARM, GRIPPER

FROM_TOPIC = "topic"
"""Value of the parameter limits.urdf for a URDF on the topic robot_description; other values are paths."""
FROM_NOWHERE = "none"
"""Value of the parameters limits.urdf and limits.moveit for no such source."""


@dataclasses.dataclass(frozen=True)
class RobotLimits:
    """The parameters as given, and the other sources of limits.

    A parameter counts for all joints. For a quantity without a parameter, each joint has the limit of MoveIt's file, or
    else of the URDF. A limit of acceleration holds for either sign, unless the same source, or one before it, has a
    limit of deceleration.

    Raises LimitsError if a limit of one source contradicts that of another.
    """

    given: NodeParameters
    urdf: FoundLimits | None = None
    moveit: FoundLimits | None = None

    @staticmethod
    def configured(given: NodeParameters) -> RobotLimits:
        """Return the limits from the parameters, and from the files that they name. Raises LimitsError."""
        names = given.joint_names
        urdf = None if given.limits_urdf in (FROM_TOPIC, FROM_NOWHERE) else load_urdf(given.limits_urdf, names)
        moveit = None if given.limits_moveit == FROM_NOWHERE else load_moveit(given.limits_moveit, names)
        return RobotLimits(given, urdf, moveit)

    def described(self, text: str, source: str) -> RobotLimits:
        """Return the same limits with a URDF that was received on a topic. Raises LimitsError."""
        return dataclasses.replace(self, urdf=read_urdf(text, self.given.joint_names, source))

    def __post_init__(self) -> None:
        self.parameters  # noqa: B018 - raises LimitsError for limits that contradict each other

    @property
    def _sources(self) -> tuple[FoundLimits, ...]:
        return tuple(source for source in (self.moveit, self.urdf) if source is not None)

    @cached_property
    def parameters(self) -> NodeParameters:
        """The parameters, completed by the limits of the other sources."""
        if not self._sources:
            return self.given
        taken = {name: values for name in QUANTITIES if (values := self._found(name)[0]) is not None}
        filled = dataclasses.replace(self.given, **{f"limits_{name}": values for name, values in taken.items()})
        self._check(filled)
        return dataclasses.replace(filled, limits_continuous=self._continuous(filled), joints_kind=self._kinds())

    def _found(self, name: str) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """Return limits of other sources for a quantity without a parameter, `[dof]`, and these sources."""
        if getattr(self.given, f"limits_{name}") is not None:
            return None, ()
        dof = len(self.given.joint_names)
        values, origins = np.full(dof, unlimited(name)), []
        # Joints whose acceleration, of either sign, a source with precedence has limited.
        settled = np.full(dof, name == "deceleration" and self.given.limits_acceleration is not None)
        for source in self._sources:
            own = getattr(source.limits, name)
            if own is not None:
                takes = ~np.isfinite(values) & np.isfinite(own) & ~settled
                values[takes] = own[takes]
                origins += [source.origin(name)] if takes.any() else []
            if name == "deceleration" and source.limits.acceleration is not None:
                settled |= np.isfinite(source.limits.acceleration)
        return (values if origins else None), tuple(origins)

    def _continuous(self, filled: NodeParameters) -> tuple[str, ...]:
        """Return the continuous joints: the given ones, and those of the URDF without a position limit."""
        bounded = np.zeros(len(filled.joint_names), bool)
        for bound in (filled.limits_position_min, filled.limits_position_max):
            bounded |= False if bound is None else np.isfinite(bound)
        turning = () if self.urdf is None else self.urdf.continuous
        given = self.given.limits_continuous
        named = zip(filled.joint_names, bounded, strict=True)
        return tuple(name for name, ends in named if name in given or (name in turning and not ends))

    def _kinds(self) -> tuple[str, ...]:
        """Return the kinds of joints: the given ones, or those by names, beside the grippers of the URDF."""
        fingers = () if self.urdf is None else self.urdf.fingers
        if self.given.joints_kind or not fingers:
            return self.given.joints_kind
        named = zip(self.given.joint_names, self.given.kinds, strict=True)
        return tuple(GRIPPER if name in fingers else kind for name, kind in named)

    def _check(self, filled: NodeParameters) -> None:
        """Check that limits of several sources do not contradict each other, and that robots can brake within them."""
        try:
            check_limits(filled)
        except InvalidParameters as error:
            names = " and ".join(source.source for source in self._sources)
            raise LimitsError(f"{names}: {error}; limits that are given as parameters go before these") from None

    @cached_property
    def origins(self) -> str:
        """Name the source of each quantity's limit, in one line."""
        origins = {name: self._origin(name) for name in QUANTITIES}
        if origins["position_min"] == origins["position_max"]:
            origins = {"position": origins["position_min"], **origins}
            del origins["position_min"], origins["position_max"]
        if origins["deceleration"] == "none":
            del origins["deceleration"]  # as acceleration
        line = ", ".join(f"{name}: {origin}" for name, origin in origins.items())
        for source in self._sources:
            if source.without and any(source.source in origin for origin in origins.values()):
                line += f" ({source.source} has none of {', '.join(source.without)})"
        return line

    @cached_property
    def kinds(self) -> str:
        """Name the joints that are not an arm's, with kinds and source, in one line; empty if there is none."""
        pairs = zip(self.parameters.joint_names, self.parameters.kinds, strict=True)
        named = ", ".join(f"{name} ({kind})" for name, kind in pairs if kind != ARM)
        source = "parameter joints.kind" if self.given.joints_kind else "by the URDF and names; joints.kind goes first"
        return named and f"{named}; {source}"

    def _origin(self, name: str) -> str:
        if getattr(self.given, f"limits_{name}") is not None:
            return "parameters"
        return " and ".join(self._found(name)[1]) or "none"
