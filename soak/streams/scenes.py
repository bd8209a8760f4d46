"""Scenes: a robot, its controller, its network and a policy, drawn by a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from rig.simulated import BEGIN_S

from .plans import Bounds, Course, Ramp, Way
from .policies import JERK, POSITION, VELOCITY, Form, Policy

SETTLE_S = 0.3
"""Time until the first observation, s."""
TRANSPORT_S = 0.0005, 0.010
"""Shortest and longest delay to and from the controller, s."""
LAG_S = 0.040
"""Largest lag of an arm, s."""
NOISE_RAD = 1e-4, 2e-3
"""Smallest and largest noise, rad, of the rows of a learned policy; three of ten policies of positions have some."""
_NOISY = 0.3
FREEZE = "freeze"
RESTART = "restart"
DEAD = "dead joint states"


@dataclass(frozen=True)
class Disturbance:
    """A disturbance of the robot, and its times, s."""

    kind: str
    begin: float
    end: float
    states_too: bool = True
    """True if a restart also ends the joint states until its end."""


@dataclass(frozen=True)
class Sending:
    """How chunks get from the policy to the node: observations per second and their jitter, s, from begin to end, s.

    An `inference` lasts from observation to the node, s; `lost`, `doubled` and `late` are shares of chunks, and late
    ones take 0.1 to 0.4 s more.
    """

    rate: float
    jitter: float
    inference: tuple[float, float]
    lost: float
    doubled: float
    late: float
    begin: float
    end: float


@dataclass(frozen=True)
class Scene:
    """All that a simulation needs; times in s."""

    seed: int
    bounds: Bounds
    """Limits of the robot itself."""
    position_min: np.ndarray
    position_max: np.ndarray
    complete: bool
    """True if the node gets all limits; otherwise it gets position and velocity alone, as from a URDF."""
    start: np.ndarray
    lag: float
    droop: np.ndarray
    noise: float
    quantization: float
    disturbances: tuple[Disturbance, ...]
    transport: tuple[float, float]
    """Shortest and longest delay of a message to or from the controller or the joints."""
    joint_rate: int
    state_rate: int
    """Messages with the controller's state per second; 0: none."""
    state_is_next: bool
    """True if a report has the command of its own cycle (for a period later), False if that of the cycle before."""
    from_desired: bool
    lead_time: float
    sending: Sending
    form: Form
    policy: Callable[[np.random.Generator], Policy] = field(repr=False)
    forward: np.ndarray | None = None
    """Direction `[D]` against which no joint may move; None: the stream is not a forward one."""
    perfect: bool = False
    """True if every chunk continues the one before, and is there in time."""
    words: str = ""
    """What is special about the scene, in words."""

    @property
    def dof(self) -> int:
        """Number of joints."""
        return len(self.start)

    @property
    def joints(self) -> list[str]:
        """Their names."""
        return [f"joint{k + 1}" for k in range(self.dof)]


def random_scene(seed: int, *, with_state: bool = True) -> Scene:
    """Draw a scene; the same seed gives the same one.

    If the controller publishes no state, the arm has no sag, noise, quantization and restarts.
    """
    random = np.random.default_rng([seed, 1])
    dof = int(random.integers(1, 8))
    velocity = random.uniform(0.8, 3.0, dof)
    acceleration = velocity * random.uniform(3.0, 8.0, dof)
    jerk = acceleration * _log_uniform(random, 6.0, 200.0)
    bounds = Bounds(velocity, acceleration, jerk)
    start = random.uniform(-1.0, 1.0, dof)
    low, high = sorted(random.uniform(*TRANSPORT_S, 2))
    lead_time = 0.02 if high <= 0.012 else round(high + 0.01, 3)
    form, sending = _form_and_sending(random, lead_time)
    # a generator of its own, so that the other draws stay as they were without noise
    chance = np.random.default_rng([seed, 4])
    if form.space == POSITION and chance.random() < _NOISY:
        form = replace(form, noise=_log_uniform(chance, *NOISE_RAD))
    disturbances = _disturbances(random, with_state, sending)
    scene = Scene(
        seed=seed,
        bounds=bounds,
        position_min=start - random.uniform(4.0, 6.0, dof),
        position_max=start + random.uniform(4.0, 6.0, dof),
        complete=bool(random.random() < 0.5),
        start=start,
        lag=round(random.uniform(0.0, LAG_S), 3) * int(random.random() < 0.8),
        droop=random.uniform(-0.02, 0.02, dof) * int(with_state and random.random() < 0.4),
        noise=1e-4 * int(with_state and random.random() < 0.5),
        quantization=1e-4 * int(with_state and random.random() < 0.5),
        disturbances=disturbances,
        transport=(low, high),
        joint_rate=int(random.choice([100, 125, 250, 500, 1000], p=[0.25, 0.25, 0.2, 0.2, 0.1])),
        state_rate=int(random.choice([50, 100, 250, 500, 1000])) * int(with_state),
        state_is_next=bool(random.random() < 0.5),
        from_desired=not with_state or bool(random.random() < 0.3),
        lead_time=lead_time,
        sending=sending,
        form=form,
        policy=lambda _: None,
    )
    return _with_policy(scene, random)


def _log_uniform(random: np.random.Generator, low: float, high: float, size: int | None = None) -> np.ndarray | float:
    return np.exp(random.uniform(np.log(low), np.log(high), size))


def _form_and_sending(random: np.random.Generator, lead_time: float) -> tuple[Form, Sending]:
    rate = float(_log_uniform(random, 2.0, 50.0))
    dt = float(random.choice([0.01, 0.02, 0.03, 0.04, 0.05, 0.1]))
    horizon = int(random.integers(1, 51))
    stamped = bool(random.random() < 0.6)
    space = int(random.choice([POSITION, VELOCITY, JERK], p=[0.72, 0.2, 0.08]))
    inference = float(random.choice([0.0, random.uniform(0.0, 0.3)]))
    spread = float(random.choice([0.002, random.uniform(0.0, 0.05), random.uniform(0.0, 0.15)]))
    unlucky = bool(random.random() < 0.35)
    shares = random.uniform(0.0, 0.2, 3) * (random.random(3) < 0.5) * unlucky
    if random.random() < 0.85:
        # Chunks that last until the next one arrives; with others, the robot stops in between.
        needed = inference + spread + 1.5 / rate + lead_time + 0.05
        horizon = min(max(horizon, int(np.ceil(needed / dt))), 50)
        if horizon * dt < needed:
            dt = float(next((d for d in (0.02, 0.03, 0.04, 0.05, 0.1) if d * 50 >= needed), 0.1))
            horizon = min(int(np.ceil(needed / dt)), 50)
    begin = BEGIN_S + SETTLE_S
    sending = Sending(
        rate,
        float(random.uniform(0.0, 0.3)) / rate * int(random.random() < 0.5),
        (max(inference, 0.001), max(inference, 0.001) + spread),
        *shares.tolist(),
        begin,
        begin + float(random.uniform(2.0, 4.0)),
    )
    return Form(space, dt, horizon, stamped), sending


def _disturbances(random: np.random.Generator, with_state: bool, sending: Sending) -> tuple[Disturbance, ...]:
    if random.random() < 0.5:
        return ()
    names = [FREEZE, DEAD, *[RESTART] * (2 * with_state)]
    name = str(random.choice(names))
    begin = float(random.uniform(sending.begin + 0.2, sending.end - 1.0))
    length = {
        FREEZE: float(random.choice([random.uniform(0.02, 0.2), random.uniform(0.2, 1.0)])),
        RESTART: float(random.uniform(0.05, 0.15)),
        DEAD: float(random.choice([random.uniform(0.05, 0.45), random.uniform(0.6, 1.2)])),
    }[name]
    return (Disturbance(name, begin, begin + length, bool(random.random() < 0.5)),)


def _with_policy(scene: Scene, random: np.random.Generator) -> Scene:
    """Add the policy, and the fields that follow from it."""
    form, sending, dof = scene.form, scene.sending, scene.dof
    if form.space == JERK:  # jerks are integrated: correct from rest and along one course only
        form = replace(form, stamped=True)
        # Chunks begin on the grid of the previous one's steps; otherwise each would begin with another acceleration.
        rate = 1 / (form.dt * max(round(1 / (sending.rate * form.dt)), 1))
        sending = replace(sending, lost=0.0, doubled=0.0, late=0.0, jitter=0.0, rate=rate)
        least = int(np.ceil((sending.inference[1] + 1.5 / sending.rate + 0.1) / form.dt))
        form = replace(form, horizon=max(form.horizon, min(least, 50)))
        scene = replace(scene, disturbances=())
        if form.horizon * form.dt < sending.inference[1] + 1.5 / sending.rate + 0.1:
            form = replace(form, space=POSITION)
    share = random.uniform(0.4, 0.75)
    meant = scene.bounds.times(share, share * random.uniform(0.5, 0.9), share * random.uniform(0.3, 0.6))
    pauses = []
    longer = float(random.choice([0.0, random.uniform(0.2, 0.6)]))
    for it in scene.disturbances:
        if longer:
            pauses.append((it.begin + random.uniform(0.05, 0.3), it.end + longer + random.uniform(0.0, 0.5)))
    extend = max((end for _, end in pauses), default=0.0)
    extend = max(extend, *(it.end for it in scene.disturbances), 0.0) + 1.6 if scene.disturbances else 0.0
    sending = replace(sending, end=max(sending.end, extend))
    choice = str(random.choice(["course", "forward", "closed", "constant"], p=[0.3, 0.35, 0.25, 0.1]))
    choice = "course" if form.space == JERK else choice
    direction = random.choice([-1.0, 1.0], dof)
    slowest = 0.02 + sending.inference[1] + scene.lead_time + scene.lag + 0.1
    patience = np.inf if form.space == JERK else 0.1 + float(meant.velocity.max()) * slowest
    scene = replace(scene, form=form, sending=sending, forward=direction if choice == "forward" else None)
    resting = np.array([scene.start, *np.zeros((2, dof))])

    def from_measured(measured: np.ndarray) -> np.ndarray:
        return np.array([measured[0], np.clip(measured[1], -meant.velocity, meant.velocity), np.zeros(dof)])

    if choice in ("course", "forward"):
        forward = scene.forward
        keys = [int(k) for k in random.integers(0, 2**31, 4)]

        def new_course(now: float, measured: np.ndarray) -> Course:
            chance = np.random.default_rng([*keys, round(now * 1e6)])
            return _course(now, from_measured(measured), forward, meant, sending.end, chance)

        first = _course(sending.begin, resting, forward, meant, sending.end, random)
        perfect = not scene.disturbances and form.stamped and not (sending.lost or sending.late)
        policy = partial(Policy, anew=new_course, course=first, patience=patience)
        scene = replace(scene, perfect=perfect)
    elif choice == "closed":
        times = np.sort(random.uniform(sending.begin, sending.end, int(random.integers(0, 3)))).tolist()
        goals = [(begin, scene.start + random.uniform(-1.2, 1.2, dof)) for begin in [0.0, *times]]

        def to_goal(now: float, measured: np.ndarray) -> Way:
            return Way(now, from_measured(measured), [goal for begin, goal in goals if begin <= now][-1], meant)

        policy = partial(Policy, anew=to_goal)
    else:
        velocity = meant.velocity * random.uniform(-0.5, 0.5, dof)
        policy = partial(Policy, anew=lambda now, measured: Ramp(now, measured[0], velocity))
    return replace(scene, policy=lambda chance: policy(form, direction, chance, pauses), words=choice)


def _course(
    begin: float,
    state: np.ndarray,
    forward: np.ndarray | None,
    meant: Bounds,
    until: float,
    random: np.random.Generator,
) -> Course:
    """Return motions from a state on, until about a time; none goes against `forward`."""
    dof, reach, middle, ways = state.shape[1], 1.2, state[0].copy(), []
    # Half of the courses are still moving when the stream ends.
    until = until - float(random.choice([0.0, 0.8]))
    time = begin
    while time < until or not ways:
        moved = random.random(dof) < 0.85
        if forward is None:
            target, through = np.where(moved, middle + random.uniform(-reach, reach, dof), state[0]), None
        else:
            rolling = np.maximum(state[1] * forward, 0.0)
            stopping = rolling * (rolling / meant.acceleration + 1.5 * meant.acceleration / meant.jerk)
            target = state[0] + forward * (random.uniform(0.15, 0.8, dof) * moved + 0.05 + stopping)
            through = forward * meant.velocity * random.uniform(0.0, 0.7, dof) * int(random.random() < 0.5)
        way = Way(time, state, target, meant, through)
        if through is not None and not _goes(way, forward):
            way = Way(time, state, target, meant)
        ways.append(way)
        time, state = way.end, way.state(way.end)
        if np.abs(state[0] - middle).max() > 3.0:
            break
    if np.abs(state[1:]).max() > 1e-9:  # a course ends at rest
        seconds = np.abs(state[1]) / meant.acceleration + 1.5 * meant.acceleration / meant.jerk
        ways.append(Way(time, state, state[0] + state[1] * seconds, meant))
    return Course(ways)


def _goes(way: Way, forward: np.ndarray) -> bool:
    """Return whether a way does not go back."""
    speed = way.states(np.linspace(way.begin, way.end, 100))[1]
    return bool((speed * forward).min() >= -1e-9)
