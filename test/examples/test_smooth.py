"""Any robot of LeRobot, commanded smoothly without ROS: the core by a clock of the test, the robot with a stand-in.

The stand-in has the classes of LeRobot that the plugin uses, as LeRobot 0.6 has them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lerobot_robot_ros2_control.motion import left_over
from lerobot_robot_ros2_control.pace import Pace
from lerobot_robot_ros2_control.servos import Servos

ROOT = Path(__file__).resolve().parents[2]
FPS, RATE, SECOND_NS = 30.0, 100.0, 10**9
PERIOD_S = 1 / FPS
LIMITS = np.array([[4.0] * 2, [20.0] * 2, [400.0] * 2])
TURN = 2 * np.pi * 0.4


def meant(time_s: object) -> np.ndarray:
    """What the policy means, rad, `[..., 2]`: up to 1 rad/s and 2.5 rad/s^2."""
    return 0.4 * (1 - np.cos(TURN * np.asarray(time_s)))[..., None] * np.array([1.0, -0.5])


class Played:
    """Servos that follow each command at once, on a clock of the test with steps of 1 ms."""

    def __init__(self, **options: object) -> None:
        self.begin_ns = self.now_ns = 1000 * SECOND_NS
        self.times: list[float] = []
        self.commands: list[np.ndarray] = []
        self.place = np.zeros(2)
        self.servos = Servos(
            ["a", "b"], self._write, LIMITS, self.place, PERIOD_S, rate=RATE, clock=lambda: self.now_ns, **options
        )

    @property
    def time(self) -> float:
        """Time since the beginning, s."""
        return (self.now_ns - self.begin_ns) / SECOND_NS

    def _write(self, position: np.ndarray) -> None:
        self.times.append(self.time)
        self.commands.append(position)
        self.place = position

    def run(self, seconds: float, every: float = 0.0, act: Callable[[], None] | None = None) -> None:
        """Let the time pass; call `act` periodically, after an observation."""
        due = self.time
        for _ in range(round(1000 * seconds)):
            if round(1000 * self.time) % round(1000 / RATE) == 0:
                self.servos.cycle()
            if act is not None and self.time >= due:
                due += every
                self.servos.observe(self.place)
                act()
            self.now_ns += SECOND_NS // 1000

    def differences(self, order: int, since: float = 0.0) -> np.ndarray:
        """Rates of the commanded positions, `[N, 2]`."""
        keep = np.array(self.times) >= since
        return np.diff(np.array(self.commands)[keep], order, axis=0) * RATE**order

    def assert_within_limits(self) -> None:
        """Check that commands have no steps."""
        assert np.allclose(np.diff(self.times), 1 / RATE), "every cycle"
        for order in (1, 2):
            assert (np.abs(self.differences(order)).max(axis=0) <= LIMITS[order - 1] * 1.01).all(), order


@pytest.mark.parametrize("drift", [0.98, 1.0, 1.03])
def test_single_actions_are_less_than_a_period_late_whatever_the_loop(drift: float) -> None:
    played = Played()
    played.run(5.0, drift * PERIOD_S, lambda: played.servos.send(meant(played.time)))
    played.assert_within_limits()
    times, commands = np.array(played.times), np.array(played.commands)
    later = times > 1.0
    # An action leads to a position one period after it is sent, at the soonest.
    late = {shift: np.abs(commands[later] - meant(times[later] - shift)).max() for shift in np.arange(0.02, 0.1, 1e-3)}
    assert min(late, key=late.get) <= 2 * PERIOD_S and min(late.values()) < 4e-3
    most = np.abs(played.differences(2, since=1.0)).max(axis=0)
    assert (most < 1.5 * 0.4 * TURN**2 * np.array([1.0, 0.5])).all(), most
    assert played.servos.rejected == played.servos.pace.late == played.servos.pace.early == 0


def test_an_early_action_replaces_the_one_before_and_its_stamp() -> None:
    pace, zero = Pace(10, delay=1), lambda _, rows: np.zeros((rows, 1))
    (first, at), (second, then) = pace.chunk(np.ones(1), 100, zero), pace.chunk(np.full(1, 2.0), 105, zero)
    assert (first.ravel().tolist(), at) == ([0.0, 0.0, 0.0, 1.0, 2.0], 80)
    assert (second.ravel().tolist(), then) == ([0.0, 0.0, 1.0, 2.0, 3.0], 89)  # one of 10, less a fifth of the 5 behind
    third, stamp = pace.chunk(np.full(1, 5.0), 106, zero)
    assert (third.ravel().tolist(), stamp, pace.early) == ([0.0, 0.0, 1.0, 5.0, 9.0], 89, 1)


def test_an_action_that_jumps_begins_another_motion_whose_speed_the_next_one_tells() -> None:
    pace = Pace(10, delay=1, acceleration=np.full(1, 1.5e16))  # steps may differ by 1.5
    zero = lambda _, rows: np.zeros((rows, 1))  # noqa: E731
    sent = [pace.chunk(np.full(1, 1.0 + 4 * step), 100 + 10 * step, zero)[0].ravel().tolist() for step in range(3)]
    assert sent == [[0, 0, 0, 1, 2], [2, 3, 4, 5, 6], [-3, 1, 5, 9, 13]]


def test_an_action_that_jumps_farther_than_a_chunk_may_begin_is_reached_by_several() -> None:
    pace = Pace(10, delay=1, acceleration=np.full(1, 1.5e16), reach=2.0)
    zero = lambda _, rows: np.zeros((rows, 1))  # noqa: E731
    sent = [pace.chunk(np.full(1, place), 100 + 10 * k, zero)[0].ravel().tolist() for k, place in enumerate([1.0, 8.0])]
    assert sent == [[0, 0, 0, 1, 2], [4, 4, 4, 4, 4]]
    ends = [pace.end(now_ns) for now_ns in (124, 133, 134, 143, 144, 200)]
    assert [chunk and chunk[0].ravel().tolist() for chunk in ends] == [[6] * 7, None, [8] * 7, None, None, None]


@pytest.mark.parametrize("inference_s", [0.1, 0.8])
@pytest.mark.parametrize("chunks_in_real_time", [False, True], ids=["whole chunks", "real-time chunking"])
def test_chunks_are_executed_on_time_without_seams(chunks_in_real_time: bool, inference_s: float) -> None:
    """Chunks of real-time chunking begin with what is left of the one before, here between its actions."""
    played, waiting, last = Played(), [], []

    def act() -> None:
        waiting.append((played.time, played.now_ns))
        if played.time - waiting[0][0] >= inference_s - 1e-9:
            seen, stamp_ns = waiting.pop(0)
            chunk = meant(seen + PERIOD_S * np.arange(1, 51))
            if last and chunks_in_real_time:
                kept = left_over(last[1], (seen - last[0]) / PERIOD_S)[: int(np.ceil(inference_s / PERIOD_S))]
                chunk[: len(kept)] = kept
            last[:] = seen, chunk
            played.servos.send_chunk(chunk, stamp_ns)

    played.run(6.0, 0.11 if chunks_in_real_time else 0.1, act)
    played.assert_within_limits()
    times, commands = np.array(played.times), np.array(played.commands)
    assert np.abs(commands - meant(times))[times > 2.0].max() < 1e-3, "0 ms behind"
    most = np.abs(played.differences(2, since=2.0)).max(axis=0)
    assert (most < 1.05 * 0.4 * TURN**2 * np.array([1.0, 0.5])).all(), most
    assert played.servos.rejected == 0


def test_actions_that_stop_coming_end_at_rest_and_later_ones_go_on() -> None:
    played = Played()
    sent = []

    def ramp() -> None:
        sent.append(0.4 * played.time)
        played.servos.send(np.full(2, sent[-1]))

    played.run(1.0, PERIOD_S, ramp)
    assert (played.differences(1)[-3:] > 0.3).all(), "it moves"
    played.run(1.0)
    assert np.abs(played.differences(1)[-3:]).max() < 1e-9, "it rests"
    np.testing.assert_allclose(played.place, sent[-1], atol=1e-4, err_msg="at the last action")
    # The fastest stop from 0.4 rad/s takes 2 sqrt(0.4 / jerk). It begins a cycle and a lead, 10 ms each, after the next
    # action counts as late, which is 0.4 of a period before the last one is executed.
    passes = 0.4 * (np.sqrt(0.4 / LIMITS[2, 0]) + 2 / RATE - 0.4 * PERIOD_S)
    assert np.max(played.commands) < sent[-1] + passes
    before = played.place.copy()
    played.run(2.0, PERIOD_S, ramp)
    assert (played.place > before + 0.3).all() and played.servos.pace.late == 1
    played.assert_within_limits()


def test_an_action_that_jumps_is_reached_as_fast_as_limits_allow() -> None:
    played = Played()
    played.run(0.5, PERIOD_S, lambda: played.servos.send(meant(played.time)))
    played.run(1.0, PERIOD_S, lambda: played.servos.send(meant(played.time) + 0.5))
    np.testing.assert_allclose(played.place, meant(played.time - 1.9 * PERIOD_S) + 0.5, atol=5e-3)
    played.assert_within_limits()
    assert played.servos.rejected == 0


@pytest.mark.parametrize("then", ["close", "chunk"])
def test_no_motion_returns_to_an_action_before_what_came_since(then: str) -> None:
    played = Played()
    played.run(1.0, PERIOD_S, lambda: played.servos.send(np.full(2, 0.4 * played.time)))
    if then == "chunk":
        played.servos.send_chunk(played.place + 0.4 * PERIOD_S * np.arange(1, 31)[:, None] * [1, 1], played.now_ns)
        played.run(0.7)
        assert (played.differences(1, since=1.2) > 0.2).all()
    else:
        played.servos.close()
        assert played.servos.pace.end(played.now_ns + SECOND_NS) is None


def test_actions_that_are_not_executed_are_counted_and_others_go_on() -> None:
    played = Played()
    played.run(1.0, PERIOD_S, lambda: played.servos.send(meant(played.time)))
    assert played.servos.rejected == 0
    played.servos.send_chunk(meant(np.arange(3)), played.now_ns - SECOND_NS)  # it is over
    assert played.servos.rejected == 1
    played.run(0.5, PERIOD_S, lambda: played.servos.send(meant(played.time)))
    assert played.servos.rejected == 1
    played.assert_within_limits()


def test_nothing_is_commanded_before_the_first_action() -> None:
    played = Played()
    played.run(0.5)
    assert not played.commands
    played.servos.send(np.full(2, 0.1))
    played.run(0.1)
    assert np.abs(played.commands[0]).max() < 1e-6, "from where it is"


def test_a_chunk_of_real_time_chunking_begins_with_what_is_commanded() -> None:
    played = Played()
    played.servos.send_chunk(meant(PERIOD_S * np.arange(1, 51)), played.now_ns)
    played.run(0.5)
    fixed = played.servos.prefix(played.now_ns, 50, inference_s=0.2)
    assert fixed.shape == (6, 2), "those of the inference"
    np.testing.assert_allclose(fixed, meant(played.time + PERIOD_S * np.arange(1, 7)), atol=2e-3)


def test_an_error_of_the_bus_is_raised_by_the_next_call() -> None:
    def write(_: np.ndarray) -> None:
        raise ConnectionError("the cable is out")

    servos = Servos(["a"], write, np.ones((3, 1)), np.zeros(1), PERIOD_S)
    servos.start()
    deadline = time.monotonic() + 10.0

    def act() -> None:
        """Act for 10 s."""
        while time.monotonic() < deadline:
            servos.observe(np.zeros(1))
            servos.send(np.full(1, 0.1))
            time.sleep(PERIOD_S)

    with pytest.raises(ConnectionError, match="the cable is out"):
        act()
    servos.close()


STAND_IN = {
    "robots/__init__.py": """
from dataclasses import dataclass
from typing import ClassVar

@dataclass(kw_only=True)
class RobotConfig:
    known: ClassVar[dict] = {}
    id: str = "arm"
    @classmethod
    def register_subclass(cls, name): return lambda one: cls.known.setdefault(name, one)

class Robot:
    def __init__(self, config): self.id = config.id

def make_robot_from_config(config): return config.made
""",
    "utils/errors.py": '''
class DeviceAlreadyConnectedError(ConnectionError): """It is connected."""
class DeviceNotConnectedError(ConnectionError): """It is not connected."""
''',
    "__init__.py": "",
    "utils/__init__.py": "",
}
PROGRAM = """
import math, sys, time
from types import SimpleNamespace
from lerobot_robot_ros2_control import Smooth, SmoothConfig

class Follower:
    action_features = {"shoulder.pos": float, "gripper.pos": float}
    observation_features = action_features | {"front": (4, 4, 3)}
    is_connected = is_calibrated = False
    def __init__(self): self.place, self.sent = [10.0, 50.0], []
    def connect(self, calibrate): self.is_connected = True
    def disconnect(self): self.is_connected = False
    def get_observation(self): return dict(zip(self.action_features, self.place)) | {"front": "image"}
    def send_action(self, action):
        self.place = [action[key] for key in self.action_features]
        self.sent.append((time.monotonic(), self.place[0]))

follower = Follower()
config = SmoothConfig(of=SimpleNamespace(made=follower), fps=20.0)
robot = Smooth(config)
assert robot.action_features == follower.action_features and robot.observation_features == follower.observation_features
robot.connect()
for step in range(1, 31):
    observed = robot.get_observation()
    assert observed["front"] == "image" and observed["gripper.pos"] > 49.0
    action = {"gripper.pos": 50.0, "shoulder.pos": 10.0 + step}
    assert robot.send_action(action) == action
    time.sleep(0.05)
moved = len(follower.sent)
assert follower.place[0] > 15.0, follower.place
robot.disconnect()
assert not follower.is_connected and not robot.is_connected
places = [place for _, place in follower.sent]
assert places[0] < 10.5 and max(abs(b - a) for a, b in zip(places, places[1:])) < 200.0 * 0.5
assert abs(places[-1] - places[-2]) < 0.05, "it rests"
assert moved > 60, moved  # more often than actions come, however busy the machine
for wrong in (lambda: robot.send_action(action), robot.get_observation):
    try: wrong()
    except ConnectionError: continue
    raise AssertionError("expected an error of a robot that is not connected")
follower.action_features = {"x.vel": float}
try: Smooth(config)
except ValueError as error: assert "x.vel" in str(error)
else: raise AssertionError("expected a refusal of velocities")
print("done", moved)
"""


def test_a_robot_of_lerobot_is_commanded_more_often_than_it_is_sent_actions(tmp_path: Path) -> None:
    for name, text in STAND_IN.items():
        path = tmp_path / "lerobot" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    setup = f"import sys; sys.path[:0] = {[str(tmp_path), str(ROOT / 'examples' / 'lerobot'), str(ROOT)]!r}\n"
    # It is as without ROS: nothing can import rclpy.
    setup += "import importlib.util as u; u_find = u.find_spec\n"
    setup += "u.find_spec = lambda name, *rest: None if name == 'rclpy' else u_find(name, *rest)\n"
    done = subprocess.run([sys.executable, "-c", setup + PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("done"), done.stdout + done.stderr
