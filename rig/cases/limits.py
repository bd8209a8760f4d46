"""Limits and other parameters that change during a motion."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from std_msgs.msg import String

from ..rig import Rig
from .live import case, streaming


@case("parameters-in-motion")
def parameters_in_motion(name: str) -> Iterator[Rig]:
    """During a motion, lead_time and bandwidth change, and velocity limits are set below the present speed."""
    (rig, send), said = streaming(1.0, 1.5, 0.8, 20), []
    for parameter, value in (("lead_time", 0.1), ("bandwidth", 5.0), ("lead_time", 0.03), ("lead_time", 0.02)):
        said += rig.set(**{f"publish__{parameter}": value})
        rig.go(0.4, 0.1, send)
    lowered = rig.now
    said += rig.set(limits__velocity=[0.4, 0.4])
    rig.go(2.0, 0.1, send)
    rig.go(9.0)
    rig.parameters["publish__lead_time"] = 0.1
    rig.check(not said, f"set: {said}")
    rig.good(forward=1)
    speed = np.abs(rig.rates(lowered + 1.0)[2]).max()
    rig.check(speed <= 0.4004, f"1 s after the limit was lowered to 0.4: {speed:.3f} rad/s; {rig.reasons()}")
    yield rig


@case("urdf-in-motion")
def urdf_in_motion(name: str) -> Iterator[Rig]:
    """A URDF with lower limits arrives during a motion, 0.6 rad before its position limit, which the arm keeps."""
    rig, send = streaming(1.0, 1.8, 0.8, 20, limits=None, limits__urdf="topic", limits__assumed_velocity=2.0)
    hi = rig.place[0] + 0.6
    limit = f'<limit lower="-3" upper="{hi}" velocity="0.5" effort="1" acceleration="4" jerk="100"/>'
    joints = "".join(
        f'<link name="l{i}"/><joint name="joint{i}" type="revolute"><parent link="base"/><child link="l{i}"/>'
        f'<axis xyz="0 0 1"/>{limit}</joint>'
        for i in range(2)
    )
    rig.description.publish(String(data=f'<?xml version="1.0"?><robot name="r"><link name="base"/>{joints}</robot>'))
    arrived = rig.now
    rig.go(3.0, 0.1, send)
    rig.go(1.5)
    rig.rests()
    t, p, v, *_ = rig.rates(arrived)
    rig.check(p.max() <= hi + 1e-6, f"position limit {hi - p.max():+.4f} rad left")
    speed = np.abs(v[t > arrived + 1.0]).max()
    rig.check(speed <= 0.5005, f"speed 1 s later {speed:.3f} rad/s (limit 0.5)")
    rig.within(limits={"v": 2.0, "a": 16.0, "j": 256.0}, what="assumed at first: ")
    yield rig
