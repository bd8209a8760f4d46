"""What goes wrong while a motion runs: streams that end, nodes that go, clocks that jump. The robot comes to rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from node_fixtures import ClientFactory, NodeFactory
from rosgraph_msgs.msg import Clock
from streamed_robot import DT_S, HORIZON, PARAMETERS, SECOND_NS, StreamedRobot

from traj_integrator_ros.traffic.messages import sequence, set_stamp
from traj_integrator_ros.traffic.node_process import NodeProcess
from traj_integrator_ros.traffic.ros_client import RosClient

pytestmark = [pytest.mark.ros, pytest.mark.slow]


@pytest.fixture
def process(start_node: NodeFactory) -> NodeProcess:
    return start_node(PARAMETERS)


@pytest.fixture
def robot(process: NodeProcess, connect: ClientFactory) -> Iterator[StreamedRobot]:
    """A robot at rest that has a node of its own."""
    client = connect()
    client.wait_until_active()
    robot = StreamedRobot(client)
    with robot.measured():
        client.spin(0.3)
        yield robot
    robot.assert_guided()


def test_a_stream_that_ends_in_motion_and_resumes(robot: StreamedRobot) -> None:
    for rounds in (1, 2):
        with robot.streaming():
            pass
        robot.wait_until_at_rest()
        assert int(robot.client.counts()["brakes"]) >= rounds
    assert robot.client.counts()["rejected"] == "0"


def test_joint_states_that_end_stop_the_stream(start_node: NodeFactory, connect: ClientFactory) -> None:
    """Nobody knows whether the robot follows: it is braked, and sequences are rejected until there are new ones."""
    start_node({**PARAMETERS, "state_timeout": 0.5})
    client = connect()
    client.wait_until_active()
    robot, joint_states = StreamedRobot(client), ExitStack()
    joint_states.enter_context(robot.measured())
    client.spin(0.3)
    with robot.streaming():
        joint_states.close()
        robot.wait_until_at_rest()
        assert int(client.counts()["rejected.state_too_old"]) > 0
        with robot.measured():
            robot.wait_until_moving()
    robot.assert_guided()


def test_a_node_that_is_deactivated_while_the_robot_moves(robot: StreamedRobot) -> None:
    client = robot.client
    with robot.streaming():
        assert client.change_state("deactivate")
        robot.wait_until_at_rest()
        assert int(client.counts()["rejected.not_active"]) > 0
        assert client.change_state("activate")
        robot.wait_until_moving()
    robot.wait_until_at_rest()


def test_a_node_that_is_killed_while_the_robot_moves_and_started_again(
    robot: StreamedRobot, process: NodeProcess
) -> None:
    with robot.streaming():
        process.kill()
        robot.wait_until_at_rest()
        process.start()
        robot.client.wait_until_active()
        robot.wait_until_moving()
    robot.wait_until_at_rest()


class Simulation:
    """Time that runs as the real one does but for its jumps, and a robot that rests at 0 in it."""

    def __init__(self, client: RosClient) -> None:
        self.client, self.offset_s = client, 1000.0 - time.monotonic()
        self._clock = client.node.create_publisher(Clock, "/clock", 10)
        self.measures = True
        client.wait_for(self._clock.get_subscription_count, "the node listens to /clock", 20.0)

    @property
    def now_ns(self) -> int:
        return round((time.monotonic() + self.offset_s) * 1e9)

    def tick(self) -> None:
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(self.now_ns, SECOND_NS)
        self._clock.publish(message)
        if self.measures:
            self.client.publish_state([0.0] * 3, stamp_ns=self.now_ns)

    def send(self) -> None:
        """A chunk that sets off gently, and ends in motion."""
        rows = 0.1 * (np.arange(1, HORIZON + 1) * DT_S)[:, None] ** 2 * np.ones(3)
        message = sequence(rows[None], dt=[DT_S])
        set_stamp(message, self.now_ns)
        self.client.sequences.publish(message)


@pytest.mark.parametrize("jump_s", [-100.0, -1.0, 100.0])
def test_a_clock_that_jumps_while_a_motion_runs(start_node: NodeFactory, connect: ClientFactory, jump_s: float) -> None:
    start_node({**PARAMETERS, "use_sim_time": True, "limits.start_deviation": 0.0, "state_timeout": 0.5})
    reason = f"rejected.{'clock_jumped_back' if jump_s < 0 else 'state_too_old'}"
    client = connect()
    client.wait_until_active()
    simulation = Simulation(client)
    with client.periodically(0.01, simulation.tick):
        client.spin(1.0)
        client.trajectories.clear()
        before = int(client.counts()[reason])
        simulation.send()
        client.wait_for(lambda: client.trajectories, "a motion", 20.0)
        simulation.measures = False
        simulation.offset_s += jump_s
        client.spin(0.2)
        simulation.send()
        client.wait_for(lambda: int(client.counts()[reason]) > before, "the jump told", 20.0)
        simulation.measures = True
        client.spin(0.3)
        client.trajectories.clear()
        sent_ns = simulation.now_ns
        simulation.send()
        client.wait_for(lambda: client.trajectories, "served after the jump", 20.0)
        stamp = client.trajectories[-1].header.stamp
        start_ns = stamp.sec * SECOND_NS + stamp.nanosec
        assert sent_ns - SECOND_NS < start_ns < simulation.now_ns + SECOND_NS, "it starts by the clock as it is now"
        assert int(client.counts()["rejected.internal_error"]) == 0
