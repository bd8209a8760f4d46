"""What a controller commands to an arm, whatever is sent to the node: within limits, without steps, and to the end.

Every way to stop, to start and to stream is a case of test/soak/test_stream_cases.py, which plays it to the node's
processing on a simulated clock. Here is what depends on the node: its topics, services, parameters, counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from node_fixtures import JOINTS, PARAMETERS, plan
from simulated_arm import RATE, Limits, SimulatedArm, SimulatedClock
from trajectory_msgs.msg import JointTrajectory

from soak.streams.model import Models
from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, Stop
from traj_integrator_ros.traffic.messages import sequence, set_stamp
from traj_integrator_ros.traffic.node_process import NodeProcess
from traj_integrator_ros.traffic.ros_client import RosClient

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
    "limits.continuous": ["joint_c"],  # rclpy cannot set an empty list: none that any test moves by a turn but that one
    "limits.action": "reject",
    "publish.bridge_time": 0.2,
    "publish.lead_time": 0.12,  # test machines are busy
    "publish.on_reject": "continue",
}
POSITION, VELOCITY = ActionSequence.POSITION, ActionSequence.VELOCITY
MakeArm = Callable[..., SimulatedArm]


@pytest.fixture(scope="module")
def node(models: Models, report_type: type, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    # Not one of the preloaded nodes, whose process has looked for control_msgs already.
    parameters = PARAMETERS | USUAL | {"warmup": ["1x16"], "use_sim_time": True}
    process = NodeProcess(tmp_path_factory.mktemp("arm"), parameters)
    yield process
    process.close()


@pytest.fixture(scope="module")
def module_client(node: NodeProcess) -> Iterator[RosClient]:
    client = RosClient(JOINTS)
    client.wait_until_active()
    yield client
    client.close()


@pytest.fixture(scope="module")
def clock(module_client: RosClient) -> SimulatedClock:
    return SimulatedClock(module_client)


@pytest.fixture
def make_arm(
    node: NodeProcess, module_client: RosClient, clock: SimulatedClock, models: Models, report_type: type
) -> Iterator[MakeArm]:
    """Makes the arm that the node is connected to: parameters of the node, whether it reports, options of the plant."""
    arms: list[SimulatedArm] = []

    def make(parameters: dict[str, object] | None = None, *, reports: bool = True, **options: object) -> SimulatedArm:
        assert module_client.change_state("deactivate")
        accepted, why = module_client.set_atomically(**{**USUAL, **(parameters or {})})
        assert accepted, why
        assert module_client.change_state("activate")
        arms.append(SimulatedArm(module_client, clock, models.plant, report_type if reports else None, **options))
        arms[-1].wait_until_known()
        return arms[-1]

    yield make
    for arm in arms:
        arm.close()
        assert not arm.refused, arm.refused
    assert node.is_running(), node.output
    assert "internal_error" not in node.output, node.output


def velocities(rows: np.ndarray | list, dt: float, stamp_ns: int = 0) -> ActionSequence:
    message = sequence(np.atleast_2d(rows)[None], dt=[dt], control_space=VELOCITY)
    set_stamp(message, stamp_ns)
    return message


def positions(rows: np.ndarray, dt: float, stamp_ns: int = 0, **start: object) -> ActionSequence:
    message = sequence(np.atleast_2d(rows)[None], dt=[dt], control_space=POSITION, **start)
    set_stamp(message, stamp_ns)
    return message


def points(times_s: list[float], rows: list[list[float]], stamp_ns: int = 0) -> JointTrajectory:
    message = plan(times_s, rows)
    set_stamp(message, stamp_ns)
    return message


def row(value: float) -> list[float]:
    """The first joint alone."""
    return [value, 0.0, 0.0]


def get_going(arm: SimulatedArm, speed: float = 1.0, seconds: float = 1.5) -> None:
    """Have the first joint move at a speed, by chunks of velocities at 10 Hz."""
    rows = np.tile(row(speed), (20, 1))
    for _ in range(3):  # on a busy machine, the first messages are answered late
        arm.run(seconds, 0.1, lambda _: arm.client.sequences.publish(velocities(rows, 0.05)))
        if abs(arm.commands[-1, 1, 0] - speed) < 0.05:
            break
    assert abs(arm.commands[-1, 1, 0] - speed) < 0.05, "the arm is on its way"


# What begins away from the command, or in the past


@pytest.mark.parametrize(("late_s", "reports"), [(1.0, True), (1.0, False)])
def test_a_plan_stamped_in_the_past_is_entered_where_it_is_now_or_refused(
    make_arm: MakeArm, late_s: float, reports: bool
) -> None:
    arm = make_arm(reports=reports)
    times = np.linspace(0.0, 2.0, 21)
    way = [row(0.4 * float(t * t * (3 - 2 * t))) for t in times / 2]
    arm.client.plans.publish(points(times.tolist(), way, arm.clock.now_ns - round(late_s * 1e9)))
    arm.run(3.5)
    arm.assert_within(LIMITS)
    arm.assert_at_rest()
    assert abs(arm.position[0]) < 1e-6 or abs(arm.position[0] - 0.4) < 1e-6


@pytest.mark.parametrize(
    ("message", "reports"),
    [
        (lambda: points([0.0], [row(0.09)]), True),
        (lambda: positions(np.tile(row(0.09), (4, 1)), 0.02, position=row(0.09), velocity=row(0.0)), False),
    ],
    ids=["one point", "a start"],
)
def test_what_begins_away_from_the_robot_is_joined(
    make_arm: MakeArm, message: Callable[[], object], reports: bool
) -> None:
    arm = make_arm(reports=reports)
    made = message()
    (arm.client.plans if isinstance(made, JointTrajectory) else arm.client.sequences).publish(made)
    arm.run(1.5)
    arm.assert_within(LIMITS)
    arm.assert_at_rest()
    assert abs(arm.position[0] - 0.09) < 1e-6


# What limits decide about times


@pytest.mark.parametrize("moving", [False, True])
def test_a_plan_beyond_limits_is_slowed_along_its_path(make_arm: MakeArm, moving: bool) -> None:
    arm = make_arm({"limits.action": "retime"})
    if moving:
        get_going(arm)
    share = np.arange(1, 61)[:, None] / 60
    speed, where = (1.0, arm.position[0] + 0.12) if moving else (0.0, 0.0)  # in publish.lead_time
    way = where + 0.6 * speed * share * (1 - share) ** 3 + 2 * (10 * share**3 - 15 * share**4 + 6 * share**5)
    begin, before = arm.cycles, int(arm.client.counts()["slowed"])
    arm.client.sequences.publish(positions(way * [1.0, 0.1, 0.0], 0.01))  # up to 6 rad/s
    arm.run(3.5)
    arm.assert_within(LIMITS, begin)
    arm.assert_at_rest()
    assert abs(arm.position[0] - way[-1, 0]) < 0.02
    assert int(arm.client.counts()["slowed"]) == before + 1
    if not moving:
        commanded = arm.commands[begin:, 0]
        np.testing.assert_allclose(commanded[:, 1], 0.1 * commanded[:, 0], atol=1e-4)


@pytest.mark.parametrize("moving", [False, True])
def test_a_path_without_times_is_passed_within_limits(make_arm: MakeArm, moving: bool) -> None:
    arm = make_arm()
    if moving:
        get_going(arm)
    begin, here = arm.cycles, np.asarray(arm.position)
    path = here + np.array([[0.0, 0.0, 0.0], [0.5, 0.3, 0.0], [0.6, -0.2, 0.4]])
    arm.client.plans.publish(points([0.0] * 3, path))
    arm.run(5.0)
    arm.assert_within(LIMITS, begin)
    arm.assert_at_rest()
    commanded = arm.commands[begin:]
    assert np.abs(commanded[:, 0] - path[1]).max(axis=1).min() < 0.01
    np.testing.assert_allclose(arm.position, path[-1], atol=1e-6)
    assert np.abs(commanded[:, 2]).max() > 0.9 * LIMITS.acceleration, "as fast as they allow"


# First messages


@pytest.mark.parametrize(("speed", "reports"), [(0.3, True), (0.1, False)])
def test_a_stream_of_velocities_begins_from_rest_within_limits(make_arm: MakeArm, speed: float, reports: bool) -> None:
    arm = make_arm({"limits.acceleration": [7.5] * DOF}, reports=reports)
    rows = np.tile(row(speed), (8, 1))
    arm.run(2.0, 0.02, lambda _: arm.client.sequences.publish(velocities(rows, 0.02)))
    arm.assert_within(Limits(2.0, 7.5, 100.0))
    assert abs(arm.commands[-1, 1, 0] - speed) < 1e-3, "it is not stuck"


# Stops


def _velocity_of_0(arm: SimulatedArm) -> None:
    arm.client.sequences.publish(velocities(np.zeros((1, DOF)), 0.02))


def _hold_here(arm: SimulatedArm) -> None:
    arm.client.plans.publish(points([0.0], [arm.position.tolist()]))


def _service(arm: SimulatedArm) -> None:
    assert arm.client.call(Stop, "stop", Stop.Request()).success


@pytest.mark.parametrize(
    ("stop", "longest", "reports"),
    [
        (_velocity_of_0, 0.35, True),
        (_hold_here, 0.6, False),  # there and back
        (_service, 0.35, True),
        (_service, 0.35, False),
    ],
    ids=["velocity 0", "one point", "~/stop", "~/stop without reports"],
)
def test_every_way_to_stop_stops(
    make_arm: MakeArm, stop: Callable[[SimulatedArm], None], longest: float, reports: bool
) -> None:
    arm = make_arm(reports=reports)
    get_going(arm)
    begin = arm.cycles
    stop(arm)
    arm.run(1.2)
    arm.assert_at_rest()
    arm.assert_within(LIMITS)
    travelled = np.abs(np.diff(arm.commands[begin:, 0, 0])).sum()
    assert travelled < longest, "the fastest stop from 1 rad/s is 0.1 rad long"


def test_the_stop_service_says_how_long_and_how_far(make_arm: MakeArm) -> None:
    arm = make_arm()
    get_going(arm)
    answer = arm.client.call(Stop, "stop", Stop.Request(hold=True))
    begin, where = arm.cycles, arm.position[0]
    assert answer.success and list(answer.joint_names) == list(JOINTS)
    arm.run(1.0)
    moving = np.abs(arm.commands[begin:, 1, 0]) > 1e-6
    # The answer counts from the call; the arm's time stands still until the answer is here.
    assert abs(answer.duration - moving.sum() / RATE) < 0.15
    assert abs(answer.distance[0] - (arm.position[0] - where)) < 0.1
    assert 0.05 < answer.distance[0] < 0.3 and abs(answer.distance[1]) < 1e-6
    # Held: refused until it is released.
    status = arm.client.status()
    assert status.level == status.ERROR and "hold" in status.message
    where = arm.position[0]
    arm.client.sequences.publish(velocities(np.tile(row(0.3), (10, 1)), 0.05))
    arm.run(0.6)
    assert arm.position[0] == where
    released = arm.client.call(Stop, "stop", Stop.Request(hold=False))
    assert released.success and released.duration == 0.0
    arm.client.sequences.publish(velocities(np.tile(row(0.3), (10, 1)), 0.05))
    arm.run(0.8)
    assert arm.position[0] > where + 0.05
    arm.assert_within(LIMITS)


@pytest.mark.parametrize("on_reject", ["brake", "continue"])
def test_a_refused_chunk_brakes_if_that_is_what_it_means(make_arm: MakeArm, on_reject: str) -> None:
    arm = make_arm({"publish.on_reject": on_reject})
    rows = np.tile(row(0.5), (40, 1))
    arm.client.sequences.publish(velocities(rows, 0.05))  # two seconds of it
    arm.run(1.0)
    arm.client.sequences.publish(velocities(np.tile(row(5.0), (40, 1)), 0.05))
    begin = arm.position[0]
    arm.run(0.7)
    arm.assert_within(LIMITS)
    assert (arm.position[0] - begin < 0.2) == (on_reject == "brake")


# What the robot and its controller do by themselves


def test_after_a_restart_of_the_controller_the_motion_begins_anew_from_where_it_holds(make_arm: MakeArm) -> None:
    arm, off_s = make_arm({"start_from": "previous"}), 0.15
    begin_ns = arm.clock.now_ns

    def send(_: float) -> None:
        now_ns = arm.clock.now_ns
        into = (now_ns - begin_ns) * 1e-9
        rows = [row(0.4 * max(into + 0.05 * k - 0.3, 0.0)) for k in range(1, 17)]
        arm.client.sequences.publish(positions(np.array(rows), 0.05, now_ns))

    arm.run(1.5, 0.1, send)
    arm.switch_off(off_s)
    restart = arm.cycles
    arm.run(off_s + 1.5, 0.1, send)
    commands = arm.commands[restart + round(off_s * RATE) + 2 :]
    assert np.abs(np.diff(commands[:, 0], axis=0)).max() * RATE < 1.05, "no step"
    assert np.abs(np.diff(commands[:, 1], axis=0)).max() * RATE <= LIMITS.acceleration * 1.02
    plan = 0.4 * ((arm.clock.now_ns - begin_ns) * 1e-9 - 0.3)
    assert abs(arm.position[0] - plan) < 0.05, "it has caught up"


def test_a_robot_that_stands_still_is_noticed_and_goes_on_when_it_rests(make_arm: MakeArm) -> None:
    arm = make_arm()
    get_going(arm, 0.3)
    arm.robot.frozen = True
    rows = np.tile(row(0.3), (20, 1))
    seen = []
    for _ in range(5):
        arm.run(0.2, 0.1, lambda _: arm.client.sequences.publish(velocities(rows, 0.05)))
        seen.append(arm.client.status())
    errors = [status for status in seen if status.level == status.ERROR]
    assert errors and "joint_a" in errors[0].message and "deviation" in errors[0].message
    ahead = arm.position[0] - arm.robot.measured()[0][0]
    assert ahead < 0.05 + 0.3 * 0.2 + 0.06, "the command does not run away"
    arm.robot.frozen = False
    arm.run(1.5)
    begin = arm.cycles
    arm.run(1.5, 0.1, lambda _: arm.client.sequences.publish(velocities(rows, 0.05)))
    assert abs(arm.commands[-1, 1, 0] - 0.3) < 0.02, "without a restart of the node"
    arm.assert_within(LIMITS, begin)


def test_joint_states_that_end_end_the_stream(make_arm: MakeArm) -> None:
    arm = make_arm({"start_from": "previous", "state_timeout": 0.2})
    get_going(arm, 0.5)
    arm.robot.reading = False
    begin, rows = arm.cycles, np.tile(row(0.5), (20, 1))
    rejected = int(arm.client.counts()["rejected"])
    arm.run(1.5, 0.1, lambda _: arm.client.sequences.publish(velocities(rows, 0.05)))
    arm.assert_at_rest()
    arm.assert_within(LIMITS)
    assert np.abs(np.diff(arm.commands[begin:, 0, 0])).sum() < 0.5, "0.2 s, and a brake"
    assert int(arm.client.counts()["rejected"]) > rejected


# Chunks


def test_chunks_of_an_exact_plan_are_executed_as_the_plan(make_arm: MakeArm) -> None:
    arm = make_arm({"start_from": "previous"})
    begin_ns = arm.clock.now_ns

    def planned(into: np.ndarray) -> np.ndarray:
        into = np.maximum(into - 0.5, 0.0)
        return 0.4 * (1 - np.cos(1.5 * into))

    def send(_: float) -> None:
        observed_ns = arm.clock.now_ns
        arm.run(0.05)  # inference
        into = (observed_ns - begin_ns) * 1e-9
        rows = planned(into + 0.1 * np.arange(1, 17))[:, None] * np.array(row(1.0))
        arm.client.sequences.publish(positions(rows, 0.1, observed_ns))

    arm.run(4.0, 0.1, send)
    arm.assert_within(LIMITS)
    commands = arm.commands
    times = (arm.begin_ns - begin_ns) * 1e-9 + (np.arange(len(commands)) + 2) / RATE
    apart = np.abs(commands[:, 0, 0] - planned(times))[times > 1.5]
    assert apart.max() < 3e-3, "the plan's own spline is 2.4 mrad from it"


def test_an_older_chunk_after_a_newer_one_changes_nothing(make_arm: MakeArm) -> None:
    arm = make_arm({"start_from": "previous"})
    now_ns = arm.clock.now_ns
    ahead = np.array([row(0.01 * k) for k in range(1, 33)])
    arm.client.sequences.publish(positions(ahead, 0.05, now_ns))
    arm.run(0.4)
    before = int(arm.client.counts()["out_of_order"])
    arm.client.sequences.publish(positions(-ahead, 0.05, now_ns - 100_000_000))
    arm.run(1.0)
    arm.assert_within(LIMITS)
    assert arm.position[0] > 0.1
    assert int(arm.client.counts()["out_of_order"]) == before + 1


# Limits


def test_without_any_limit_nothing_is_commanded(make_arm: MakeArm) -> None:
    unlimited = {f"limits.{what}": [np.inf] * DOF for what in ("velocity", "acceleration", "jerk")}
    arm = make_arm(unlimited)
    arm.client.sequences.publish(positions(np.array([row(1.0)]), 0.02))
    arm.run(0.8)
    assert not arm.trajectories and np.abs(arm.commands).max() == 0
    status = arm.client.status()
    assert status.level == status.WARN and "limits.assumed_velocity" in status.message
    assert int(arm.client.counts()["rejected.no_limits"]) >= 1


def test_a_continuous_joint_takes_the_short_way(make_arm: MakeArm) -> None:
    unlimited = {"limits.position_min": [-3.0, -3.0, -np.inf], "limits.position_max": [3.0, 3.0, np.inf]}
    arm = make_arm(unlimited)
    way = np.linspace(0.0, 0.5, 26)
    arm.client.sequences.publish(positions(np.array([[0, 0, v - 2 * np.pi] for v in way[1:]]), 0.04))
    arm.run(2.5)
    arm.assert_within(LIMITS)
    arm.assert_at_rest()
    assert 0.49 < arm.commands[-1, 0, 2] < 0.75


# What a policy is told


def test_committed_rows_are_what_is_commanded_then(make_arm: MakeArm) -> None:
    arm = make_arm({"start_from": "previous"})
    get_going(arm, 0.5)
    stamp_ns, dt = arm.clock.now_ns - 100_000_000, 0.02
    request = Committed.Request(dt=dt, rows=20, rows_before=10)
    request.stamp.sec, request.stamp.nanosec = divmod(stamp_ns, 10**9)
    answer = arm.client.call(Committed, "committed", request)
    assert answer.success and answer.executing, answer.message
    arm.run(0.6)
    commands, times = arm.commands, arm.begin_ns + (np.arange(arm.cycles) + 2) * 10**9 // RATE
    rows = np.asarray(answer.position).reshape(20, DOF)
    before = np.asarray(answer.commanded_position).reshape(10, DOF)
    for found, first in ((rows, 0), (before, -10)):
        due = stamp_ns + (first + np.arange(len(found))) * round(dt * 1e9)
        expected = np.interp(due, times, commands[:, 0, 0])
        assert np.abs(found[:, 0] - expected).max() < 1e-4
    now_ns = answer.now.sec * 10**9 + answer.now.nanosec
    fixed = (now_ns + answer.lead * 1e9 - stamp_ns) / (dt * 1e9)
    assert answer.committed == int(fixed) + 1 and answer.lead >= 0.12
    measured = np.asarray(answer.measured_position).reshape(10, DOF)[:, 0]
    assert np.abs(measured - before[:, 0]).max() < 5e-3
