"""The arm that LeRobot's robot moves, closed around the arm of the rig, without LeRobot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")


from lerobot_robot_ros2_control.arm import Arm
from node_fixtures import JOINTS, report_type
from simulated_arm import RATE, SimulatedArm
from test_what_an_arm_is_commanded import LIMITS, MakeArm, arm_of_node, make_arm, node

from traj_integrator_ros.client import SECOND_NS

__all__ = ["arm_of_node", "make_arm", "node", "report_type"]
pytestmark = [pytest.mark.ros, pytest.mark.slow]
ORDER = ("joint_c", "joint_a", "joint_b")
COLUMNS = [JOINTS.index(name) for name in ORDER]
PERIOD_S = 0.1
PERIOD_NS = round(PERIOD_S * SECOND_NS)
DELAY = 0.8
SIM_TIME = ("-p", "use_sim_time:=true")


def smooth(time_s: object) -> np.ndarray:
    """A motion `[times, joints]` in the order of the policy, at rest at 0; its derivatives are known."""
    return 0.15 * (1 - np.cos(2 * np.pi * np.asarray(time_s)[..., None] / 4.0)) * np.array([0.5, 1.0, -0.7])


class Closed:
    """The arm as LeRobot's robot, and the simulated arm that it moves; the latter's time passes only in `play`."""

    def __init__(self, simulated: SimulatedArm) -> None:
        self.simulated = simulated
        with self._states():
            self.arm = Arm(ORDER, PERIOD_S, delay=DELAY, ros_arguments=SIM_TIME)
        self.begin = simulated.cycles

    def play(self, duration_s: float, period_s: float = PERIOD_S, send: Callable[[], None] | None = None) -> None:
        """Let the time pass, and call `send` periodically, once the arm's clock has the time.

        The node has received everything before the time goes on: it answers a call that the arm makes later.
        """

        def send_then() -> None:
            self._wait_for_clock()
            send()
            self.arm.prefix(self.simulated.now_ns, 1, 0.0)

        self.simulated.go(duration_s, period_s, send and send_then)

    def commanded(self, time_ns: int) -> np.ndarray:
        """The command for a time that has passed, in the order of the policy, rad."""
        cycle = (time_ns - self.simulated.begin_ns) * RATE // SECOND_NS - 2
        return self.simulated.commands[cycle, 0, COLUMNS]

    def _wait_for_clock(self) -> None:
        deadline = time.monotonic() + 10.0
        while self.arm.now_ns() < self.simulated.now_ns - PERIOD_NS // 5:
            assert time.monotonic() < deadline, "the clock arrives"
            self.simulated.tell_time()
            self.simulated.client.spin_once(0.01)

    @contextmanager
    def _states(self) -> Iterator[None]:
        """Publish joint states while the time stands still."""
        arm, client = self.simulated, self.simulated.client

        def tell() -> None:
            arm.tell_time()
            client.publish_state(*arm.robot.measured(), stamp_ns=arm.now_ns)

        over = Event()
        with client.periodically(0.02, tell), ThreadPoolExecutor(1) as threads:
            spinning = threads.submit(client.spin_until, over.is_set, None)
            try:
                yield
            finally:
                over.set()
            spinning.result()


@pytest.fixture
def closed(make_arm: MakeArm) -> Iterator[Callable[..., Closed]]:
    """Makes both arms for a node with these parameters."""
    made: list[Closed] = []

    def make(**parameters: object) -> Closed:
        made.append(Closed(make_arm(**parameters)))
        return made[-1]

    yield make
    for one in made:
        one.arm.close()


def test_single_actions_are_one_motion_less_than_a_period_later(closed: Callable[..., Closed]) -> None:
    both, due, sent = closed(publish__lead_time=0.04), [], []

    def act() -> None:
        now_ns = both.simulated.now_ns
        sent.append(smooth((len(sent) + 1) * PERIOD_S))
        both.arm.send(sent[-1])
        due.append(now_ns)

    both.play(5.0, PERIOD_S, act)
    both.simulated.assert_within(LIMITS, both.begin)
    assert (both.arm.pace.early, both.arm.pace.late) == (0, 0)
    # Each action is executed `DELAY` periods after it was meant. Between the clock's arrival and the call lies less
    # than a fifth of a period, at a speed of at most 0.15 * pi / 2 rad/s.
    times_ns = np.array(due[10:-6]) + round((1 + DELAY) * PERIOD_NS)
    found = np.array([both.commanded(at) for at in times_ns])
    np.testing.assert_allclose(found, sent[10:-6], atol=0.15 * np.pi / 2 * PERIOD_S / 5 + 2e-3)
    measured = both.simulated.robot.measured()[0][COLUMNS]
    assert np.abs(np.subtract.outer(measured, measured))[np.triu_indices(3, 1)].min() > 0.02, "their order matters"
    np.testing.assert_allclose(both.arm.observe()[0], measured, atol=0.15 * np.pi / 2 * PERIOD_S)
    # The policy's own motion has 0.15 (pi / 2)^2 = 0.37 rad/s2; stop and go would have 4 times its speed / period.
    assert np.abs(both.simulated.commands[both.begin :, 2]).max() < 2.5 * 0.15 * (np.pi / 2) ** 2


def test_actions_that_stop_coming_end_at_rest_and_later_ones_go_on(closed: Callable[..., Closed]) -> None:
    both, sent = closed(), []

    def act() -> None:
        sent.append(0.02 * (len(sent) + 1))
        both.arm.send(sent[-1] * np.ones(3))

    both.play(1.5, PERIOD_S, act)
    assert both.simulated.commands[-1, 1, 0] > 0.1, "it moves"
    both.play(1.5)
    both.simulated.assert_at_rest()
    where = both.simulated.place[0]
    assert where == pytest.approx(sent[-1], abs=2e-3), "at the last action"
    both.play(1.5, PERIOD_S, act)
    assert both.arm.pace.late == 1 and both.simulated.place[0] > where + 0.1
    both.simulated.assert_within(LIMITS, both.begin)


@pytest.mark.parametrize(
    ("given", "within"),
    [({}, LIMITS), ({"limits__acceleration": [], "limits__jerk": []}, {"v": 2.0, "a": 20.0, "j": 200.0})],
    ids=["all limits", "as in a URDF"],
)
@pytest.mark.parametrize("jump", [0.25, 0.55])
def test_an_action_that_jumps_is_blended_into_like_a_chunk(
    jump: float, given: dict[str, list], within: dict[str, float], closed: Callable[..., Closed]
) -> None:
    both, sent = closed(limits__start_deviation=0.3, **given), []

    def act() -> None:
        sent.append((0.02 * len(sent) + jump * (len(sent) >= 10)) * np.ones(3))
        both.arm.send(sent[-1])

    both.play(2.5, PERIOD_S, act)
    assert (both.arm.rejected, both.arm.pace.late) == (0, 0)
    assert 0.0 < sent[-1][0] - both.simulated.place[0] < (1 + DELAY) * 0.02, "less than two periods behind"
    both.simulated.assert_within(within, both.begin)


def test_the_prefix_of_a_chunk_is_what_is_executed_at_its_actions(closed: Callable[..., Closed]) -> None:
    both = closed()
    stamp_ns = both.simulated.now_ns
    both.arm.send_chunk(smooth(PERIOD_S * np.arange(1, 31)), stamp_ns)
    both.play(1.0)
    observed_ns = both.simulated.now_ns
    found = both.arm.prefix(observed_ns, 16, inference_s=2.5 * PERIOD_S)
    # The prefix has the rows within the lead of 0.12 s, and one for each period of the inference.
    assert found.shape == (int(0.12 / PERIOD_S) + 3, 3)
    assert both.arm.prefix(observed_ns, 2, inference_s=1.0).shape == (2, 3)
    both.arm.send_chunk(np.concatenate([found, found[-1] + np.zeros((12, 3))]), observed_ns)
    both.play(1.0)
    executed = [both.commanded(observed_ns + (k + 1) * PERIOD_NS) for k in range(len(found))]
    np.testing.assert_allclose(found, executed, atol=2e-3)
    assert np.abs(found).max() > 0.05


def test_what_the_node_rejects_is_counted(closed: Callable[..., Closed]) -> None:
    both = closed()
    both.arm.send_chunk(np.full((4, 3), np.nan), both.simulated.now_ns)
    both.play(0.2)
    both.simulated.client.wait_for(lambda: both.arm.rejected, "the rejection")
    assert both.arm.rejected == 1
    both.simulated.assert_at_rest()


def test_joint_states_that_stop_coming_are_an_error(closed: Callable[..., Closed]) -> None:
    both = closed()
    both.play(0.1)
    position, stamp_ns = both.arm.observe()
    np.testing.assert_allclose(position, 0.0, atol=1e-9)
    assert 0 <= both.simulated.now_ns - stamp_ns < SECOND_NS
    both.simulated.speaking = False
    both.play(0.8)
    both._wait_for_clock()
    with pytest.raises(TimeoutError, match=r"/joint_states: expected one every 0.5 s, the last one came 0\.\d s ago"):
        both.arm.observe()


def test_an_arm_without_joint_states_is_refused_with_their_names(make_arm: MakeArm) -> None:
    make_arm()
    with pytest.raises(TimeoutError, match=r"/nowhere: expected joint_a within 10 s"):
        Arm(["joint_a"], PERIOD_S, joint_states="/nowhere", ros_arguments=SIM_TIME, within_s=10.0)
