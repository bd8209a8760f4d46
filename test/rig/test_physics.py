"""Arms with masses, drives and contacts in simulated time: free motion is left alone, contacts are noticed and left."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from rig import __main__ as program
from rig.physics import demo, grasps, scenes
from rig.physics.arms import ARMS
from rig.physics.loop import Loop, Straight
from rig.physics.packages import Absent, model_text, mujoco_module
from rig.physics.robot import PhysicalRobot
from rig.table import SCENES, Scene

try:
    mujoco_module()
    for arm in ("panda", "vx300s", "so101"):
        model_text(ARMS[arm].package, ARMS[arm].model)
except Absent as absent:
    pytest.skip(str(absent), allow_module_level=True)
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
QUICK = "slipped encoder", "second publisher", "grasps, SO-101", "wall at 0.5, SO-101, with a grasp"
"""One of each room, of the quickest."""
OTHERS = [pytest.param(name, marks=pytest.mark.thorough) for name in scenes.SCENES if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *OTHERS])
def test_a_physical_arm(name: str) -> None:
    verdict = SCENES[name].play(0, True)
    assert not verdict.fails, verdict


@pytest.mark.parametrize("arm", [name for name, arm in ARMS.items() if arm.gripper])
def test_an_object_stays_between_the_pads_only_while_they_press_on_it(arm: str) -> None:
    for stays, closes in ((True, True), (False, False)):
        robot = PhysicalRobot(arm, "so101" if arm == "so101" else grasps.FIRM)
        robot.settle(0.3)
        robot.object.offer(0.04)
        place = np.append(robot.home[:-1], robot.arm.gripper.closed if closes else robot.arm.gripper.opened)
        robot.follow(place, 600)
        assert robot.object.is_kept, "it is offered"
        robot.object.let_go()
        robot.follow(place, 300)
        assert robot.object.is_kept == stays
        assert abs(robot.output()[0][-1] - place[-1]) > 0.01 or not closes
    robot.object.offer(0.04)
    robot.object.fall()
    robot.object.let_go()
    robot.follow(np.append(robot.home[:-1], robot.arm.gripper.closed), 600)
    assert not robot.object.is_kept and abs(robot.output()[0][-1] - robot.arm.gripper.closed) < 0.01


@pytest.mark.thorough
def test_the_arm_in_the_readmes_animation_feels_what_is_said() -> None:
    program = runpy.run_path(str(ROOT / "docs" / "figures" / "policy_on_an_arm.py"))
    logs = [program["played"](program[kind])[1] for kind in ("Straight", "Loop")]
    felt = [np.abs(program["felt"](log)).max() for log in logs]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = re.search(r"feel up to (\S+) rad/s² .* and (\S+) with the node\]\(docs/figures/policy_on_an_arm.gif", text)
    assert [float(number) for number in said.groups()] == pytest.approx(felt, rel=0.1)


@pytest.mark.ros
@pytest.mark.thorough
def test_the_demos_arm_feels_less_with_the_node_than_without() -> None:
    motion = demo.optimized(np.array(ARMS["panda"].home))
    np.testing.assert_allclose(motion[1][-1], ARMS["panda"].home + demo.GOAL, atol=0.01)
    (straight, felt), (executed, _) = (
        [np.abs(part).max() for part in demo.accelerations(demo.run_story(kind, 1.0, motion).log)]
        for kind in (Straight, Loop)
    )
    assert executed <= 20.0 * (1 + 1e-3) < felt < straight, "the arm's limits"


def test_scenarios_that_cannot_be_run_do_not_hold(monkeypatch, capsys) -> None:
    def absent(*_: object) -> None:
        raise Absent("mujoco is not installed")

    monkeypatch.setitem(SCENES, "policy", Scene("", absent))
    assert not program.holds("policy") and "FAILS: Absent: mujoco is not installed" in capsys.readouterr().out
