"""LeRobot's own command lines on the arm of the rig: a policy with random weights, recorded and replayed.

Runs where `make lerobot` has made LeRobot's environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from control_msgs_package import report_type
from simulated_arm import SimulatedArm
from test_lerobot import COLUMNS, ORDER
from test_what_an_arm_is_commanded import LIMITS, MakeArm, arm_of_node, make_arm, node

__all__ = ["arm_of_node", "make_arm", "node", "report_type"]
ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "lerobot" / "bin"
pytestmark = [
    pytest.mark.ros,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (PROGRAMS / "lerobot-record").exists(), reason="LeRobot is not installed: make lerobot"),
]
FPS, SECONDS = 5, 6
CAMERA = '''
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
'''
POLICY = """
import sys
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors

torch.manual_seed(0)
config = ACTConfig(
    device="cpu", chunk_size=8, n_action_steps=4, dim_model=32, n_heads=2, dim_feedforward=32, n_encoder_layers=1,
    use_vae=False, pretrained_backbone_weights=None, push_to_hub=False,
    input_features={"observation.state": PolicyFeature(FeatureType.STATE, (3,)),
                    "observation.images.front": PolicyFeature(FeatureType.VISUAL, (3, 32, 32))},
    output_features={"action": PolicyFeature(FeatureType.ACTION, (3,))},
)
one, image = torch.ones(3), torch.ones(3, 1, 1)
action = {"mean": torch.tensor([0.3, -0.2, 0.1]), "std": 0.05 * one}
stats = {"observation.state": {"mean": 0 * one, "std": one}, "action": action,
         "observation.images.front": {"mean": 0 * image, "std": image}}
ACTPolicy(config).save_pretrained(sys.argv[1])
for processor in make_pre_post_processors(config, dataset_stats=stats):
    processor.save_pretrained(sys.argv[1])
"""
READ = """
import sys
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset
frames = LeRobotDataset("local/eval_arm", root=sys.argv[1]).hf_dataset
np.savez(sys.argv[2], **{name: np.array(frames[name]) for name in ("action", "observation.state")})
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of processes in which the robot is installed, and a camera that shows one picture."""
    folder = tmp_path_factory.mktemp("site")
    install = [PROGRAMS / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
    source = shutil.copytree(ROOT / "examples" / "lerobot", tmp_path_factory.mktemp("source") / "lerobot")
    subprocess.run([*install, folder, source], check=True)  # setuptools writes beside the source
    for name, text in {
        "lerobot_camera_still/__init__.py": CAMERA,
        "lerobot_camera_still-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: lerobot_camera_still\n",
    }.items():
        path = folder / name
        path.parent.mkdir()
        path.write_text(text)
    return {**os.environ, "PYTHONPATH": str(folder), "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def arm(make_arm: MakeArm) -> SimulatedArm:
    return make_arm()


def run(arm: SimulatedArm, environment: dict[str, str], log: Path, *command: object) -> str:
    """Output of a program that moves the arm, whose time passes at most as fast as real time until it ends."""
    with log.open("w") as out:
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                due = time.monotonic() + 0.1
                arm.run(0.1)
                time.sleep(max(due - time.monotonic(), 0.0))
        finally:
            process.kill()
    assert process.returncode == 0, log.read_text()[-3000:]
    return log.read_text()


def test_a_policy_is_recorded_and_its_actions_are_replayed(
    arm: SimulatedArm, environment: dict[str, str], tmp_path: Path
) -> None:
    policy, dataset = tmp_path / "policy", tmp_path / "dataset"
    subprocess.run([PROGRAMS / "python", "-c", POLICY, policy], env=environment, check=True)
    robot = [
        "--robot.type=ros2_control", f"--robot.joints=[{', '.join(ORDER)}]", f"--robot.fps={FPS}", "--robot.id=arm",
        f"--robot.calibration_dir={tmp_path / 'calibration'}", "--robot.ros_arguments=['-p', 'use_sim_time:=true']",
        "--dataset.repo_id=local/eval_arm", f"--dataset.root={dataset}", f"--dataset.fps={FPS}", "--play_sounds=false",
    ]  # fmt: skip
    run(
        arm, environment, tmp_path / "record.log", PROGRAMS / "lerobot-record", *robot, f"--policy.path={policy}",
        "--robot.cameras={front: {type: still, width: 32, height: 32, fps: 5}}", "--dataset.single_task=none",
        "--dataset.num_episodes=1", f"--dataset.episode_time_s={SECONDS}", "--dataset.vcodec=h264",
        "--dataset.push_to_hub=false",
    )  # fmt: skip
    subprocess.run([PROGRAMS / "python", "-c", READ, dataset, tmp_path / "frames.npz"], env=environment, check=True)
    frames = np.load(tmp_path / "frames.npz")
    actions, observed = frames["action"], frames["observation.state"]
    assert actions.shape == observed.shape and actions.shape[1] == 3 and len(actions) > SECONDS * FPS / 2
    went = arm.commands[:, 0, COLUMNS]
    assert np.ptp(went, axis=0).max() > 0.05, "the policy moves the arm"
    assert (observed >= went.min(axis=0) - 1e-3).all() and (observed <= went.max(axis=0) + 1e-3).all()
    assert np.ptp(observed, axis=0).max() > 0.05, "and sees that"
    arm.run(1.0)
    arm.assert_at_rest()
    begin = arm.cycles
    run(arm, environment, tmp_path / "replay.log", PROGRAMS / "lerobot-replay", *robot, "--dataset.episode=0")
    arm.run(1.0)
    arm.assert_at_rest()
    arm.assert_within(LIMITS)
    replayed = arm.commands[begin:, 0, COLUMNS]
    # The arm is where the policy sent it; a spline through steps exceeds them by less than half of a step.
    swing = np.ptp(actions, axis=0) / 2 + 0.01
    assert (np.abs(replayed[-1] - actions[-8:]).min(axis=0) < swing).all()
    assert (replayed >= np.minimum(actions.min(axis=0), replayed[0]) - swing).all()
    assert (replayed <= np.maximum(actions.max(axis=0), replayed[0]) + swing).all()


@pytest.mark.parametrize("program", ["lerobot-record", "lerobot-replay", "lerobot-teleoperate"])
@pytest.mark.parametrize(("robot", "option"), [("ros2_control", "--robot.joints"), ("smooth", "--robot.of.type")])
def test_the_command_lines_know_the_robots_and_their_options(
    program: str, robot: str, option: str, environment: dict[str, str]
) -> None:
    said = subprocess.run(
        [PROGRAMS / program, f"--robot.type={robot}", "--help"], env=environment, capture_output=True, text=True
    ).stdout
    assert robot in said and option in said and "--robot.delay" in said, said[-2000:]
