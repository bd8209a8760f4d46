"""The monitor's view of a node."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest

from traj_integrator_ros.tools.monitor import NodeView, bars, is_integrator, one_line, panel

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
    "warned.limits_violated": "2",
}


@pytest.fixture
def view() -> NodeView:
    view = NodeView("/left/traj_integrator")
    view.update({**STATUS, "sequences": "80", "sequence_latency_p99_ms": "none"}, "active", 0, now=100.0)
    view.update(STATUS, "rejected 3 x not_finite", 1, now=102.0)
    return view


def test_rates_are_between_two_messages_and_reasons_by_count(view: NodeView) -> None:
    assert view.rates["sequences"] == 10.0 and view.rates["published"] == 0.0
    assert list(view.latencies_ms) == [1.25]
    assert view.silent_for() == pytest.approx(time.monotonic() - 102.0, abs=1.0)
    assert list(view.counts("rejected").items()) == [("unknown_joint", 7), ("not_finite", 3)]
    assert view.counts("warned") == {"limits_violated": 2}
    view.update({**STATUS, "sequences": "1"}, "active", 0, now=103.0)  # the node was started again
    assert view.rates["sequences"] == 0.0


def test_the_line_and_the_panel_tell_all_of_it(view: NodeView) -> None:
    console = pytest.importorskip("rich.console", reason="rich is not installed")
    view.topics["/joint_states"] = SimpleNamespace(per_second=lambda: 1000.0)
    line = one_line(view)
    output = io.StringIO()
    console.Console(file=output, width=140, force_terminal=False).print(panel(view))
    for text in (line, output.getvalue()):
        for part in (view.name, "active", "cpu", "1.250", "unknown_joint", "1000", "rejected 3 x not_finite"):
            assert part in text, part
    assert "21 ms old" in output.getvalue() and "limits_violated (published nevertheless)" in output.getvalue()


def test_only_statuses_of_this_node_are_taken_with_relative_bars() -> None:
    assert is_integrator(STATUS) and not is_integrator({"lifecycle_state": "active", "temperature": "41"})
    assert bars([1.0, 4.0, 8.0]) == "▂▅█" and bars([]) == "" == bars([0.0])


def test_values_not_yet_measured_have_no_unit_and_service_calls_are_shown(view: NodeView) -> None:
    line = one_line(view)
    assert "p99=1.250ms service_calls=7 service_p50=none service_p99=none state_age=0.021s" in line
    view.update({**STATUS, "state_age_s": "none"}, "active", 0, now=103.0)
    assert "state_age=none rejected" in " ".join(one_line(view).split())
