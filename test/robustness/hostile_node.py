"""A node under fire: sends it one message after the other, and holds what becomes of each against a verdict."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from hostile_cases import NODE, good_evaluation, good_plan, good_report, good_sequence
from hostile_ledger import Ledger
from hostile_oracle import OUTPUTS, Verdict
from rclpy.publisher import Publisher
from ros_client import RosClient
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.traffic.messages import set_stamp
from traj_integrator_ros.traffic.node_process import NodeProcess

PARAMETERS = {
    "joint_names": list(NODE.joint_names),
    "dt": NODE.dt_s,
    "device": "cpu",
    "max_batch": NODE.max_batch,
    "max_horizon": NODE.max_horizon,
    "warmup": [f"{NODE.max_batch}x{NODE.max_horizon}"],
    "state_timeout": 0.0,
    "limits.start_deviation": 0.0,
    # Nobody moves as it is told, and no limits are given: they would count for ~/evaluate, too.
    "limits.assumed_velocity": 10.0,
    "supervision.deviation": 0.0,
    "publish.bridge_time": 0.02,
    # Counts are read after each message.
    "diagnostics.period": 0.01,
    # A joint state that best effort loses would look like one that was not counted.
    "qos_overrides./joint_states.subscription.reliability": "reliable",
    "qos_overrides./controller_state.subscription.reliability": "reliable",
}
ACTIONS, PLAN, STATE = "~/action_sequence", "~/position_trajectory", "joint_states"
REPORT = "controller_state"
INTEGRATE, GRADIENT, EVALUATE, COMMITTED = "~/integrate", "~/compute_gradient", "~/evaluate", "~/committed"
ANSWER_TIMEOUT_S = 15.0
TOLERATED_GROWTH = 1.05
MANY = 1000
"""More names than these take a service long to decode."""


class HostileNode:
    """Sends messages of every kind and judges the answers; every trajectory received is checked.

    Each bad message is followed by a good one on the same channel, which must be answered.
    """

    def __init__(self, process: NodeProcess, ledger: Ledger, report_type: type | None = None) -> None:
        self.process = process
        self.ledger = ledger
        self.client = RosClient(NODE.joint_names)
        self.client.wait_until_active()
        self.report_type = report_type
        """The message of the controller's reports; None: there is none."""
        if report_type is not None:
            self.reports = self.client.publisher(report_type, "controller_state")
        self.warm_bytes = 0
        self.newest_stamp_ns = 0
        self.serves = True
        """Whether good messages are answered now; else none is sent after a bad one."""
        self._number = 0
        self.told: list[Rejection] = []
        """What came on ~/rejections since the last message to a topic."""
        self._reasons: list[str] = []
        self.client.subscribe(Rejection, "~/rejections", self.told.append, 100)
        self.rejected: Counter = Counter()
        self._own: Counter = Counter()  # rejections of requests that only ask what the node knows or would do
        self.settle()

    def close(self) -> None:
        self.client.close()

    def reset(self) -> None:
        """Let the node forget what it has commanded, and start anew from a robot at rest."""
        assert self.client.change_state("deactivate") and self.client.change_state("activate")
        self.settle()

    def settle(self) -> None:
        """Publish a joint state and wait until trajectories start from it; take the counts from there."""
        self._bridged = False
        self._position = 1e-6 * self._next()
        self.newest_stamp_ns = time.time_ns()
        self.client.publish_state([self._position] * NODE.dof, stamp_ns=self.newest_stamp_ns)
        self.client.wait_for(self._holds_state, "the joint state in use", ANSWER_TIMEOUT_S)
        self.take_counts()

    def take_counts(self) -> None:
        """Take the counts as they are for those that the next message adds to."""
        counts = self.client.counts()
        self._sequences, self.rejected = int(counts["sequences"]), _rejected(counts)
        self.calls = int(counts["service_calls"])

    def catch_up(self) -> None:
        """Take the counts after others have spoken to the node; what they made it tell in the meantime is past."""
        self.client.spin(0.3)
        self.take_counts()

    # Topics

    def sequence(self, message: ActionSequence | bytes, verdict: Verdict) -> None:
        """Send a sequence, or the bytes of one, and a good one after it."""
        good = good_sequence()
        good.header.stamp.sec = number = self._next()
        asks = isinstance(message, ActionSequence) and not verdict.goes_far and len(message.joint_names) <= MANY
        foretold = self._foretold(message) if asks else None
        batches = self.client.batches
        self._send(self.client.sequences, message, good, verdict)
        self._conclude(
            ACTIONS,
            message,
            verdict,
            batches,
            lambda: any(batch.header.stamp.sec == number for batch in batches),
            foretold,
        )

    def _foretold(self, message: ActionSequence) -> list[str]:
        """The reason that ~/integrate gives, asked whether the topic would refuse a sequence now; none if not."""
        request = Integrate.Request(actions=message, as_published=True)
        response = self.client.call(Integrate, "integrate", request, ANSWER_TIMEOUT_S)
        return [] if response.success else [self._of_own(response)]

    def _of_own(self, response: object) -> str:
        """The reason for which a request was refused that only asks."""
        reason = response.message.partition(":")[0]
        self.rejected[reason] += 1
        self._own[reason] += 1
        return reason

    def plan(self, message: JointTrajectory | bytes, verdict: Verdict) -> None:
        """Send positions and times, or the bytes of such a message, and a good one after it."""
        position = 1e-6 * self._next()
        answers = self.client.trajectories
        self._send(self.client.plans, message, good_plan(position), verdict)
        self._conclude(
            PLAN,
            message,
            verdict,
            answers,
            lambda: any(np.allclose(answer.points[-1].positions, position, rtol=0, atol=1e-8) for answer in answers),
        )

    def state(self, message: JointState | bytes, verdict: Verdict) -> None:
        """Send a joint state, measured now; a bad one must be counted, and leave the one before it in force."""
        if isinstance(message, JointState) and not message.header.stamp.sec:
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
        before, own_before = self.rejected.copy(), self._own.copy()
        self.client.states.publish(message)
        problem = ""
        if not verdict.may_pass:
            expected = before.total() + 1
            try:
                self.client.wait_for(lambda: self._latest().total() >= expected, "count", ANSWER_TIMEOUT_S)
            except TimeoutError:
                problem = "not counted"
            if "clock_jumped_back" not in verdict.reasons and not self._holds_state():
                problem += " the joint state before it is gone"
        # What comes of one that is taken after it tells that it has arrived.
        now = self._latest()
        self.settle()
        if verdict.may_pass:
            now = self.rejected - (self._own - own_before)
        self._judge(STATE, message, verdict, list((now - before).elements()), problem)
        self.ledger.good[STATE] += 1

    def report(self, message: object, verdict: Verdict) -> None:
        """Send a report of the controller; a bad one must be counted and change nothing, a good one must be taken."""
        before, own_before, problem = self._latest(), self._own.copy(), ""
        if not isinstance(message, bytes):
            set_stamp(message, time.time_ns())
        self.reports.publish(message)
        if not verdict.may_pass:
            try:
                self.client.wait_for(lambda: self._latest().total() > before.total(), "count", ANSWER_TIMEOUT_S)
            except TimeoutError:
                problem = "not counted"
            if _values(self.client)["controller"] != "unknown":
                problem += f" the controller is {_values(self.client)['controller']}"
        position = 1e-6 * self._next()
        self.client.wait_for(lambda: self._commands(position), "the good report in use", ANSWER_TIMEOUT_S)
        told = _rejected(self.client.counts()) - before - (self._own - own_before)
        self._judge(REPORT, message, verdict, list(told.elements()), problem)
        self.ledger.good[REPORT] += 1
        self.reset()

    def publish_report(self, position: float, velocity: float = 0.0, speed_scaling: float = 1.0) -> None:
        """Publish a good report of this cycle."""
        message = good_report(self.report_type, position, velocity)
        message.speed_scaling_factor = speed_scaling
        set_stamp(message, time.time_ns())
        self.reports.publish(message)

    def _commands(self, position: float) -> bool:
        """Whether a report is what the motion of the robot would begin with."""
        self.publish_report(position)
        response = self.client.call(Committed, "committed", Committed.Request(rows=1), ANSWER_TIMEOUT_S)
        if not response.success:
            self._of_own(response)
        return response.success and np.allclose(response.position, position, rtol=0, atol=1e-9)

    # Services

    def integrate(self, message: ActionSequence, verdict: Verdict) -> None:
        """Call ~/integrate, and once more with a good request."""
        response = self.client.call(Integrate, "integrate", Integrate.Request(actions=message), ANSWER_TIMEOUT_S)
        if response.success:
            _assert_batch(response.trajectory)
        values = [len(getattr(response.trajectory, name)) for name in OUTPUTS]
        self._conclude_call(INTEGRATE, message, verdict, response, any(values))
        if not self.serves:
            return
        again = self.client.integrate(good_sequence())
        assert again.success, again.message
        _assert_batch(again.trajectory)
        self.ledger.good[INTEGRATE] += 1

    def committed(self, request: Committed.Request, verdict: Verdict) -> None:
        """Call ~/committed, and once more with a good request."""
        response = self.client.call(Committed, "committed", request, ANSWER_TIMEOUT_S)
        if response.success:
            for name in ("position", "velocity"):
                values = np.asarray(getattr(response, name))
                assert values.size == request.rows * NODE.dof and np.isfinite(values).all(), response
        self._conclude_call(COMMITTED, request, verdict, response, bool(response.position))
        if self.serves:
            again = self.client.call(Committed, "committed", Committed.Request(rows=3), ANSWER_TIMEOUT_S)
            assert again.success and len(again.position) == 3 * NODE.dof, again
            self.ledger.good[COMMITTED] += 1

    def compute_gradient(self, request: ComputeGradient.Request, verdict: Verdict) -> None:
        """Call ~/compute_gradient, and once more with a good request."""
        fields = [f"grad_{name}" for name in ("action", "start_position", "start_velocity", "start_acceleration", "dt")]
        response = self.client.call(ComputeGradient, "compute_gradient", request, ANSWER_TIMEOUT_S)
        if response.success:
            assert all(np.isfinite(getattr(response, name)).all() for name in fields), response
        self._conclude_call(GRADIENT, request, verdict, response, any(len(getattr(response, name)) for name in fields))
        if not self.serves:
            return
        good = ComputeGradient.Request(actions=good_sequence())
        good.grad_position = good.actions.data
        again = self.client.compute_gradient(good)
        assert again.success, again.message
        self.ledger.good[GRADIENT] += 1

    def evaluate(self, request: Evaluate.Request, verdict: Verdict) -> None:
        """Call ~/evaluate, and once more with a good request."""
        ends = [f"{end}_{name}" for end in ("start", "goal") for name in OUTPUTS[:3]]
        fields = ["cost", *(f"grad_{name}" for name in ("action", "dt", *ends))]
        response = self.client.call(Evaluate, "evaluate", request, ANSWER_TIMEOUT_S)
        if response.success:
            assert all(np.isfinite(getattr(response, name)).all() for name in fields), response
            assert len(response.cost) == request.actions.batch
            violations = [np.asarray(getattr(response, f"violation_{name}")) for name in OUTPUTS]
            assert any(some.size for some in violations) == request.want_limit_violations
            assert all((some < np.inf).all() for some in violations), "NaN or infinite"
            assert response.trajectory.batch == len(request.trajectory_rows)
        self._conclude_call(EVALUATE, request, verdict, response, any(len(getattr(response, name)) for name in fields))
        if not self.serves:
            return
        again = self.client.evaluate(good_evaluation())
        assert again.success, again.message
        self.ledger.good[EVALUATE] += 1

    # What must hold after all of it

    def assert_in_good_health(self, what: str) -> None:
        """Check that it is alive, has grown by no more than 5 % since warm-up, and met with nothing unforeseen."""
        assert self.process.is_running(), self.process.output
        with contextlib.suppress(TimeoutError):  # the first ones read may have waited for long
            self.client.wait_for(lambda: self._latest() == self.rejected, "counts", 5.0)
        counts = self.client.counts()
        rejected = _rejected(counts)
        assert (int(counts["sequences"]), rejected - self.rejected, self.rejected - rejected) == (
            self._sequences, Counter(), Counter()
        )  # fmt: skip
        assert "internal_error" not in self.process.output, self.process.output
        if self.warm_bytes:
            now = self.process.memory_bytes("VmRSS")
            self.ledger.memory[what] = (self.warm_bytes, now)
            assert now <= self.warm_bytes * TOLERATED_GROWTH, (self.warm_bytes, now)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _bridge(self) -> None:
        """Have a motion in execution: until the first one begins, of several that come only the last is executed."""
        self._sent = 0
        self.client.trajectories.clear()
        self._publish(self.client.plans, good_plan())
        self.client.wait_for(lambda: self.client.trajectories, "a first motion", ANSWER_TIMEOUT_S)
        self.client.spin(1.5 * PARAMETERS["publish.bridge_time"])
        self._bridged = True

    def _send(self, publisher: Publisher, message: object, good: object, verdict: Verdict) -> None:
        if self.serves and not self._bridged:
            self._bridge()
        self.client.batches.clear()
        self.client.trajectories.clear()
        self.told.clear()
        self._sent = 0
        self._publish(publisher, message)
        self._reasons = []
        if verdict.goes_far:
            self._await_counts()
            self._reasons = self._new_reasons()
            self.reset()
        if self.serves:
            self._publish(publisher, good)

    def _publish(self, publisher: Publisher, message: object) -> None:
        publisher.publish(message)
        self._sent += 1
        self._sequences += 1

    def _await_counts(self) -> None:
        """Wait until the counts include everything sent."""
        self.client.wait_for(
            lambda: self.client.statuses and int(_values(self.client)["sequences"]) >= self._sequences,
            "counts", ANSWER_TIMEOUT_S,
        )  # fmt: skip

    def _conclude(
        self,
        channel: str,
        message: object,
        verdict: Verdict,
        answers: list,
        good: Callable[[], bool],
        foretold: list[str] | None = None,
    ) -> None:
        """Judge by the counts, once they include everything sent.

        `good`: whether the good message is answered; `foretold`: what ~/integrate said would become of the other.
        """
        self._await_counts()
        told = [*self._reasons, *self._new_reasons()]
        expected = self._sent - len(told)
        problem = ""
        try:
            self.client.wait_for(lambda: len(answers) >= expected and (good() or not self.serves), "answers", 5.0)
            if channel == ACTIONS:
                self.client.wait_for(lambda: len(self.client.trajectories) == len(self.client.batches), "both topics")
                for batch in self.client.batches:
                    _assert_batch(batch)
        except TimeoutError as missing:
            problem = str(missing)
        if len(answers) != expected:
            problem += f" {len(answers)} answers instead of {expected}"
        if foretold is not None and (bool(foretold) != bool(told) or not verdict.reasons >= set(foretold)):
            problem += f" ~/integrate foretold {foretold}"
        self._judge(channel, message, verdict, told, problem or self._rejections_differ(channel, message, told))
        self.ledger.good[channel] += self.serves

    def _rejections_differ(self, channel: str, message: object, told: list[str]) -> str:
        """What is wrong with what ~/rejections told of a message: nothing if it is its reason and its stamp."""
        expected = [] if "not_active" in told else told
        with contextlib.suppress(TimeoutError):
            self.client.wait_for(lambda: len(self.told) >= len(expected), "rejections", 5.0)
        found = [one.reason for one in self.told]
        if found != expected:
            return f"~/rejections: {found} instead of {expected}"
        for one in self.told:
            if (one.topic, one.count) != (channel.removeprefix("~/"), 1) or not one.text or len(one.text) > 600:
                return f"~/rejections: {one}"
            if not isinstance(message, bytes) and one.header.stamp != message.header.stamp:
                return f"~/rejections: stamp {one.header.stamp}"
        return ""

    def _conclude_call(self, channel: str, message: object, verdict: Verdict, response: object, values: bool) -> None:
        reason = response.message.partition(":")[0]
        text = response.message
        told = [] if response.success else [reason]
        self.rejected.update(told)
        problem = ""
        if response.success == bool(text) or (values and not response.success):
            problem = "success, message and values contradict each other"
        elif told and not any(text.startswith(f"{reason}: {field}") for r, field in verdict.faults if r == reason):
            problem = f"expected one of {sorted(verdict.faults)}"
        elif not (len(text) < 600 and text.isprintable()):
            problem = "not one printable line"
        self._judge(channel, message, verdict, told, problem and f"{problem}: {text}")

    def _judge(self, channel: str, message: object, verdict: Verdict, told: list[str], problem: str) -> None:
        """Record a message in the ledger; `told`: the reasons that the node gave for refusing it."""
        right = told[0] in verdict.reasons and len(told) == 1 if told else verdict.may_pass
        if problem or not right:
            line = f"{channel}: expected {sorted(verdict.reasons)}{' or an answer' * verdict.may_pass}, got {told}"
            self.ledger.wrong.append(f"{line} {problem}")
            raise AssertionError(f"{line} {problem}\n{shortened(message)}")
        if told:
            self.ledger.right[channel, told[0]] += 1
        else:
            self.ledger.good[channel] += 1

    def _latest(self) -> Counter:
        return _rejected(_values(self.client))

    def _new_reasons(self) -> list[str]:
        """Reasons counted since the last call, beyond those that services returned."""
        now = self._latest()
        assert not self.rejected - now, f"told by a service, but not counted: {self.rejected - now}"
        new = list((now - self.rejected).elements())
        self.rejected = now
        return new

    def _holds_state(self) -> bool:
        """Whether trajectories start from the joint state that was sent last."""
        response = self.client.integrate(good_sequence(start_position=np.zeros(0, np.float32)))
        if not response.success:
            self._of_own(response)
        return response.success and np.allclose(response.trajectory.position[: NODE.dof], self._position, atol=1e-8)


def shortened(message: object) -> str:
    """A message for a line of output."""
    text = message.hex() if isinstance(message, bytes) else str(message)
    return text if len(text) < 1_000 else f"{text[:1_000]}... ({len(text)} characters)"


def _assert_batch(batch: TrajectoryBatch) -> None:
    """Finite, and as long as it says; joint trajectories are checked by the client as they come."""
    for name in OUTPUTS:
        values = np.asarray(getattr(batch, name))
        assert values.size == batch.batch * batch.horizon * NODE.dof, (name, values.size)
        assert np.isfinite(values).all(), name
    times = np.asarray(batch.time_from_start).reshape(-1, batch.horizon)
    assert np.isfinite(times).all() and (np.diff(times, axis=1) > 0).all()


def _values(client: RosClient) -> dict[str, str]:
    return {pair.key: pair.value for pair in client.statuses[-1].values}


def _rejected(counts: dict[str, str]) -> Counter:
    prefix = "rejected."
    return Counter({key[len(prefix) :]: int(value) for key, value in counts.items() if key.startswith(prefix)})
