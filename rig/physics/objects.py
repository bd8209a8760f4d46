"""Objects between the pads of a gripper: two sides on springs, held by friction."""

from __future__ import annotations

import math

import numpy as np

_PADS = 2
"""Bit of contacts that only pads and objects share."""
_SIDE = """<body name="side{name}"><inertial pos="0 0 0" mass="0.03" diaginertia="1e-5 1e-5 1e-5"/>
    <joint name="side{name}" type="slide" axis="0 {way} 0" stiffness="1" damping="1" range="0.0005 0.1"/>
    <geom type="box" size="0.02 0.001 0.02" pos="0 {back} 0" contype="{pads}" conaffinity="{pads}" mass="0" condim="4"
        solref="0.004 1"/></body>"""
OBJECT = f"""<body name="object" pos="0 0 -9"><freejoint name="object"/>
    <inertial pos="0 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>
    {_SIDE.format(name=1, way=1, back=-0.001, pads=_PADS)}
    {_SIDE.format(name=2, way=-1, back=0.001, pads=_PADS)}</body>"""
"""An object (XML), which falls where nobody is until it is offered."""
WELD = '<weld name="offered" body1="{body}" body2="object" active="false" solref="0.01 1"/>'
"""The constraint by which it is offered to a body (XML)."""
_SHARE = 0.14
"""Mass, kg, of a side and of what presses on it, for which its damping is that of 70 % of the critical one."""
_TURNS_M = 3e-5
"""Distance by which half of the width changes in a millisecond, m."""
_KEPT_M = 0.03
"""Distance of an object from where it was offered, m, within which it is still held."""


class Object:
    """The object of an arm with a gripper, in a model with an `OBJECT` and its `WELD`."""

    def __init__(self, mujoco: object, model: object, data: object, gripper: object) -> None:
        self._mujoco, self._model, self._data, self._gripper = mujoco, model, data, gripper
        find = lambda kind, name: mujoco.mj_name2id(model, kind, name)  # noqa: E731
        kinds = mujoco.mjtObj
        self._body, self._hand = (find(kinds.mjOBJ_BODY, name) for name in ("object", gripper.body))
        self._weld = find(kinds.mjOBJ_EQUALITY, "offered")
        self._free, *self._sides = (find(kinds.mjOBJ_JOINT, name) for name in ("object", "side1", "side2"))
        self._springs = model.jnt_qposadr[self._sides]
        self._at, self._half = np.zeros(3), 0.0

    def offer(self, width: float, stiffness: float = 1e4, mass: float = 0.05) -> None:
        """Hold an object out between the pads: width, m, stiffness, N/m, and mass, kg."""
        model, data, mujoco = self._model, self._data, self._mujoco
        self._at = np.array(self._gripper.meet) + (width / 2 + 5e-4) * np.array(self._gripper.away)
        model.body_mass[self._body] = mass
        for joint in self._sides:
            # Both springs are pressed at once.
            model.jnt_stiffness[joint] = 2 * stiffness
            model.dof_damping[model.jnt_dofadr[joint]] = 1.4 * math.sqrt(2 * stiffness * _SHARE)
            data.qpos[model.jnt_qposadr[joint]] = width / 2
            data.qvel[model.jnt_dofadr[joint]] = 0.0
        self._half = model.qpos_spring[self._springs] = width / 2
        self._touches(True)
        place, speed = model.jnt_qposadr[self._free], model.jnt_dofadr[self._free]
        data.qpos[place : place + 3] = self._offered()
        mujoco.mju_mulQuat(data.qpos[place + 3 : place + 7], data.xquat[self._hand], np.array(self._gripper.across))
        moves = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, self._hand, moves, 0)
        data.qvel[speed : speed + 6] = np.append(moves[3:], np.zeros(3))
        model.eq_data[self._weld, 3:10] = np.append(self._at, self._gripper.across)
        data.eq_active[self._weld] = True

    def let_go(self) -> None:
        """Leave the object to the gripper."""
        self._data.eq_active[self._weld] = False

    def turn(self, width: float) -> None:
        """Let the object become narrower, m, as if it turned between the pads."""
        self._half = width / 2

    def fall(self) -> None:
        """Let the object fall out from between the pads."""
        self._touches(False)

    def step(self) -> None:
        """Let a millisecond pass."""
        springs = self._model.qpos_spring
        springs[self._springs] = np.maximum(springs[self._springs] - _TURNS_M, self._half)

    @property
    def is_kept(self) -> bool:
        """Return whether the object is still where it was offered."""
        return bool(np.linalg.norm(self._data.xpos[self._body] - self._offered()) < _KEPT_M)

    def _touches(self, pads: bool) -> None:
        of = np.isin(self._model.geom_bodyid, self._model.jnt_bodyid[self._sides])
        self._model.geom_contype[of] = self._model.geom_conaffinity[of] = _PADS * pads

    def _offered(self) -> np.ndarray:
        """Place at which it is offered, m."""
        return self._data.xpos[self._hand] + self._data.xmat[self._hand].reshape(3, 3) @ self._at
