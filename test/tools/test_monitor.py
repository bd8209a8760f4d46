"""The monitor's view of a node."""

from __future__ import annotations

from traj_integrator_ros.tools.monitor import NodeView, is_integrator, one_line

STATUS = {
    "lifecycle_state": "active",
    "device": "cpu",
    "backend": "native",
    "state_age_s": "0.021",
    "sequences": "100",
    "published": "90",
    "service_calls": "7",
    "rejected": "10",
    "sequence_latency_p50_ms": "0.500",
    "sequence_latency_p99_ms": "1.250",
    "service_latency_p50_ms": "none",
    "service_latency_p99_ms": "none",
    "rejected.not_finite": "3",
    "rejected.unknown_joint": "7",
}


def test_the_line_tells_all_of_it() -> None:
    view = NodeView("/left/traj_integrator")
    view.update(STATUS, "rejected 3 x not_finite", 1)
    for told in ("WARN (rejected 3 x not_finite) active", "p99=1.250ms", "rejected: unknown_joint=7 not_finite=3"):
        assert told in one_line(view)
    view.received_at -= 60.0
    assert " silent for 60 s " in one_line(view)
    assert is_integrator(STATUS) and not is_integrator({"lifecycle_state": "active", "temperature": "41"})
