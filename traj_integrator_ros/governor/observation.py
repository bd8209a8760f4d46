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
    if stamp_ns < now_ns - _OLDEST_S * SECOND_NS:
        raise _without(f"at most {_OLDEST_S} s ago", f"{(now_ns - stamp_ns) * NANOSECOND_S:.3f} s")
    states, turning = joint_states.recent, parameters.continuous
    position = measured_at(states, np.array([stamp_ns]), len(joints), turning)[0][0]
    unknown = joints & np.isnan(position)
    if unknown.any():
        joint = int(unknown.argmax())
        name, newest_ns = parameters.joint_names[joint], latest.stamps_ns[joint]
        if stamp_ns > newest_ns:
            ahead = (stamp_ns - newest_ns) * NANOSECOND_S
            raise _without(f"at most the time of the latest state of {name}", f"{ahead:.3f} s more")
        oldest_ns = states[0].stamps_ns[joint] if states else newest_ns
        if stamp_ns < oldest_ns:
            before = (oldest_ns - stamp_ns) * NANOSECOND_S
            raise _without(f"at least the time of the oldest state of {name} that is kept", f"{before:.3f} s less")
        raise _without(f"joint states of {name} around it", "a gap")
    return position


def _without(expected: str, given: str) -> Rejected:
    return Rejected(
        RejectionReason.NO_OBSERVATION,
        f"header.stamp: actions are relative to the joint state of that time (parameter relative_to): expected "
        f"{expected}, got {given}",
    )
