"""The monitor's view of a node."""

from __future__ import annotations

from types import SimpleNamespace

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
    "rejected.invalid_dt": "0",
}


def test_the_line_tells_all_of_it() -> None:
    view = NodeView("/left/traj_integrator")
    view.update(STATUS, "rejected 3 x not_finite", 1)
    view.topics["/joint_states"] = SimpleNamespace(per_second=lambda: 1000.0)
    assert one_line(view) == (
        "/left/traj_integrator WARN (rejected 3 x not_finite) active device=cpu backend=native sequences=100 "
        "published=90 p50=0.500ms p99=1.250ms service_calls=7 service_p50=none service_p99=none state_age=0.021s "
        "/joint_states=1000/s rejected: unknown_joint=7 not_finite=3"
    )
    view.update({**STATUS, "state_age_s": "none"}, "active", 0)
    assert " OK active " in one_line(view) and "state_age=none " in one_line(view)
    view.received_at -= 60.0
    assert " silent for 60 s active " in one_line(view)


def test_only_statuses_of_this_node_are_taken() -> None:
    assert is_integrator(STATUS) and not is_integrator({"lifecycle_state": "active", "temperature": "41"})
