"""What planners mean: motions, their rows as actions, and streams of chunks of them."""

from __future__ import annotations

import random

import numpy as np
import ruckig

from .loop import NS
from .planner import ACC, JERK, POS, VEL


def way(seed, dof, v, a, j, lo, hi, seconds, start, begin=0.0, pause=0.3, share=1.0):
    """Jerk-limited point-to-point motions within shares of limits; a function of times: [3, n, dof]."""
    r = np.random.default_rng(seed)
    segments, t, p = [], begin, np.asarray(start, float).copy()

    def as_list(x):
        return (np.broadcast_to(np.asarray(x, float), dof) * share).tolist()

    while t < begin + seconds:
        i = ruckig.InputParameter(dof)
        i.current_position, i.current_velocity, i.current_acceleration = list(p), [0.0] * dof, [0.0] * dof
        q = r.uniform(lo, hi, dof)
        i.target_position, i.target_velocity, i.target_acceleration = list(q), [0.0] * dof, [0.0] * dof
        i.max_velocity, i.max_acceleration, i.max_jerk = as_list(v), as_list(a), as_list(j)
        made = ruckig.Trajectory(dof)
        assert ruckig.Ruckig(dof).calculate(i, made) >= 0
        segments.append((t, made))
        t += made.duration + (r.uniform(0, pause) if pause else 0.0)
        p = q
    begins = np.array([s[0] for s in segments])

    def at(x):
        x = np.atleast_1d(np.asarray(x, float))
        k = np.searchsorted(begins, x, side="right") - 1
        out = np.zeros((3, len(x), dof))
        for n, (kk, xx) in enumerate(zip(k, x, strict=False)):
            if kk < 0:
                out[0, n] = start
            else:
                s = xx - begins[kk]
                out[:, n] = segments[kk][1].at_time(float(min(max(s, 0.0), segments[kk][1].duration)))
                if s > segments[kk][1].duration:
                    out[1:, n] = 0
        return out

    at.end = segments[-1][0] + segments[-1][1].duration
    return at


def motion(p, v, a, q, V, A, J):
    """The time-optimal motion from a state to rest at q: duration, function of times [3, n, dof]."""
    dof = len(p)
    i = ruckig.InputParameter(dof)
    i.current_position, i.current_velocity, i.current_acceleration = (
        list(map(float, p)),
        list(map(float, v)),
        list(map(float, a)),
    )
    i.target_position, i.target_velocity, i.target_acceleration = list(map(float, q)), [0.0] * dof, [0.0] * dof
    i.max_velocity, i.max_acceleration, i.max_jerk = [V] * dof, [A] * dof, [J] * dof
    made = ruckig.Trajectory(dof)
    assert ruckig.Ruckig(dof).calculate(i, made) >= 0
    T = made.duration

    def at(x):
        x = np.atleast_1d(np.asarray(x, float))
        out = np.array([made.at_time(float(min(max(s, 0.0), T))) for s in x]).transpose(1, 0, 2)
        out[1:, x > T] = 0
        return out

    return T, at


def minimum_jerk(t, T, d):
    """Position on the way to d within T, from rest to rest."""
    s = np.clip(np.asarray(t, float) / T, 0, 1)
    return d * (10 * s**3 - 15 * s**4 + 6 * s**5)


def ramp(t, v, T=0.5):
    """Position of a joint that speeds up smoothly to v within T."""
    t = np.maximum(np.asarray(t, float), 0)
    s = np.minimum(t / T, 1)
    return v * (T * (s**3 - s**4 / 2) + np.maximum(t - T, 0))


def rows(space, at, t0, dt, n):
    """Actions of a plan `at` (function of times) from t0 on."""
    k = t0 + np.arange(n) * dt
    a, b = at(k), at(k + dt)
    return {POS: b[0], VEL: (b[0] - a[0]) / dt, ACC: (b[1] - a[1]) / dt, JERK: (b[2] - a[2]) / dt}[space]


# Cases


def held(space, u, dt, start):
    """What held accelerations or jerks mean, exactly: a function of times [3, n, dof]."""
    u = np.asarray(u, np.float32).astype(float)
    states = [tuple(np.asarray(x, float) for x in start)]
    for x in u:
        p, v, a = states[-1]
        if space == ACC:
            states.append((p + v * dt + x * dt * dt / 2, v + x * dt, x))
        else:
            states.append((p + v * dt + a * dt * dt / 2 + x * dt**3 / 6, v + a * dt + x * dt * dt / 2, a + x * dt))

    def at(times):
        times = np.atleast_1d(np.asarray(times, float))
        out = np.empty((3, len(times), len(states[0][0])))
        for n, y in enumerate(times):
            k = min(max(int(y / dt + 1e-9), 0), len(u) - 1)
            (p, v, a), x, h = states[k], u[k], y - k * dt
            out[:, n] = (
                (p + v * h + x * h * h / 2, v + x * h, x)
                if space == ACC
                else (p + v * h + a * h * h / 2 + x * h**3 / 6, v + a * h + x * h * h / 2, a + x * h)
            )
        return out

    return at


def stream(
    rig,
    at,
    seconds,
    rate=10.0,
    dt=0.04,
    horizon=24,
    jitter=0.015,
    inference=0.0,
    space=POS,
    seed=3,
    noise=0.0,
):
    """Chunks stamped with their observation, sent `inference` and jitter later; `at`: of the rig's time."""
    random_, normal = random.Random(seed), np.random.default_rng(seed)
    waiting = []
    begin, k, end = rig.t, 0, rig.t + seconds
    while rig.t < end:
        due = begin + k / rate
        if rig.t >= due:
            stamp = rig.clock(round(due * NS))
            u = rows(space, at, due, dt, horizon)
            u = u + normal.normal(scale=noise, size=u.shape) if noise else u
            waiting.append((due + inference + random_.uniform(0, jitter), u, stamp))
            k += 1
        while waiting and waiting[0][0] <= rig.t:
            _, u, stamp = waiting.pop(0)
            rig.seq(u, dt, space, stamp=stamp)
        rig.go(0.002)
    return k
