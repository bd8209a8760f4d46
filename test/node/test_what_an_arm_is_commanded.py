"""A controller's commands to an arm that a node moves: within limits, without steps, and to the end.

Every way to stop, to start and to stream is a case of test/governor and test/soak, which play it to the node's
processing on a simulated clock: the first test shows that the node commands the same bits, in whichever dialect a
chunk comes. The others are about what depends on the node: its services, parameters, transitions and clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from node_fixtures import JOINTS, PARAMETERS, plan
from preloaded_process import PreloadedNode
from ros_client import RosClient
from simulated_arm import RATE, SimulatedArm

from kit.controller import fields_of
from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, Stop
from traj_integrator_ros.client import SECOND_NS, sequence, set_stamp
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.governor.executor import Actions, ControllerReport, Executor, NodeParameters
from traj_integrator_ros.parameters.parameters import default_values

pytestmark = [pytest.mark.ros, pytest.mark.slow]
DOF = len(JOINTS)
LIMITS = {"v": 2.0, "a": 10.0, "j": 100.0}
USUAL = {
    "dt": 0.02,
    "start_from": "measured",
    "state_timeout": 0.5,
    "supervision.deviation": 0.05,
    "limits.position_min": [-6.0] * DOF,
    "limits.position_max": [6.0] * DOF,
    "limits.velocity": [LIMITS["v"]] * DOF,
    "limits.acceleration": [LIMITS["a"]] * DOF,
    "limits.jerk": [LIMITS["j"]] * DOF,
    "limits.assumed_velocity": 0.0,
    "limits.start_deviation": 0.1,
    "limits.action": "reject",
    "position_trajectory.end": "goal",
    "position_trajectory.without_times": "refuse",
    "relative_to": [],
    "publish.bridge_time": 0.2,
    "publish.lead_time": 0.12,  # test machines are busy
    "publish.on_reject": "continue",
}
POSITION, VELOCITY = ActionSequence.POSITION, ActionSequence.VELOCITY
MakeArm = Callable[..., SimulatedArm]


@pytest.fixture(scope="module")
def node(report_type: type, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    parameters = PARAMETERS | USUAL | {"warmup": ["1x16"], "use_sim_time": True}
    process = PreloadedNode(tmp_path_factory.mktemp("arm"), parameters)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def arm_of_node(node: NodeProcess, report_type: type) -> Iterator[SimulatedArm]:
    client = RosClient(JOINTS)
    client.wait_until_active()
    yield SimulatedArm(client, report_type)
    client.close()


@pytest.fixture
def make_arm(node: NodeProcess, arm_of_node: SimulatedArm) -> Iterator[MakeArm]:
    """Makes the arm, connected to a node with these parameters."""
    arm, client = arm_of_node, arm_of_node.client

    def make(**parameters: object) -> SimulatedArm:
        assert client.change_state("deactivate")
        assert client.set_atomically(**{**USUAL, **parameters}) == (True, "")
        assert client.change_state("activate")
        client.wait_until_connected()
        arm.begin()
        return arm

    yield make
    assert not arm.unfit, arm.unfit
    assert node.is_running(), node.output
    assert "internal_error" not in node.output, node.output


def velocities(speed: float, count: int) -> ActionSequence:
    """Velocities of the first joint alone, in steps of 50 ms."""
    return sequence(np.tile(row(speed), (1, count, 1)), dt=[0.05], control_space=VELOCITY)


def row(value: float) -> list[float]:
    """A row that moves the first joint alone."""
    return [value, 0.0, 0.0]


def get_going(arm: SimulatedArm, speed: float = 1.0, seconds: float = 1.5) -> None:
    """Have the first joint move at a speed, by chunks of velocities at 10 Hz."""
    for _ in range(3):  # on a busy machine, the first messages are answered late
        arm.go(seconds, 0.1, lambda: arm.client.sequences.publish(velocities(speed, 20)))
        if abs(arm.commands[-1, 1, 0] - speed) < 0.05:
            break
    assert abs(arm.commands[-1, 1, 0] - speed) < 0.05, f"expected the arm on its way: {arm.client.status().message}"


STEP_S = 0.05
PERIODS_SEEN = 3
"""Number of periods of 20 ms before which a chunk's observation was made."""


def as_increments(rows: np.ndarray, seen: np.ndarray) -> tuple[ActionSequence, np.ndarray]:
    """From the observation, from the step before, and absolute."""
    off = rows[:, 0] - seen[0], np.diff(rows[:, 1], prepend=seen[1]), rows[:, 2]
    sent = np.column_stack(off).astype(np.float32).astype(float)
    meant = np.column_stack([seen[0] + sent[:, 0], seen[1] + sent[:, 1].cumsum(), sent[:, 2]])
    return sequence(sent[None], control_space=POSITION), meant


DIALECTS = {
    "sequence": (lambda rows, _: (sequence(rows[None], control_space=POSITION), rows), {}),
    "increments": (as_increments, {"relative_to": ["observation", "step", "none"]}),
    "times": (lambda rows, _: (plan(STEP_S * np.arange(1, 17), rows), rows), {}),
    "no times": (
        lambda rows, _: (plan(np.zeros(16), rows), rows),
        {"position_trajectory.without_times": "chunk"},
    ),
}
"""Messages of rows, given the observation, with the rows that they mean, and parameters."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_node_and_an_executor_command_the_same_bits(make_arm: MakeArm, dialect: str) -> None:
    message_of, own = DIALECTS[dialect]
    usual = {"start_from": "previous", "limits.action": "retime", "position_trajectory.end": "stream", "dt": STEP_S}
    arm = make_arm(**{name.replace(".", "__"): value for name, value in (usual | own).items()})
    executor = Executor(NodeParameters.from_values(default_values() | PARAMETERS | USUAL | usual))
    random, beginning_ns, seen = np.random.default_rng(0), arm.now_ns, []
    chunks = 40 if dialect == "sequence" else 12
    for period in range(5 * chunks):
        arm.go(0.02)  # with a report at its end
        position, velocity = arm.robot.measured()
        seen.append((arm.now_ns, position.copy()))
        executor.joint_state(position, velocity, arm.now_ns)
        executor.report(ControllerReport(arm.now_ns, State(*arm.robot.controller_state()[0]).known), arm.now_ns)
        assert executor.tick(arm.now_ns) is None
        if period % 5 != 4:
            continue
        stamp_ns, observation = seen[-1 - PERIODS_SEEN]
        times = (stamp_ns - beginning_ns) / SECOND_NS + STEP_S * np.arange(1, 17)
        rows = 0.4 * (1 - np.cos(2 * times[:, None])) * [1.0, -0.5, 0.3] + random.normal(0, 5e-4, (16, DOF))
        message, meant = message_of(rows.astype(np.float32).astype(float), observation)
        set_stamp(message, stamp_ns)
        arm.client.state()  # by its answer, the node knows the last report
        before = len(arm.client.trajectories)
        (arm.client.sequences if isinstance(message, ActionSequence) else arm.client.plans).publish(message)
        arm.client.wait_for(lambda count=before: len(arm.client.trajectories) > count, "the trajectory of a chunk")
        made = executor.execute(Actions(stamp_ns, POSITION, 0.0, meant), arm.now_ns)
        sent = fields_of(arm.client.trajectories[-1])
        assert sent["stamp_ns"] == made.stamp_ns
        assert (sent["time_ns"] == made.points.time_ns).all()
        for name, values in zip(("positions", "velocities", "accelerations"), made.points[1:], strict=True):
            np.testing.assert_array_equal(sent[name], values, name)


def transitions(*names: str) -> Callable[[SimulatedArm], None]:
    def pass_them(arm: SimulatedArm) -> None:
        for name in names:
            assert arm.client.change_state(name)
        arm.client.wait_until_connected()

    return pass_them


FORGETFUL = {
    "from configure on": transitions("deactivate", "cleanup", "configure", "activate"),
    "the clock goes back": lambda arm: arm.jump(-1),
}


@pytest.mark.parametrize("what", FORGETFUL)
def test_nothing_but_a_release_ends_a_hold(make_arm: MakeArm, what: str) -> None:
    arm = make_arm()
    get_going(arm, 0.4, 0.8)
    assert arm.client.call(Stop, "stop", Stop.Request(hold=True)).success
    arm.go(0.8)
    where = arm.place[0]
    FORGETFUL[what](arm)
    arm.go(1.0, 0.1, lambda: arm.client.sequences.publish(velocities(0.4, 20)))
    assert arm.place[0] == where and arm.client.counts()["held"] == "yes"
    released = arm.client.call(Stop, "stop", Stop.Request(hold=False))
    assert released.success and released.duration == 0.0
    arm.go(1.0, 0.1, lambda: arm.client.sequences.publish(velocities(0.4, 20)))
    assert arm.place[0] > where + 0.05, "released, it moves again"
    arm.assert_within(LIMITS)


@pytest.mark.parametrize(
    ("seconds", "reason"), [(-1, "clock_jumped_back"), pytest.param(100, "state_too_old", marks=pytest.mark.thorough)]
)
def test_after_a_jump_of_the_clock_the_stream_goes_on(make_arm: MakeArm, seconds: int, reason: str) -> None:
    def send() -> None:
        chunk = velocities(0.4, 20)
        set_stamp(chunk, arm.now_ns)
        arm.client.sequences.publish(chunk)

    arm = make_arm(start_from="previous")
    arm.go(1.0, 0.1, send)
    before = int(arm.client.counts()[f"rejected.{reason}"])
    arm.speaking = False
    arm.jump(seconds)
    arm.go(0.2, 0.1, send)
    assert int(arm.client.counts()[f"rejected.{reason}"]) > before
    arm.speaking = True
    arm.go(2.5, 0.1, send)
    assert abs(arm.commands[-1, 1, 0] - 0.4) < 0.02
    arm.assert_within(LIMITS)


def test_what_was_published_is_braked_without_further_reports(make_arm: MakeArm) -> None:
    arm = make_arm()
    arm.client.sequences.publish(velocities(0.5, 64))  # 3.2 s
    arm.go(1.0)
    assert arm.commands[-1, 1, 0] > 0.45
    arm.reporting, begin, where = False, arm.cycles, arm.place[0]
    arm.go(1.3)
    arm.assert_at_rest()
    arm.assert_within(LIMITS, begin)
    # 0.5 s of silence, the lead, a period of the supervision or two of real time, and a brake of 0.15 s.
    assert arm.place[0] - where < 0.5 * (0.5 + 0.12 + 0.1 + 0.15 / 2) + 0.05


def test_the_stop_service_says_how_long_and_how_far(make_arm: MakeArm) -> None:
    arm = make_arm()
    arm.robot.lag = 50
    get_going(arm)
    answer = arm.client.call(Stop, "stop", Stop.Request())
    begin, where = arm.cycles, arm.robot.measured()[0][0]
    assert answer.success and list(answer.joint_names) == list(JOINTS)
    arm.go(1.0)
    moving = np.abs(arm.commands[begin:, 1, 0]) > 1e-6
    # The answer counts from the call; the arm's time stands still until the answer comes.
    assert abs(answer.duration - moving.sum() / RATE) < 0.15
    travels = arm.robot.measured()[0][0] - where
    assert answer.distance[0] == pytest.approx(travels, rel=0.1), "of the joint, which lags by 0.1 s"
    assert 0.15 < answer.distance[0] < 0.4 and abs(answer.distance[1]) < 1e-6
    arm.assert_within(LIMITS)


def test_committed_rows_are_what_is_commanded_then(make_arm: MakeArm) -> None:
    arm = make_arm(start_from="previous")
    get_going(arm, 0.5)
    stamp_ns, dt = arm.now_ns - 100_000_000, 0.02
    request = Committed.Request(dt=dt, rows=20, rows_before=10)
    request.stamp.sec, request.stamp.nanosec = divmod(stamp_ns, SECOND_NS)
    answer = arm.client.call(Committed, "committed", request)
    assert answer.success and answer.executing, answer.message
    arm.go(0.6)
    commands, times = arm.commands, arm.begin_ns + (np.arange(arm.cycles) + 2) * SECOND_NS // RATE
    rows = np.asarray(answer.position).reshape(20, DOF)
    before = np.asarray(answer.commanded_position).reshape(10, DOF)
    for found, first in ((rows, 0), (before, -10)):
        due = stamp_ns + (first + np.arange(len(found))) * round(dt * 1e9)
        expected = np.interp(due, times, commands[:, 0, 0])
        assert np.abs(found[:, 0] - expected).max() < 1e-4
    now_ns = answer.now.sec * SECOND_NS + answer.now.nanosec
    fixed = (now_ns + answer.lead * 1e9 - stamp_ns) / (dt * 1e9)
    assert answer.committed == int(fixed) + 1 and answer.lead >= 0.12
    measured = np.asarray(answer.measured_position).reshape(10, DOF)[:, 0]
    assert np.abs(measured - before[:, 0]).max() < 5e-3
