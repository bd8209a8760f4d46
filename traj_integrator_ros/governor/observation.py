"""The joint state at the stamp of a sequence, to which its actions are relative. Knows no ROS."""

from __future__ import annotations

import numpy as np

from ..execution.tolerances import NANOSECOND_S, SECOND_NS
from ..parameters.parameters import NodeParameters
from ..requests.rejection import Rejected, RejectionReason
from .committed import measured_at
from .measured import JointStates

_OLDEST_S = 10
"""Age, s, from which on no observation is used: no policy computes for so long. At 400 Hz, as many states are kept."""


def observed(
    joint_states: JointStates, joints: np.ndarray, stamp_ns: int, now_ns: int, parameters: NodeParameters
) -> np.ndarray:
    """Return the measured positions at a time, interpolated linearly between two joint states, rad, `[dof]`.

    Args:
        joint_states: the states that are kept.
        joints: joints that are needed, bool `[dof]`; others may be NaN.
        stamp_ns: the time, by the clock of the joint states, ns; 0: that of the latest joint state.
        now_ns: the present time.
        parameters: the node's configuration.

    Raises:
        Rejected: no_observation, where the states of a joint end before the stamp, begin after it, or have a gap there;
            no_joint_state, state_too_old, clock_jumped_back or contradictory_state.

    """
    latest = joint_states.latest(now_ns, 0.0 if stamp_ns else parameters.state_timeout)
    if not stamp_ns:
        return latest.position
    first_ns, states = now_ns - _OLDEST_S * SECOND_NS, joint_states.recent
    position = measured_at(states, np.array([stamp_ns]), len(joints), parameters.continuous)[0][0]
    unknown = joints & (np.isnan(position) | (stamp_ns < first_ns))
    if unknown.any():
        joint = int(unknown.argmax())
        times_ns = max(first_ns, int(states[0].stamps_ns[joint])), int(latest.stamps_ns[joint]), stamp_ns
        oldest_s, newest_s, given_s = ((now_ns - time_ns) * NANOSECOND_S for time_ns in times_ns)
        raise Rejected(
            RejectionReason.NO_OBSERVATION,
            "header.stamp: actions are relative to the joint state of that time (parameter relative_to): expected two "
            f"states of {parameters.joint_names[joint]} around it without a gap, kept from {oldest_s:.3f} to "
            f"{newest_s:.3f} s ago, got {given_s:.3f} s ago",
        )
    return position
