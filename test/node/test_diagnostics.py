"""The node's diagnostics, and the throttling of its log."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib.util import find_spec

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from node_fixtures import NodeServer
from rclpy.serialization import deserialize_message
from rosgraph_msgs.msg import Clock

from traj_integrator_ros.governor.controller_reports import ControllerStatus
from traj_integrator_ros.governor.executed import ExecutionReport
from traj_integrator_ros.governor.grips import Grip, Grips
from traj_integrator_ros.governor.monitor import TrackingMonitor
from traj_integrator_ros.governor.robot_clock import RobotClock
from traj_integrator_ros.governor.supervision import Guard
from traj_integrator_ros.limits.joint_limits import AssumedLimits
from traj_integrator_ros.node import accounts
from traj_integrator_ros.node.accounts import Accounts, ThrottledLog
from traj_integrator_ros.node.diagnostics import Diagnostics, NodeStatus
from traj_integrator_ros.parameters.parameters import NodeParameters, default_values
from traj_integrator_ros.requests.rejection import RejectionReason

OK, WARN, ERROR, STALE = (getattr(DiagnosticStatus, level) for level in ("OK", "WARN", "ERROR", "STALE"))


def status(
    rejected: RejectionReason | None = None,
    warned: RejectionReason | None = None,
    guard: Mapping[str, object] | None = None,
    lacking: tuple[str, ...] = (),
    assumed: str = "",
    **changes: object,
) -> NodeStatus:
    """The status of an active node, whose reason counts twice; changes apply to parameters, or to the status."""
    accounts, watched = Accounts(None), Guard()
    for counters, reason in ((accounts.rejected, rejected), (accounts.warned, warned)):
        if reason is not None:
            counters[reason] += 2
    vars(watched).update(guard or {})
    values = {**default_values(), "joint_names": ["joint_b"], "state_timeout": 0.5, "start_from": "previous"}
    values |= {name: changes.pop(name) for name in values.keys() & changes.keys()}
    usual = NodeStatus(
        lifecycle_state="active", failure="", accounts=accounts, execution=ExecutionReport(),
        guard=watched, controller=ControllerStatus.UNKNOWN, device="cpu", backend="reference",
        parameters=NodeParameters.from_values(values), assumed=AssumedLimits(None, lacking, assumed), state_age_s=0.1,
        clock=RobotClock(),
    )  # fmt: skip
    return dataclasses.replace(usual, **changes)


def clock_that_is(ahead_s: float) -> RobotClock:
    """A robot's clock that is ahead of the node's; its stamps take 0.4 ms to arrive."""
    clock, hour_ns = RobotClock(), 3600 * 10**9
    for arrived_ns in (10**12, 10**12 + 4 * 10**7):
        clock.read(arrived_ns + hour_ns, arrived_ns)
        clock.take(clock.reports, arrived_ns + hour_ns + round(ahead_s * 1e9) - 400_000, arrived_ns)
    return clock


def told_by(diagnostics: Diagnostics, given: NodeStatus) -> DiagnosticStatus:
    message = deserialize_message(diagnostics.message(given, (1, 2)), DiagnosticArray)
    assert (message.header.stamp.sec, message.header.stamp.nanosec, message.header.frame_id) == (1, 2, "")
    [told] = message.status
    assert (told.name, told.hardware_id) == ("node", given.robot)
    return told


def level_and_text(given: NodeStatus) -> tuple[bytes, str]:
    told = told_by(Diagnostics("node"), given)
    return told.level, told.message


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({}, OK, "active"),
        ({"state_age_s": None}, OK, "active, no joint state yet"),
        ({"lifecycle_state": "inactive"}, WARN, "inactive: input is not accepted"),
        ({"rejected": RejectionReason.NOT_FINITE}, WARN, "rejected 2 x not_finite"),
        ({"execution": ExecutionReport(late=2)}, WARN, "2 x late"),
        ({"execution": ExecutionReport(late=1, starved=3)}, WARN, "1 x late, 3 x starved"),
        ({"execution": ExecutionReport(starved=3), "start_from": "measured"}, OK, "active"),
        ({"execution": ExecutionReport(late=1, starved=3), "start_from": "measured"}, WARN, "1 x late"),
        ({"execution": ExecutionReport(out_of_order=2)}, WARN, "2 x out_of_order"),
        ({"clock": clock_that_is(0.015)}, OK, "active"),
        ({"clock": clock_that_is(0.06)}, WARN, "the robot's clock is 0.060 s ahead of this node's"),
        (
            {"clock": clock_that_is(-0.06)},
            WARN, "the robot's clock is 0.060 s behind this node's, unless its stamps take so long",
        ),
        ({"warned": RejectionReason.LIMITS}, WARN, "published in spite of 2 x limits_violated"),
        ({"state_age_s": 2.0}, STALE, "joint state is 2.00 s old (state_timeout 0.5 s)"),
        ({"state_age_s": 2.0, "state_timeout": 0.0}, OK, "active"),
        ({"rejected": RejectionReason.INTERNAL_ERROR}, ERROR, "2 x internal_error"),
        ({"rejected": RejectionReason.OUT_OF_DEVICE_MEMORY}, ERROR, "2 x out_of_device_memory"),
        (
            {"guard": {"reason": "joint_a is 0.2 away from its command"}, "state_age_s": 2.0},
            ERROR, "braked: joint_a is 0.2 away from its command; sequences are rejected until the robot rests",
        ),
        (
            {"guard": {"held": True}},
            ERROR, "stopped: sequences are rejected until ~/stop is called with hold: false",
        ),
        (
            {"controller_was": frozenset({ControllerStatus.RESTARTED})},
            WARN, "controller restarted: it was restarted, aborted the motion, or refused it, and holds its position",
        ),
        ({"controller": ControllerStatus.EXECUTING}, OK, "active"),
        (
            {"lacking": ("joint_b",), "rejected": RejectionReason.NO_LIMITS},
            WARN, "no limit of velocity for joint_b: nothing is published for a controller (give limits.velocity, "
            "a URDF or limits.assumed_velocity)",
        ),
        (
            {"lifecycle_state": "unconfigured", "failure": "configure failed: no joints"},
            ERROR, "unconfigured: configure failed: no joints",
        ),
    ],
)  # fmt: skip
def test_levels_mean_what_operators_expect(changes: dict[str, object], level: bytes, text: str) -> None:
    assert level_and_text(status(**changes)) == (level, text)


def test_a_level_is_about_what_happened_since_the_message_before() -> None:
    diagnostics = Diagnostics("node")
    bad = status(rejected=RejectionReason.NOT_FINITE)
    levels = [told_by(diagnostics, given).level for given in (status(), bad, bad)]
    assert levels == [OK, WARN, OK]


def values_of(**changes: object) -> dict[str, str]:
    told = told_by(Diagnostics("node"), status(**changes))
    return {pair.key: pair.value for pair in told.values}


def test_every_reason_is_listed_with_its_count() -> None:
    values = values_of(rejected=RejectionReason.START_INDEX, warned=RejectionReason.START_MISMATCH)
    for reason in RejectionReason:
        assert values[f"rejected.{reason.value}"] == ("2" if reason is RejectionReason.START_INDEX else "0")
    assert values["rejected"] == "2"
    # Only limits.action = warn lets anything through, so there are no zeros of reasons that cannot occur.
    assert {key: value for key, value in values.items() if key.startswith("warned")} == {
        "warned.limits_violated": "0", "warned.start_mismatch": "2",
    }  # fmt: skip
    assert values["sequence_latency_p99_ms"] == "none"


def test_what_is_known_of_the_robot_and_its_motions_is_reported() -> None:
    monitor = TrackingMonitor()
    monitor.error, monitor.lag_s = np.array([0.0, -0.0123456]), 0.0321
    watched = {"monitor": monitor, "brakes": 2, "reason": "why", "held": True}
    known = {"controller": ControllerStatus.EXECUTING, "guard": watched, "assumed": "jerk"}
    for given, expected in (
        (known, ("executing", "0.012346", "32.1", "2", "why", "yes", "jerk")),
        ({}, ("unknown", "none", "none", "0", "no", "no", "none")),
    ):
        values = values_of(**given)
        keys = ("controller", "deviation_rad", "lag_ms", "supervision_brakes", "braked", "held", "assumed_limits")
        assert tuple(values[key] for key in keys) == expected
    values = values_of(execution=ExecutionReport((0.1, 0.2, 0.3), 0.0123, 0.015, 7, 1, 2, 3, 6, 8, 0.5))
    assert [values[f"seam_offset_{q}"] for q in ("position", "velocity", "acceleration")] == ["0.1", "0.2", "0.3"]
    leads = [values[f"lead_{name}_ms"] for name in ("margin_least", "margin_median")]
    assert leads == ["12.300", "15.000"]
    counts = ("dropped_steps", "late", "starved", "brakes", "out_of_order")
    assert [values[key] for key in (*counts, "slowed")] == ["7", "1", "2", "3", "6", "8"]
    assert values["slowed_by_s"] == "0.500"


@pytest.mark.parametrize("moves", [True, False])
def test_a_gripper_that_is_held_back_has_grasped_something_or_does_not_move(moves: bool) -> None:
    grips, where = Grips(), "joint_b at 0.02, commanded to 0"
    grips.held = (Grip(0, 0.02, 0.0, moves),)
    given = {"guard": {"grips": grips}}
    assert values_of(**given)["grasped"] == (where if moves else "none")
    said = (OK, "active") if moves else (WARN, f"the gripper does not move: {where}")
    assert level_and_text(status(**given)) == said


def test_a_flood_of_lines_becomes_one_and_the_next_line_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(accounts.time, "monotonic", lambda: now)
    lines: list[str] = []
    log = ThrottledLog(lines.append)
    for _ in range(1_000):
        log("NaN", "NaN came")
    log("Inf", "Inf came")
    now += accounts.QUIET_S
    log("NaN", "NaN came")
    assert lines == ["NaN came", "Inf came", "NaN came (999 more like it since the last such line)"]


@pytest.mark.skipif(find_spec("control_msgs") is not None, reason="control_msgs is installed")
def test_without_control_msgs_log_and_diagnostics_say_so(serve: NodeServer) -> None:
    process, client = serve()
    assert client.counts()["follow_joint_trajectory"] == "not offered: control_msgs is not installed"
    assert "~/follow_joint_trajectory is not offered: control_msgs is not installed" in process.output


@pytest.mark.ros
def test_states_that_come_before_the_time_of_a_simulation_are_read_then(serve: NodeServer) -> None:
    _, client = serve({"use_sim_time": True})
    now = Clock()
    now.clock.sec = 1000
    for _ in range(6):  # a timer may not fire at all where the machine is busy
        client.publish_state([0.0] * 3, stamp_ns=1000 * 10**9)
        client.spin(0.05)
    clock = client.publisher(Clock, "/clock")
    with client.periodically(0.02, lambda: clock.publish(now)):
        client.wait_for(lambda: client.counts()["state_age_s"] == "0.000", "a state of that time")
