"""Large messages through ROS as they go without settings: 1,000 trajectories, 0.9 MB in and 3.6 MB out.

The node is started as `ros2 launch` starts it and fits its transports to `max_batch` by itself; the echo does the same.
For comparison, the middleware without any chosen transports.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..registry import Case, Unmeasured, ros_is_missing, suite
from .ros_latency import DEFAULT, DOF, HORIZON, JOINTS, LARGE, LARGE_TARGET, PARAMETERS, rounds, sequences

PREPARED = "without settings"


@suite("ros_large")
def ros_large(quick: bool) -> Iterator[Case | Unmeasured]:
    if missing := ros_is_missing():
        yield Unmeasured("all cases of ros_large", missing)
        return
    from ..ros_processes import Transports, running

    shape = (LARGE, HORIZON, DOF)
    settings = {
        PREPARED: Transports(prepared_for=shape),
        "client unprepared": Transports(prepared_for=shape, client_prepares=False),
        DEFAULT: Transports(),
    }
    parameters = {**PARAMETERS, "warmup": [f"{LARGE}x{HORIZON}"]}
    for name, transports in settings.items():
        with running(JOINTS, parameters, transports) as processes:
            least = LARGE_TARGET if name == PREPARED else None
            yield sequences(processes, name, LARGE, rounds=rounds(quick, LARGE), least_ratio=least)
