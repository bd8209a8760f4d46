"""A physical arm behind the model of joint_trajectory_controller: drives, masses, friction, encoders, contacts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kit.controller import SECOND, Controller, Point

from .arms import ARMS, built
from .drives import DRIVES, Drive, Drives
from .objects import Object
from .packages import mujoco_module


class PhysicalRobot(Controller):
    """The controller, its drives and the arm.

    `arm` is a name in `ARMS`, `drive` one in `DRIVES` or its properties. The drives do not know the
    `payload` at the hand, kg; `world` are things around the arm (XML). The first gears have a `backlash`, rad, encoders
    steps of their `resolution`, rad, and measured velocities a bandwidth of `velocity_hz`.
    """

    def __init__(
        self,
        arm: str = "panda",
        drive: str | Drive = "pd6",
        rate: int = 500,
        *,
        payload: float = 0.0,
        world: str = "",
        backlash: float = 0.0,
        resolution: float = 2e-5,
        velocity_hz: float = 30.0,
    ) -> None:
        self.arm = spec = ARMS[arm]
        super().__init__(spec.joints, rate, hard_replacement=True, interpolate_from_desired_state=True)
        self.rate, self.dof = rate, len(spec.joints)
        self._mujoco = mujoco_module()
        self._model = built(spec, payload=payload, world=world, backlash=backlash)
        self._data = self._mujoco.MjData(self._model)
        self._believed = built(spec)
        self._believed_data = self._mujoco.MjData(self._believed)
        self._places, self._speeds = _addresses(self._model, spec.joints, self._mujoco)
        self._believed_places, self._believed_speeds = _addresses(self._believed, spec.joints, self._mujoco)
        plays = [(i, f"{name}_play") for i, name in enumerate(spec.joints)]
        self._plays = [(i, *(int(x[0]) for x in _addresses(self._model, (name,), self._mujoco)))
                       for i, name in plays if self._id("JOINT", name) >= 0]  # fmt: skip
        self._ball = self._id("GEOM", "ball")
        self.home = np.array(spec.home, float)
        self.start = self.home.copy()
        self._resolution, self._smoothing = resolution, 1 - math.exp(-2 * math.pi * velocity_hz / rate)
        self.power, self.brakes, self.off, self.guided = True, False, False, False
        self.force: Callable[[float], np.ndarray] | None = None
        """Force on the hand, N `[3]`, by the time of the controller, s."""
        self.object = Object(self._mujoco, self._model, self._data, spec.gripper) if spec.gripper else None
        """What the gripper may grasp."""
        self.contact = 0.0
        """Largest force of a contact in the last cycle, N."""
        self._place_at(self.start, drive if isinstance(drive, Drive) else DRIVES[drive], np.array(spec.torque, float))

    def _place_at(self, place: np.ndarray, drive: Drive, most: np.ndarray) -> None:
        self._data.qpos[self._places] = place
        self._believed_data.qpos[self._believed_places] = self.home
        self._mujoco.mj_forward(self._believed, self._believed_data)
        masses = np.zeros((self._believed.nv, self._believed.nv))
        self._mujoco.mj_fullM(self._believed, self._believed_data, masses)
        self._drives = Drives(drive, np.diag(masses)[self._believed_speeds], most, place)
        self.set_state(place)
        self._encoded, self._velocity = np.round(place / self._resolution) * self._resolution, np.zeros(self.dof)
        self._mujoco.mj_forward(self._model, self._data)

    def settle(self, seconds: float = 1.0) -> None:
        """Let the arm come to rest on its drives before anything begins."""
        self.follow(self.start, round(seconds * 1000))
        self._velocity[:] = 0.0

    def follow(self, command: np.ndarray, milliseconds: int) -> None:
        """Let the drives follow a position, without the controller."""
        for _ in range(milliseconds):
            self._moved(0.0, command, np.zeros(self.dof))
        self._encode()

    def output(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity of the joints behind their gears."""
        q, v = self._data.qpos[self._places].copy(), self._data.qvel[self._speeds].copy()
        for joint, place, speed in self._plays:
            q[joint] += self._data.qpos[place]
            v[joint] += self._data.qvel[speed]
        return q, v

    def measured(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity by the encoders."""
        return self._encoded.copy(), self._velocity.copy()

    def lean(self, gravity: np.ndarray) -> None:
        """Tilt the base: gravity along its axes, m/s^2 `[3]`."""
        self._model.opt.gravity[:] = gravity

    def restart(self) -> None:
        """Stop and start the controller: it holds the measured position."""
        self._plan = self._waiting = None
        zeros = np.zeros(self.dof)
        self._state, self._commanded_at = Point(0, self._encoded.copy(), zeros, zeros.copy()), 0
        self._drives.reset(self._encoded)

    def _cycle(self, now: int) -> np.ndarray:
        if self.off:
            self.restart()
        command, self.contact = super()._cycle(now), 0.0
        for _ in range(1000 // self.rate):
            self._moved(now / SECOND, command[0], command[1])
            self.contact = max(self.contact, self._contact_force())
        self._encode()
        return command

    def _moved(self, time: float, command: np.ndarray, speed: np.ndarray) -> None:
        """Let a millisecond pass."""
        drives, (q, v) = self._drives, self.output()
        drives.command(command, speed)
        if not self.power:
            torque = drives.released(v, self.brakes)
        elif self.guided:
            torque = drives.guided(v, self._gravity(q))
        else:
            torque = drives.torque(q, v, drives.drive.gravity * self._gravity(q) if drives.drive.gravity else 0.0 * q)
        self._data.qfrc_applied[:] = 0.0
        self._data.qfrc_applied[self._speeds] = torque
        hand = self._id("BODY", "hand")
        self._data.xfrc_applied[hand, :3] = self.force(time) if self.force else 0.0
        if self.object is not None:
            self.object.step()
        self._mujoco.mj_step(self._model, self._data)

    def _gravity(self, q: np.ndarray) -> np.ndarray:
        """Return the torque that holds the arm with the masses that the drives know."""
        model, data = self._believed, self._believed_data
        data.qpos[self._believed_places] = q
        self._mujoco.mj_kinematics(model, data)
        self._mujoco.mj_comPos(model, data)
        self._mujoco.mj_rne(model, data, 0, data.qfrc_bias)
        return data.qfrc_bias[self._believed_speeds].copy()

    def _contact_force(self) -> float:
        """Return the force on the ball of the hand."""
        total, force = 0.0, np.zeros(6)
        for k in np.flatnonzero((self._data.contact.geom == self._ball).any(axis=1)):
            self._mujoco.mj_contactForce(self._model, self._data, k, force)
            total += abs(force[0])
        return total

    def _encode(self) -> None:
        read = np.round(self.output()[0] / self._resolution) * self._resolution
        self._velocity = self._velocity + self._smoothing * ((read - self._encoded) * self.rate - self._velocity)
        self._encoded = read

    def _id(self, kind: str, name: str) -> int:
        return self._mujoco.mj_name2id(self._model, getattr(self._mujoco.mjtObj, f"mjOBJ_{kind}"), name)


def _addresses(model: object, names: tuple[str, ...], mujoco: object) -> tuple[np.ndarray, np.ndarray]:
    ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in names]
    return model.jnt_qposadr[ids], model.jnt_dofadr[ids]
