"""When the robot is braked, because it does not follow or somebody stops it, and for how long. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..execution.tolerances import NANOSECOND_S, RESTS, STANDS_RAD_S
from ..requests.rejection import Rejected, RejectionReason
from .grips import Grips
from .measured import MeasuredState, unexplained
from .monitor import Allowance, Commanded, TrackingMonitor

REST_S = 0.1
"""Time, s, for which a robot has to stand to count as resting."""
_STAYS_S = 1.0
"""Time, s, in which a robot that stands away from its command comes back, if it does so at all."""
_AWAY = 0.3
"""Tracking error, as a share of the allowance, from which on a robot stands away from its command; walls cause 0.16."""
_REACHED = 0.05
"""Distance from the command, as a share of the allowance, below which a joint is at its command."""
_JUMPED = 0.5
"""Share of a tracking error: if a step that no velocity explains makes up more, it is unknown where the joint is."""
_GENTLE = (0.1, 0.25)
"""Slowest and fastest pace in the direction in which a joint was stopped, rad/s, or shares of a range below 1 rad."""
_FOLLOWS = 0.05
"""Distance, as a share of the joint's range (at most 1 rad or m), after which a joint counts as following again."""


class Guard:
    """Decides when the robot is braked because it does not follow its command, and until when.

    After a brake the command stands, whatever is measured. If joints were held back or pushed, it goes back once, at
    most to where the joints were at the brake.
    """

    def __init__(self, held: bool = False) -> None:
        self.monitor, self.grips = TrackingMonitor(), Grips()
        self.reason, self.kind = "", RejectionReason.DEVIATION
        """Why the robot is braked; empty if it is not."""
        self.held, self.stopped_until_rest, self.stop_waits = held, False, False
        """Whether a stop holds until a call releases it, which nothing else does; is not over; is not possible yet."""
        self.brakes = 0
        self.back_to: np.ndarray | None = None
        """Where joints were at the brake, rad, `[dof]`; None if the command may not go back there, or has gone back."""
        self._explained: np.ndarray | None = None
        """Joints, bool `[dof]`, whose measured velocity explained their position at the brake; None if all followed."""
        self.offset = self.stopped = self._met = np.zeros(())
        """Distance of measured joints from their command that nothing explains, rad; velocities with which joints
        may go on in the direction in which they were stopped, rad/s, until they have followed, or until the next brake.
        """
        self._began: np.ndarray | None = None
        """Measured and commanded positions, `[2, dof]`, when the last brake was over."""
        self._resting_since_ns, self._compared_ns, self._rested_at = 0, 0, np.full((), np.inf)

    @property
    def is_busy(self) -> bool:
        """Return whether a brake or a stop is not over yet."""
        return bool(self.reason) or self.stopped_until_rest or self.stop_waits

    def take(self, state: MeasuredState, commanded: Commanded, allowance: Allowance) -> None:
        """Compare a measured state with the commands before, and find out by positions if joints rest or follow."""
        position, stamp_ns = state.position - self.offset, state.stamp_ns
        if len(self.monitor.off) != len(position):
            self.monitor = TrackingMonitor(len(position))
        if self.monitor.take(state._replace(position=position), commanded, allowance, free=not self.reason):
            self.grips.take(position, self.monitor.commanded, stamp_ns, allowance.grip)
        moves = (np.abs(position - self._rested_at) > RESTS * REST_S * allowance.full_speed).any()
        self._resting_since_ns = stamp_ns if moves else self._resting_since_ns
        if moves or (stamp_ns - self._compared_ns) * NANOSECOND_S >= REST_S:  # A joint that only creeps rests.
            self._rested_at, self._compared_ns = position, stamp_ns
        if self._began is not None and not self.reason:
            went, led = np.stack([position, self.monitor.commanded]) - self._began
            follows = (went * led > 0) & (np.minimum(abs(went), abs(led)) >= _FOLLOWS * allowance.full_speed)
            self.stopped = np.where(follows, 0.0, self.stopped)

    def exceeded(self, allowance: Allowance, names: tuple[str, ...]) -> Rejected | None:
        """Return why the robot is to be braked, which is the joint that exceeds a threshold most; None if none does."""
        growth, threshold = np.abs(self.monitor.growth), self.monitor.threshold
        # It moves away from what it met, against which the integrators of drives press for a while.
        if np.count_nonzero(self.stopped) and (self._met * self.monitor.velocity).sum() < 0:
            threshold = np.maximum(threshold, allowance.distance)
        further = (growth, threshold, "gets {:.4g} further")
        for found, most, what in ((np.abs(self.monitor.error), allowance.distance, "is {:.4g}"), further):
            if len(found) and (found > most).any():
                joint = int((found / most).argmax())
                away = f"{names[joint]} {what.format(found[joint])} away from its command"
                text = f"{away}, expected at most {most[joint]:.4g} (parameter supervision.deviation)"
                return Rejected(RejectionReason.DEVIATION, text)
        return None

    def require_following(self) -> None:
        """Refuse sequences, and goals in execution, while the robot is stopped or braked. Raises Rejected."""
        if self.held or self.stopped_until_rest:
            held = "and holds until it is released (~/stop with hold: false)" if self.held else "and is not over"
            raise Rejected(RejectionReason.STOPPED, f"node: a stop was requested {held}")
        if self.reason:
            raise self.refusal()

    def refusal(self) -> Rejected:
        """Return the refusal of sequences while the robot is braked."""
        return Rejected(self.kind, f"node: {self.reason}; rejecting until the robot rests")

    def brake(self, found: Rejected, states: Sequence[MeasuredState], allowance: Allowance) -> None:
        """Record that the robot is braked, why, and its states before (the last of them is the present one)."""
        self.reason, self.kind = found.message, found.reason
        self.brakes += 1
        self.back_to, self._explained, monitor = None, None, self.monitor
        if found.reason is not RejectionReason.DEVIATION:
            return
        self.back_to, watched = monitor.commanded - monitor.behind, allowance.watched
        jumped = np.maximum(_JUMPED * np.abs(monitor.off), _REACHED * allowance.distance)
        self._explained = (unexplained(states) <= jumped) | ~watched
        away = np.where(np.abs(monitor.off) > _AWAY * allowance.distance, -np.sign(monitor.off), 0.0)
        met = np.where(np.abs(monitor.velocity) > STANDS_RAD_S, np.sign(monitor.velocity), away)
        slowest, fastest = (share * np.where(watched, allowance.full_speed, 0.0) for share in _GENTLE)
        self.stopped = self._met = met * np.clip(np.abs(monitor.velocity), slowest, fastest)

    def way_back(self, command: np.ndarray | None, allowance: Allowance) -> np.ndarray | None:
        """Return how far a command goes back once after a brake, rad, `[dof]`; None if it stands where it is.

        It goes back to where the joints were at the brake, unless they have come to their command since. All joints go
        back, since where one gives way, another one may have pressed it against something. Grippers keep their grip.
        """
        place, self.back_to = self.back_to, None
        there, reached = self.monitor.commanded - self.monitor.behind, _REACHED * allowance.distance
        if command is None or self.held or (np.abs(there - command) <= reached).all():
            return None
        return np.clip(place - command, -allowance.start, allowance.start) * (self._explained & allowance.watched)

    def rests(self, now_ns: int, allowance: Allowance) -> bool:
        """Return whether the joints have rested for 0.1 s, or for 1 s if they stand away from their command."""
        stays = self.reason and self.back_to is None and (np.abs(self.monitor.error) > _AWAY * allowance.distance).any()
        return (now_ns - self._resting_since_ns) * NANOSECOND_S >= (_STAYS_S if stays else REST_S)

    def recover(self, allowance: Allowance) -> bool:
        """End a brake, since the robot rests: the next sequence may begin where the command stands.

        Returns whether the robot was moved away from there, and stays there.
        """
        self.reason, explained, off = "", self._explained, self.monitor.off
        is_away = (np.abs(self.monitor.error) > _REACHED * allowance.distance).any()
        self.monitor.forget_command()
        if explained is not None:
            self._began = self.monitor.commanded + np.stack([off * explained, np.zeros_like(off)])
            self.monitor.left, self.offset = off * explained, self.offset + off * ~explained
        return explained is not None and bool(explained.all() and is_away)
