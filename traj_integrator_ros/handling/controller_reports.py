"""Reports of the controller, in the node's joint order. Knows no ROS."""

from __future__ import annotations

import numpy as np

from ..execution.motion import State
from .joint_order import find_columns
from .present import ControllerReport
from .rejection import Rejected, RejectionReason, require_finite, shown_names


class ControllerReports:
    """Checks what the controller reports, and brings it into the node's joint order."""

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names = joint_names
        self._known_names: tuple[str, ...] = ()
        self._columns: np.ndarray | None = None
        self._scales = False

    def report(
        self,
        names: tuple[str, ...],
        position: np.ndarray,
        velocity: np.ndarray,
        acceleration: np.ndarray,
        stamp_ns: int,
        speed_scaling: float,
    ) -> ControllerReport:
        """Check a report.

        Args:
            names: joints of the controller, in any order.
            position: of the reference, one value for each name, rad.
            velocity: of the reference, or empty for 0, rad/s.
            acceleration: of the reference, or empty for 0, rad/s^2.
            stamp_ns: of the cycle.
            speed_scaling: 0 counts as 1 until it has been another number: then the controller does not fill it in.

        Raises:
            Rejected: joint_missing, duplicate_joint, joint_count or not_finite.

        """
        columns = self._resolve(names)
        dof = len(self._joint_names)
        parts = []
        for field, values, needed in (
            ("positions", position, True), ("velocities", velocity, False), ("accelerations", acceleration, False)
        ):  # fmt: skip
            if not len(values) and not needed:
                parts.append(np.zeros(dof))
                continue
            if len(values) != len(names):
                raise Rejected(
                    RejectionReason.JOINT_COUNT,
                    f"controller_state.reference.{field}: expected {len(names)} values, one for each name, "
                    f"got {len(values)}",
                )
            values = values[columns]
            require_finite(f"controller_state.reference.{field}", values)
            parts.append(values)
        if not np.isfinite(speed_scaling):
            raise Rejected(
                RejectionReason.NOT_FINITE,
                f"controller_state.speed_scaling_factor: expected a number, got {speed_scaling}",
            )
        self._scales = self._scales or speed_scaling != 0.0
        return ControllerReport(stamp_ns, State(*parts), speed_scaling if self._scales else 1.0, bool(len(velocity)))

    def _resolve(self, names: tuple[str, ...]) -> np.ndarray:
        if self._columns is not None and names == self._known_names:
            return self._columns
        columns = find_columns(names, self._joint_names, "controller_state.joint_names")
        if columns is None:
            raise Rejected(
                RejectionReason.JOINT_MISSING,
                f"controller_state.joint_names: expected the joints of the node, got {shown_names(names) or 'none'}",
            )
        self._columns, self._known_names = columns, names
        return columns
