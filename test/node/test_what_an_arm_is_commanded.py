"""A controller's commands to an arm that a node moves: within limits, without steps, and to the end.

Every way to stop, to start and to stream is a case of test/soak/test_stream_cases.py, which plays it to the node's
processing on a simulated clock. Here is what depends on the node: its topics, services, parameters, supervision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from node_fixtures import JOINTS, PARAMETERS, plan
from preloaded_process import PreloadedNode
from ros_client import RosClient
from ruckig import InputParameter, Ruckig, Trajectory
from simulated_arm import RATE, Limits, SimulatedArm
from trajectory_msgs.msg import JointTrajectory

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
LIMITS = Limits(2.0, 10.0, 100.0)
USUAL = {
    "start_from": "measured",
    "state_timeout": 0.5,
    "supervision.deviation": 0.05,
    "limits.position_min": [-6.0] * DOF,
    "limits.position_max": [6.0] * DOF,
    "limits.velocity": [LIMITS.velocity] * DOF,
    "limits.acceleration": [LIMITS.acceleration] * DOF,
    "limits.jerk": [LIMITS.jerk] * DOF,
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
    assert not arm.refused, arm.refused
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
        arm.run(seconds, 0.1, lambda: arm.client.sequences.publish(velocities(speed, 20)))
        if abs(arm.commands[-1, 1, 0] - speed) < 0.05:
            break
    assert abs(arm.commands[-1, 1, 0] - speed) < 0.05, "the arm is on its way"


def test_a_node_and_an_executor_command_the_same_bits(make_arm: MakeArm) -> None:
    parameters = {"start_from": "previous", "limits.action": "retime"}
    arm = make_arm(**{name.replace(".", "__"): value for name, value in parameters.items()})
    executor = Executor(NodeParameters.from_values(default_values() | PARAMETERS | USUAL | parameters))
    random, beginning_ns, compared = np.random.default_rng(0), arm.now_ns, 0
    for period in range(200):
        arm.run(0.02)  # with a report at its end
        position, velocity = arm.robot.measured()
        executor.joint_state(position, velocity, arm.now_ns)
        executor.report(ControllerReport(arm.now_ns, State(*arm.robot.controller_state()[0]).known), arm.now_ns)
        assert executor.tick(arm.now_ns) is None
        if period % 5:
            continue
        times = (arm.now_ns - beginning_ns) / SECOND_NS + 0.05 * np.arange(1, 17)
        rows = 0.4 * (1 - np.cos(2 * times[:, None])) * [1.0, -0.5, 0.3] + random.normal(0, 5e-4, (16, DOF))
        message = sequence(rows[None], dt=[0.05], control_space=POSITION)
        set_stamp(message, arm.now_ns)
        arm.client.state()  # by its answer, the node knows the last report
        arm.client.sequences.publish(message)
        arm.client.wait_for(lambda count=compared: len(arm.client.trajectories) > count, "the trajectory of a chunk")
        made = executor.execute(Actions(arm.now_ns, POSITION, 0.05, rows), arm.now_ns)
        sent = fields_of(arm.client.trajectories[-1])
        compared += 1
        assert sent["stamp_ns"] == made.stamp_ns
        assert (sent["time_ns"] == made.points.time_ns).all()
        for name, values in zip(("positions", "velocities", "accelerations"), made.points[1:], strict=True):
            np.testing.assert_array_equal(sent[name], values, name)
    assert compared == 40


DIALECTS = {
    "sequence": {},
    "times": {"position_trajectory.end": "stream"},
    "no times": {"position_trajectory.without_times": "chunk"},
    "increments": {"relative_to": ["observation", "step", "none"]},
}


def in_dialect(dialect: str, rows: np.ndarray, seen: np.ndarray) -> ActionSequence | JointTrajectory:
    """Rows `[N, 3]` that are 20 ms apart, as a message; `seen` is the joint state at its stamp."""
    if dialect in ("times", "no times"):
        return plan(0.02 * np.arange(1, len(rows) + 1) * (dialect == "times"), rows)
    if dialect == "increments":
        rows = np.stack([rows[:, 0] - seen[0], np.diff(rows[:, 1], prepend=seen[1]), rows[:, 2]], axis=1)
    return sequence(rows[None], dt=[0.02], control_space=POSITION)


def commanded_in(arm: SimulatedArm, dialect: str) -> np.ndarray:
    """Positions that are commanded of chunks at 10 Hz, made of what was seen 80 ms before, `[cycles, 3]`."""
    arm.robot.quantization = 2**-12  # so that the numbers of messages are exact, and their differences, too
    seen, stamp_ns = arm.robot.measured()[0], arm.now_ns
    for period in range(60):
        arm.run(0.02)
        if period % 5 == 4:
            times = (stamp_ns - arm.begin_ns) / SECOND_NS - 0.4 + 0.02 * np.arange(1, 33)
            rows = np.round(0.4 * (1 - np.cos(2 * times[:, None])) * [1.0, -0.5, 0.3] * 2**20) / 2**20
            message, answers = in_dialect(dialect, rows, seen), len(arm.client.trajectories)
            set_stamp(message, stamp_ns)
            arm.client.state()  # by its answer, the node knows the last report
            is_sequence = isinstance(message, ActionSequence)
            (arm.client.sequences if is_sequence else arm.client.plans).publish(message)
            arm.client.wait_for(lambda count=answers: len(arm.client.trajectories) > count, "a trajectory")
        if period % 5 == 0:
            seen, stamp_ns = arm.robot.measured()[0], arm.now_ns
    return arm.commands[:, 0]


def test_the_same_rows_command_the_same_motion_in_each_dialect(make_arm: MakeArm) -> None:
    commanded = {}
    for dialect, own in DIALECTS.items():
        given = {"start_from": "previous", "limits.action": "retime", **own}
        commanded[dialect] = commanded_in(make_arm(**{key.replace(".", "__"): given[key] for key in given}), dialect)
    expected = commanded["sequence"]
    assert np.ptp(expected, axis=0).min() > 0.1
    for dialect, positions in commanded.items():
        np.testing.assert_allclose(positions, expected, rtol=0, atol=1e-9, err_msg=dialect)


def test_fast_plans_and_paths_without_times_keep_their_paths(make_arm: MakeArm) -> None:
    arm = make_arm(limits__action="retime", position_trajectory__without_times="path")
    before = int(arm.client.counts()["slowed"])
    share = np.arange(1, 61)[:, None] / 60
    way = 2 * (10 * share**3 - 15 * share**4 + 6 * share**5)
    too_fast = sequence((way * [1.0, 0.1, 0.0])[None], dt=[0.01], control_space=POSITION)  # up to 6 rad/s
    arm.client.sequences.publish(too_fast)
    arm.run(3.5)
    arm.assert_within(LIMITS)
    arm.assert_at_rest()
    np.testing.assert_allclose(arm.commands[:, 0, 1], 0.1 * arm.commands[:, 0, 0], atol=1e-3)
    assert abs(arm.position[0] - way[-1, 0]) < 0.02 and int(arm.client.counts()["slowed"]) == before + 1
    begin, path = arm.cycles, arm.position + np.array([[0.0, 0.0, 0.0], [0.5, 0.3, 0.0], [0.6, -0.2, 0.4]])
    arm.client.plans.publish(plan([0.0] * 3, path))
    arm.run(5.0)
    arm.assert_within(LIMITS, begin)
    arm.assert_at_rest()
    commanded = arm.commands[begin:]
    assert np.abs(commanded[:, 0] - path[1]).max(axis=1).min() < 0.01
    np.testing.assert_allclose(arm.position, path[-1], atol=1e-6)
    assert np.abs(commanded[:, 2]).max() > 0.9 * LIMITS.acceleration, "as fast as they allow"


def test_a_path_that_is_passed_with_rests_is_said_to_be(make_arm: MakeArm, node: NodeProcess) -> None:
    arm = make_arm(position_trajectory__without_times="path")
    before = int(arm.client.counts().get("warned.not_fastest", 0))
    there = arm.position + np.array([[0.0, 0.0, 0.0], [0.3, -0.2, -0.3], [0.7, -0.5, -0.7]])
    for doubled in (0, 1):  # the row at the turn, within noise: the bend of the path jumps there
        path = np.concatenate([there, there[-1:].repeat(doubled, 0) + np.array([0.0, 1e-5, 0.0]), there[-2::-1]])
        arm.client.plans.publish(plan([0.0] * len(path), path))
        arm.run(4.0)
        arm.assert_at_rest()
        assert int(arm.client.counts().get("warned.not_fastest", 0)) - before == doubled
    assert "published in spite of not_fastest: points: the fastest motion was not found; this one rests" in node.output


def one_old_state(arm: SimulatedArm) -> None:
    arm.client.publish_state(*arm.robot.measured(), stamp_ns=arm.now_ns - SECOND_NS // 5)


def transitions(*names: str) -> Callable[[SimulatedArm], None]:
    def pass_them(arm: SimulatedArm) -> None:
        for name in names:
            assert arm.client.change_state(name)
        arm.client.wait_until_connected()

    return pass_them


def let_the_clock_jump(arm: SimulatedArm, seconds: int = -1) -> None:
    """For every node except those of the arm and its controller."""
    arm.now_ns += seconds * SECOND_NS
    arm.begin_ns += seconds * SECOND_NS


FORGETFUL = {
    "one old joint state": one_old_state,
    "deactivate and activate": transitions("deactivate", "activate"),
    "from configure on": transitions("deactivate", "cleanup", "configure", "activate"),
    "the clock goes back": let_the_clock_jump,
}


@pytest.mark.parametrize("what", FORGETFUL)
def test_nothing_but_a_release_ends_a_hold(make_arm: MakeArm, what: str) -> None:
    arm = make_arm()
    get_going(arm, 0.4, 0.8)
    assert arm.client.call(Stop, "stop", Stop.Request(hold=True)).success
    arm.run(0.8)
    where = arm.position[0]
    FORGETFUL[what](arm)
    arm.run(1.0, 0.1, lambda: arm.client.sequences.publish(velocities(0.4, 20)))
    assert arm.position[0] == where and arm.client.counts()["held"] == "yes"
    assert arm.client.call(Stop, "stop", Stop.Request(hold=False)).success
    arm.run(1.0, 0.1, lambda: arm.client.sequences.publish(velocities(0.4, 20)))
    assert arm.position[0] > where + 0.05, "released, it moves again"


@pytest.mark.parametrize(
    ("seconds", "reason"), [(-100, "clock_jumped_back"), (-1, "clock_jumped_back"), (100, "state_too_old")]
)
def test_after_a_jump_of_the_clock_the_stream_goes_on(make_arm: MakeArm, seconds: int, reason: str) -> None:
    def send() -> None:
        chunk = velocities(0.4, 20)
        set_stamp(chunk, arm.now_ns)
        arm.client.sequences.publish(chunk)

    arm = make_arm(start_from="previous")
    arm.run(1.0, 0.1, send)
    before = int(arm.client.counts()[f"rejected.{reason}"])
    arm.robot.reading = False
    let_the_clock_jump(arm, seconds)
    arm.run(0.2, 0.1, send)
    assert int(arm.client.counts()[f"rejected.{reason}"]) > before
    arm.robot.reading = True
    arm.run(2.5, 0.1, send)
    assert abs(arm.commands[-1, 1, 0] - 0.4) < 0.02
    arm.assert_within(LIMITS)


@pytest.mark.parametrize("stop", [True, False], ids=["by the service", "by itself"])
def test_what_was_published_is_braked_without_further_reports(make_arm: MakeArm, stop: bool) -> None:
    arm = make_arm()
    arm.client.sequences.publish(velocities(0.5, 64))  # 3.2 s
    arm.run(1.0)
    assert arm.commands[-1, 1, 0] > 0.45
    arm.reporting, begin, where = False, arm.cycles, arm.position[0]
    if stop:
        arm.run(0.16)
        answer = arm.client.call(Stop, "stop", Stop.Request())
        assert answer.success and "braking" in answer.message
        begin, where = arm.cycles, arm.position[0]
    arm.run(1.3)
    arm.assert_at_rest()
    arm.assert_within(LIMITS, begin)
    # 0.5 s of silence, the lead, a period of the supervision or two of real time, and a brake of 0.15 s.
    assert arm.position[0] - where < 0.5 * (0.0 if stop else 0.5) + 0.5 * (0.12 + 0.1 + 0.15 / 2) + 0.05


def test_the_stop_service_says_how_long_and_how_far(make_arm: MakeArm) -> None:
    arm = make_arm()
    arm.robot.lag = 50
    get_going(arm)
    answer = arm.client.call(Stop, "stop", Stop.Request(hold=True))
    begin, where = arm.cycles, arm.robot.measured()[0][0]
    assert answer.success and list(answer.joint_names) == list(JOINTS)
    arm.run(1.0)
    moving = np.abs(arm.commands[begin:, 1, 0]) > 1e-6
    # The answer counts from the call; the arm's time stands still until the answer comes.
    assert abs(answer.duration - moving.sum() / RATE) < 0.15
    travels = arm.robot.measured()[0][0] - where
    assert answer.distance[0] == pytest.approx(travels, rel=0.1), "of the joint, which lags by 0.1 s"
    assert 0.15 < answer.distance[0] < 0.4 and abs(answer.distance[1]) < 1e-6
    # On hold, sequences are refused until the release.
    status = arm.client.status()
    assert status.level == status.ERROR and "hold" in status.message
    where = arm.position[0]
    arm.client.sequences.publish(velocities(0.3, 10))
    arm.run(0.6)
    assert arm.position[0] == where
    released = arm.client.call(Stop, "stop", Stop.Request(hold=False))
    assert released.success and released.duration == 0.0
    arm.client.sequences.publish(velocities(0.3, 10))
    arm.run(0.8)
    assert arm.position[0] > where + 0.05
    arm.assert_within(LIMITS)


def test_limits_lowered_in_motion_hold_at_once(make_arm: MakeArm) -> None:
    arm = make_arm(limits__action="retime")
    get_going(arm)
    assert arm.client.set_atomically(limits__velocity=[0.3] * DOF) == (True, "")
    lowered = arm.cycles
    arm.run(1.0)
    arm.assert_at_rest()
    going = arm.cycles
    arm.run(1.5, 0.1, lambda: arm.client.sequences.publish(velocities(1.0, 20)))
    arm.assert_within(LIMITS)
    speeds = np.abs(arm.commands[:, 1]).max(axis=1)
    on_its_way_s = 0.1
    brake = round(RATE * (USUAL["publish.lead_time"] + LIMITS.velocity / LIMITS.acceleration + on_its_way_s))
    assert speeds[lowered - 5] > 0.9 and speeds[lowered + brake :].max() <= 0.3 * 1.002
    assert speeds[going:].max() > 0.25, "slowed chunks are executed"


@pytest.mark.parametrize("on_reject", ["brake", "continue"])
def test_a_refused_chunk_brakes_if_that_is_what_it_means(make_arm: MakeArm, on_reject: str) -> None:
    arm = make_arm(publish__on_reject=on_reject)
    arm.client.sequences.publish(velocities(0.5, 40))  # two seconds of motion
    arm.run(1.0)
    arm.client.sequences.publish(velocities(5.0, 40))
    begin = arm.position[0]
    arm.run(0.7)
    arm.assert_within(LIMITS)
    assert (arm.position[0] - begin < 0.2) == (on_reject == "brake")


def positions(arm: SimulatedArm, begin: np.ndarray, begin_ns: int, speed: float) -> ActionSequence:
    """A chunk of positions from now on, on a way of the first joint that began at a time."""
    into = (arm.now_ns - begin_ns) / SECOND_NS + 0.04 * np.arange(1, 25)
    chunk = sequence((begin + into[:, None] * row(speed))[None], dt=[0.04], control_space=POSITION)
    set_stamp(chunk, arm.now_ns)
    return chunk


def test_an_arm_that_meets_a_wall_slowly_lets_go_and_comes_back_at_once(make_arm: MakeArm) -> None:
    arm = make_arm(start_from="previous")
    begin, begin_ns, brakes = arm.position, arm.now_ns, int(arm.client.counts()["supervision_brakes"])
    arm.robot.wall, seen = 0.05, []
    for _ in range(9):
        arm.run(0.2, 0.1, lambda: arm.client.sequences.publish(positions(arm, begin, begin_ns, 0.1)))
        seen.append(arm.client.status())
        arm.robot.frozen = arm.robot.measured()[0][0] == arm.robot.wall  # it sticks there
    errors = [status for status in seen if status.level == status.ERROR]
    assert errors and "joint_a" in errors[0].message and "deviation" in errors[0].message
    assert arm.commands[:, 0, 0].max() - arm.robot.wall < 0.1 * 0.6, "it is noticed within 0.6 s"
    np.testing.assert_allclose(arm.position[0], arm.robot.wall, atol=16e-3, err_msg="nothing presses on")
    share = np.linspace(0.0, 1.0, 11)
    way = (1 - share**3 * (10 - 15 * share + 6 * share**2))[:, None] * arm.robot.measured()[0]
    arm.client.plans.publish(plan((1.0 * share).tolist(), way))
    arm.run(0.6)
    assert arm.robot.measured()[0][0] - arm.position[0] > 10e-3, "it is held back"
    arm.robot.frozen = False  # it springs to its command, which is no deviation
    arm.run(2.0)
    np.testing.assert_allclose(arm.position, 0.0, atol=1e-3, err_msg="the first plan from where it is leads back")
    assert int(arm.client.counts()["supervision_brakes"]) == brakes + 1
    arm.assert_within(LIMITS)


def test_play_stiction_and_a_coarse_encoder_are_no_deviation(make_arm: MakeArm) -> None:
    arm = make_arm(start_from="previous")
    arm.robot.lag, arm.robot.play, arm.robot.quantization = round(0.09 * RATE), 0.035, 1.5e-3
    begin_ns, brakes = arm.now_ns, int(arm.client.counts()["supervision_brakes"])

    def send() -> None:
        times = (arm.now_ns - begin_ns) / SECOND_NS + 0.04 * np.arange(1, 25)
        ways = 0.06 * np.minimum(times, 1.0) * np.sin(2 * times)  # a first motion is small and slow
        chunk = sequence((ways[:, None] * [0.0, 1.0, -1.0])[None], dt=[0.04], control_space=POSITION)
        set_stamp(chunk, arm.now_ns)
        arm.client.sequences.publish(chunk)

    arm.run(3.0, 0.1, send)
    assert np.ptp(arm.commands[:, 0, 1]) > 0.09 and int(arm.client.counts()["supervision_brakes"]) == brakes


def test_a_planner_that_replans_from_the_command_reaches_its_goal(make_arm: MakeArm) -> None:
    limits = Limits(2.175, 15.0, 7500.0)
    given = {f"limits__{name}": [most] * DOF for name, most in limits._asdict().items()}
    arm, goal = make_arm(start_from="previous", publish__lead_time=0.02, **given), -0.6

    def send() -> None:
        """The planner knows no acceleration of the command."""
        request, way = InputParameter(1), Trajectory(1)
        request.max_velocity, request.max_acceleration, request.max_jerk = [0.81], [3.0], [60.0]
        position, velocity = arm.commands[-1, :2, 0]
        request.current_position, request.current_velocity = [position], [float(np.clip(velocity, -0.8, 0.8))]
        request.target_position = [goal]
        Ruckig(1).calculate(request, way)
        rows = [row(way.at_time(min(time, way.duration))[0][0]) for time in 0.05 * np.arange(1, 21)]
        chunk = sequence(np.array([rows]), dt=[0.05], control_space=POSITION)
        set_stamp(chunk, arm.now_ns)
        arm.client.sequences.publish(chunk)
        arm.client.state()  # answers come in time, however busy the machine

    arm.run(2.5, 0.05, send)
    assert abs(arm.position[0] - goal) < 0.01 and arm.commands[:, 0, 0].min() > goal - 0.05
    arm.assert_within(limits)


def test_rows_away_from_the_command_are_joined_within_limits_or_refused(make_arm: MakeArm) -> None:
    arm = make_arm(start_from="previous", limits__start_deviation=0.2)
    refused = int(arm.client.counts()["rejected.start_mismatch"])
    for away, most in ((0.7, 0.0), (0.15, LIMITS.velocity)):
        way = arm.position + row(away), arm.now_ns, 0.1
        arm.run(1.0, 0.1, lambda way=way: arm.client.sequences.publish(positions(arm, *way)))
        assert np.abs(arm.commands[-RATE:, 1]).max() <= 1.001 * most, away
    arm.assert_within(LIMITS)
    assert int(arm.client.counts()["rejected.start_mismatch"]) >= refused + 9
    assert arm.commands[-1, 1, 0] > 0.09, "the rows that are near are joined"


def test_an_arm_that_sagged_in_an_emergency_stop_is_not_brought_back(make_arm: MakeArm) -> None:
    arm = make_arm(start_from="previous", limits__action="retime")
    begin, begin_ns = arm.position, arm.now_ns

    def send() -> None:
        arm.client.sequences.publish(positions(arm, begin, begin_ns, 0.3))

    arm.run(0.6, 0.1, send)
    assert arm.commands[-1, 1, 0] > 0.25
    sagged, refused = arm.position - [0.7, 0.0, 0.4], int(arm.client.counts()["rejected.start_mismatch"])
    arm.is_off = True
    arm.robot.set_state(sagged)
    arm.run(0.3, 0.1, send)
    arm.robot.restart()
    arm.is_off, restarted = False, arm.cycles
    arm.run(0.8, 0.1, send)
    np.testing.assert_allclose(arm.commands[restarted:, 0], sagged[None].repeat(arm.cycles - restarted, 0), atol=1e-6)
    assert int(arm.client.counts()["rejected.start_mismatch"]) > refused
    begin, begin_ns = sagged, arm.now_ns
    arm.run(0.6, 0.1, send)
    assert arm.commands[-1, 1, 0] > 0.25, "a plan from where it is goes"
    arm.assert_within(LIMITS, restarted)


def test_committed_rows_are_what_is_commanded_then(make_arm: MakeArm) -> None:
    arm = make_arm(start_from="previous")
    get_going(arm, 0.5)
    stamp_ns, dt = arm.now_ns - 100_000_000, 0.02
    request = Committed.Request(dt=dt, rows=20, rows_before=10)
    request.stamp.sec, request.stamp.nanosec = divmod(stamp_ns, SECOND_NS)
    answer = arm.client.call(Committed, "committed", request)
    assert answer.success and answer.executing, answer.message
    arm.run(0.6)
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


def test_a_hand_that_leads_an_arm_at_rest_is_told_and_the_command_stands(make_arm: MakeArm) -> None:
    arm = make_arm()
    get_going(arm, 0.3)
    arm.run(1.5)
    arm.robot.frozen, seen, stands = True, [], arm.position
    for _ in range(10):
        arm.robot._place = arm.robot._place + row(0.037)
        arm.run(0.1)
        seen.append(arm.client.status())
    led = arm.robot.measured()[0]
    told = [status for status in seen if status.level == status.ERROR]
    assert told and "joint_a is 0.0" in told[0].message
    errors = {value.key: value.value for value in told[0].values}["tracking_error"].split()
    assert len(errors) == DOF and float(errors[0]) > 0.05
    arm.run(1.5)
    assert arm.client.status().level != told[0].level
    assert led[0] - stands[0] > 0.2
    np.testing.assert_allclose(arm.position, stands, atol=0.1 + 1e-3, err_msg="it goes back once, by 0.1 at most")
    arm.robot.frozen = False
