"""LeRobot's own command lines on the arm of the rig, and on a robot without ROS: policies with random weights.

Runs in the cells of `make matrix` that have LeRobot, and wherever else the package of the example is installed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from importlib.metadata import distributions
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from node_fixtures import report_type
from simulated_arm import SimulatedArm
from test_lerobot import COLUMNS, ORDER
from test_what_an_arm_is_commanded import LIMITS, MakeArm, arm_of_node, make_arm, node

__all__ = ["arm_of_node", "make_arm", "node", "report_type"]
PROGRAMS = Path(sys.executable).parent
INSTALLED = {one.metadata["Name"] for one in distributions()} >= {"lerobot", "lerobot_robot_ros2_control"}
pytestmark = [
    pytest.mark.ros,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not INSTALLED, reason="LeRobot and examples/lerobot are not installed: make matrix"),
]
FPS, SECONDS = 5, 6
HANDS_ON = ["--play_sounds=false", "--dataset.push_to_hub=false", "--dataset.single_task=none"]
# A camera that shows one picture, a teleoperator that swings, a robot without servos that follows at once, and a policy
# for real-time chunking.
PLUGINS = {
    "lerobot_camera_still": '''
from dataclasses import dataclass
import numpy as np
from lerobot.cameras import Camera, CameraConfig

@CameraConfig.register_subclass("still")
@dataclass
class StillConfig(CameraConfig):
    """Shows one picture."""

class Still(Camera):
    is_connected = False
    find_cameras = staticmethod(lambda: [])
    def connect(self, warmup=True): self.is_connected = True
    def disconnect(self): self.is_connected = False
    def read(self): return np.full((self.height, self.width, 3), 128, np.uint8)
    def async_read(self, timeout_ms=0): return self.read()
    def read_latest(self, max_age_ms=0): return self.read()
''',
    "lerobot_teleoperator_swing": '''
import math, time
from dataclasses import dataclass, field
from lerobot.teleoperators import Teleoperator, TeleoperatorConfig

@TeleoperatorConfig.register_subclass("swing")
@dataclass
class SwingConfig(TeleoperatorConfig):
    """Swings all joints."""
    joints: list[str] = field(default_factory=list)

class Swing(Teleoperator):
    config_class, name, feedback_features = SwingConfig, "swing", {}
    is_connected = is_calibrated = True
    def __init__(self, config):
        super().__init__(config)
        self.joints = config.joints
    @property
    def action_features(self): return {f"{joint}.pos": float for joint in self.joints}
    def connect(self, calibrate=True): self.begin = time.monotonic()
    def calibrate(self): pass
    def configure(self): pass
    def send_feedback(self, feedback): pass
    def disconnect(self): pass
    def get_action(self):
        turn = math.pi * (time.monotonic() - self.begin) / 2
        return {key: 0.15 * (1 - math.cos(turn)) * (k + 1) for k, key in enumerate(self.action_features)}
''',
    "lerobot_robot_ghost": '''
import json, time
from dataclasses import dataclass
from lerobot.robots import Robot, RobotConfig

@RobotConfig.register_subclass("ghost")
@dataclass(kw_only=True)
class GhostConfig(RobotConfig):
    """Writes what it is commanded into a file."""
    file: str = ""

class Ghost(Robot):
    config_class, name, cameras = GhostConfig, "ghost", {}
    action_features = dict.fromkeys(("a.pos", "b.pos", "c.pos"), float)
    observation_features = action_features | {"front": (32, 32, 3)}
    is_connected, is_calibrated = False, True
    def __init__(self, config):
        super().__init__(config)
        self.file, self.place, self.sent = config.file, dict.fromkeys(self.action_features, 0.0), []
    def connect(self, calibrate=True): self.is_connected = True
    def calibrate(self): pass
    def configure(self): pass
    def get_observation(self):
        import numpy as np
        return self.place | {"front": np.full((32, 32, 3), 128, np.uint8)}
    def send_action(self, action):
        self.place = action
        self.sent.append([time.monotonic(), *action.values()])
    def disconnect(self):
        self.is_connected = False
        with open(self.file, "w") as file: json.dump(self.sent, file)
''',
    "lerobot_policy_frozen": '''
from dataclasses import dataclass
from lerobot.configs import PreTrainedConfig
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy

@PreTrainedConfig.register_subclass("frozen")
@dataclass
class FrozenConfig(ACTConfig):
    """ACT that begins a chunk with what is left of the one before."""

class FrozenPolicy(ACTPolicy):
    config_class, name = FrozenConfig, "frozen"
    def supports_rtc(self): return True
    def predict_action_chunk(self, batch, inference_delay=0, prev_chunk_left_over=None):
        actions = super().predict_action_chunk(batch)
        if prev_chunk_left_over is not None:
            kept = prev_chunk_left_over[:inference_delay]
            actions[0, : len(kept)] = kept
        return actions
''',
}
POLICIES = """
import sys
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from lerobot_policy_frozen import FrozenConfig, FrozenPolicy

torch.manual_seed(0)
options = dict(
    device="cpu", chunk_size=8, n_action_steps=4, dim_model=32, n_heads=2, dim_feedforward=32,
    n_encoder_layers=1, use_vae=False, pretrained_backbone_weights=None, push_to_hub=False,
    input_features={"observation.state": PolicyFeature(FeatureType.STATE, (3,)),
                    "observation.images.front": PolicyFeature(FeatureType.VISUAL, (3, 32, 32))},
    output_features={"action": PolicyFeature(FeatureType.ACTION, (3,))},
)
one, image = torch.ones(3), torch.ones(3, 1, 1)
kinds = {"act": (ACTPolicy, ACTConfig, 50.0), "frozen": (FrozenPolicy, FrozenConfig, 1.0)}
for kind, (policy, config, unit) in kinds.items():
    action = {"mean": unit * torch.tensor([0.3, -0.2, 0.1]), "std": unit * 0.05 * one}
    stats = {"observation.state": {"mean": 0 * one, "std": unit * one}, "action": action,
             "observation.images.front": {"mean": 0 * image, "std": image}}
    for part in (policy(config(**options)), *make_pre_post_processors(ACTConfig(**options), dataset_stats=stats)):
        part.save_pretrained(f"{sys.argv[1]}/{kind}")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of processes in which the plugins are installed."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in PLUGINS.items():
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n"
        for path, content in ((f"{name}/__init__.py", text), (f"{name}-0.1.dist-info/METADATA", metadata)):
            (folder / path).parent.mkdir()
            (folder / path).write_text(content)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def policies(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Policies with random weights: `act` for degrees, `frozen` for rad."""
    folder = tmp_path_factory.mktemp("policies")
    subprocess.run([sys.executable, "-c", POLICIES, folder], env=environment, check=True)
    return folder


@pytest.fixture
def arm(make_arm: MakeArm) -> SimulatedArm:
    return make_arm(limits__start_deviation=0.0)  # random weights begin anywhere


@pytest.fixture
def robot(tmp_path: Path) -> list[str]:
    """The options of the robot that moves the arm."""
    return [
        "--robot.type=ros2_control", f"--robot.joints=[{', '.join(ORDER)}]", f"--robot.fps={FPS}", "--robot.id=arm",
        f"--robot.calibration_dir={tmp_path / 'calibration'}", "--robot.ros_arguments=['-p', 'use_sim_time:=true']",
    ]  # fmt: skip


def run(arm: SimulatedArm, environment: dict[str, str], log: Path, *command: object) -> str:
    """Output of a program that moves the arm, whose time never runs ahead of real time by more than 20 ms."""
    with log.open("w") as out:
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                due = time.monotonic() + 0.02  # shorter than the node's lead, within which its answers have to come
                arm.go(0.02)
                time.sleep(max(due - time.monotonic(), 0.0))
        finally:
            process.kill()
    assert process.returncode == 0, log.read_text()[-3000:]
    return log.read_text()


@pytest.mark.parametrize("inference", ["sync", "rtc"])
@pytest.mark.parametrize("program", ["lerobot-rollout", "lerobot-rollout-chunks"])
def test_rollouts_move_an_arm_within_its_limits(
    program: str, inference: str, arm: SimulatedArm, robot: list[str], environment: dict[str, str], policies: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    run(
        arm, environment, tmp_path / "log", PROGRAMS / program, *robot,
        f"--policy.path={policies / 'frozen'}", f"--inference.type={inference}",
        f"--fps={FPS}", f"--duration={SECONDS}",
        "--robot.cameras={front: {type: still, width: 32, height: 32, fps: 5}}",
    )  # fmt: skip
    went = arm.commands[:, 0, COLUMNS]
    assert np.ptp(went, axis=0).max() > 0.1, "the policy moves the arm"
    assert np.abs(arm.place[COLUMNS]).max() < 0.05, "LeRobot brings it back"
    arm.go(1.0)
    arm.assert_at_rest()
    arm.assert_within(LIMITS)


def test_what_is_recorded_is_replayed(
    arm: SimulatedArm, robot: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    from pyarrow.parquet import read_table

    dataset = tmp_path / "dataset"
    options = [*robot, "--dataset.repo_id=local/arm", f"--dataset.root={dataset}", f"--dataset.fps={FPS}"]
    run(
        arm, environment, tmp_path / "record.log", PROGRAMS / "lerobot-record", *options, *HANDS_ON,
        "--teleop.type=swing", f"--teleop.joints=[{', '.join(ORDER)}]", "--dataset.num_episodes=1",
        f"--dataset.episode_time_s={SECONDS}",
    )  # fmt: skip
    [dataset] = tmp_path.glob("dataset*")
    [frames] = map(read_table, dataset.glob("data/**/*.parquet"))
    actions, observed = (np.array(frames[name].to_pylist()) for name in ("action", "observation.state"))
    assert actions.shape == observed.shape and actions.shape[1] == 3 and len(actions) > SECONDS * FPS / 2
    assert np.ptp(observed, axis=0).min() > 0.1, "it sees how it moves"
    arm.go(1.0)
    arm.assert_at_rest()
    begin = arm.cycles
    replay = [option.replace(str(tmp_path / "dataset"), str(dataset)) for option in options]
    run(
        arm, environment, tmp_path / "replay.log", PROGRAMS / "lerobot-replay", *replay, "--dataset.episode=0",
        "--play_sounds=false",
    )  # fmt: skip
    arm.go(1.0)
    arm.assert_at_rest()
    arm.assert_within(LIMITS)
    replayed = arm.commands[begin:, 0, COLUMNS]
    assert np.ptp(replayed, axis=0) == pytest.approx(np.ptp(actions, axis=0), rel=0.1)
    np.testing.assert_allclose(replayed[-1], actions[-1], atol=0.1)


@pytest.fixture
def ghost(tmp_path: Path) -> list[str]:
    """The options of a robot without ROS, which writes what it is commanded into commands.json."""
    calibration = tmp_path / "calibration"
    return [
        "--robot.type=smooth", "--robot.id=arm", f"--robot.fps={FPS}", f"--robot.calibration_dir={calibration}",
        "--robot.of.type=ghost", "--robot.of.id=ghost", f"--robot.of.calibration_dir={calibration}",
        f"--robot.of.file={tmp_path / 'commands.json'}",
    ]  # fmt: skip


def assert_moved(file: Path) -> None:
    """Check that a robot without ROS was moved smoothly, and braked."""
    times, places = np.split(np.array(json.loads(file.read_text())), [1], axis=1)
    assert np.ptp(places, axis=0).max() > 5.0 and np.abs(places[0]).max() < 0.1, "degrees"
    assert len(times) > 1.5 * FPS * np.ptp(times), "commanded more often than actions come, however busy the machine"
    assert np.abs(np.diff(places[-5:], axis=0)).max() < 0.1, "at rest"
    # The clock of commands is not that of the executor: a late cycle looks like a step of velocity.
    assert np.abs(np.diff(places, axis=0)).max() < 200.0 * 0.1


@pytest.mark.parametrize("program", ["lerobot-rollout", "lerobot-rollout-chunks"])
def test_rollouts_move_any_robot_without_ros(
    program: str, ghost: list[str], environment: dict[str, str], policies: Path, tmp_path: Path
) -> None:
    options = [f"--policy.path={policies / 'act'}", f"--fps={FPS}", f"--duration={SECONDS}"]
    done = subprocess.run([PROGRAMS / program, *ghost, *options], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert_moved(tmp_path / "commands.json")


@pytest.mark.parametrize("client", ["robot_client", "lerobot-async-chunks"])
def test_async_inference_moves_any_robot_without_ros(
    client: str, ghost: list[str], environment: dict[str, str], policies: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begun: dict[str, subprocess.Popen] = {}

    def log(name: str) -> str:
        return (tmp_path / name).read_text()

    def begin(name: str, *options: str) -> None:
        ours = client == name != "robot_client"
        program = [PROGRAMS / name] if ours else [sys.executable, "-m", f"lerobot.async_inference.{name}"]
        command = [*map(str, program), f"--fps={FPS}", *options]
        out = stack.enter_context((tmp_path / name).open("w"))
        begun[name] = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=out, stderr=out)
        stack.callback(begun[name].wait)
        stack.callback(begun[name].kill)

    def wait_until_server_says(text: str, count: int = 1) -> None:
        while log("policy_server").count(text) < count:
            for name, one in begun.items():
                assert one.poll() is None, log(name)[-3000:]
            time.sleep(0.1)

    with ExitStack() as stack:
        begin("policy_server", "--host=127.0.0.1", f"--port={port}")
        wait_until_server_says("PolicyServer started")  # the client asks it for 3 s at most
        begin(
            client, *ghost, f"--server_address=127.0.0.1:{port}", "--policy_type=act",
            f"--pretrained_name_or_path={policies / 'act'}", "--actions_per_chunk=8", "--task=none",
        )  # fmt: skip
        wait_until_server_says(" generated ", 3)
        begun[client].send_signal(signal.SIGINT)
        begun[client].wait()
    assert_moved(tmp_path / "commands.json")
