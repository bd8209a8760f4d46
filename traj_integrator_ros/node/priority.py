"""The place of the node's threads among the programs of its machine."""

from __future__ import annotations

import os
from contextlib import suppress

_FIRST, _AFTER = 2, 1
"""Real-time priorities of the threads that stop a robot, and of those that compute plans and batches: the lowest ones,
since drivers and controllers come before (ros2_control takes 50).
"""


def come_first() -> str:
    """Let this thread, and those that it starts, go before ordinary programs; returns what was done, for the log.

    A stop would otherwise wait for a core wherever other programs keep all of them busy. The system allows it to root
    and to users with `rtprio` in limits.conf; a policy that whoever started the process has chosen is kept.
    """
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        return "threads keep the scheduling policy with which the process was started"
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_FIRST))
    except OSError:
        return "threads wait for cores like those of any program: there is no right to a priority (limits.conf: rtprio)"
    return f"threads go before those of ordinary programs (SCHED_RR {_FIRST})"


def come_after() -> None:
    """Let this thread go after the one that stops the robot, if that has a priority."""
    if os.sched_getscheduler(0) == os.SCHED_RR:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_AFTER))
