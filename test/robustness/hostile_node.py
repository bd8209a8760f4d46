"""A node under fire: sends it one message after the other, and holds what becomes of each against a verdict."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from hostile_messages import NODE, good_plan, good_report, good_sequence
from hostile_oracle import (
    Verdict,
    judge_bytes,
    judge_committed,
    judge_evaluation,
    judge_gradient,
    judge_integration,
    judge_motion,
    judge_plan,
    judge_report,
    judge_state,
)
from hostile_services import (
    COMMITTED,
    EVALUATE,
    GRADIENT,
    INTEGRATE,
    SERVICES,
    arrays_of,
    assert_answered,
    assert_batch,
)
from rclpy.publisher import Publisher
from ros_client import RosClient
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, Integrate
from traj_integrator_ros.client import set_stamp

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
    "publish.start_moving": True,
    "publish.bridge_time": 0.02,
    # Counts are read after each joint state.
    "diagnostics.period": 0.02,
    # A joint state that best effort loses would look like one that was not counted.
    "qos_overrides./joint_states.subscription.reliability": "reliable",
    "qos_overrides./controller_state.subscription.reliability": "reliable",
}
ACTIONS, PLAN, STATE = "~/action_sequence", "~/position_trajectory", "joint_states"
REPORT = "controller_state"
JUDGES = {
    ACTIONS: judge_motion,
    PLAN: judge_plan,
    STATE: judge_state,
    REPORT: judge_report,
    INTEGRATE: judge_integration,
    GRADIENT: judge_gradient,
    EVALUATE: judge_evaluation,
    COMMITTED: judge_committed,
}
"""What must become of a message, by its channel."""
ANSWER_TIMEOUT_S = 15.0
GOOD_EVERY = 4
"""Calls of services."""
OF_ROW = {
    *("no_limits", "limits_violated", "start_mismatch", "stopped", "stale_sequence", "future_sequence", "superseded"),
    *("controller_unavailable", "brake_impossible", "invalid_times", "deviation"),
}
"""Reasons for which a sequence has its batch, but nothing for the controller."""
OF_EITHER = {"non_finite_result", "size_out_of_range"}
TOLERATED_GROWTH = 1.05


class HostileNode:
    """Sends messages of every kind and judges the answers; every trajectory received is checked.

    Bad messages, on a topic each one, are followed by a good one on the same channel, which must be answered. What the
    node tells of each one (in the response, on ~/rejections) is added up, and must be what it has counted in the end.
    """

    def __init__(self, process: NodeProcess, report_type: type | None = None) -> None:
        self.process = process
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
        self.refused = 0
        """Messages refused for a right reason."""
        self.told = self.client.rejections
        """What came since the last message to a topic."""
        self.rejected: Counter = Counter()
        self.settle()

    def reset(self) -> None:
        """Let the node forget what it has commanded, and start anew from a robot at rest."""
        assert self.client.change_state("deactivate") and self.client.change_state("activate")
        self.settle()

    def settle(self) -> None:
        """Publish a joint state and wait until trajectories start from it; take the counts from there."""
        self._measure()
        self.take_counts()

    def take_counts(self) -> None:
        """Take the counts as they are for those that the next message adds to."""
        counts = self.client.counts()
        self._sequences, self.rejected = int(counts["sequences"]), _rejected(counts)

    def catch_up(self) -> None:
        """Take the counts after others have spoken to the node; what they made it tell in the meantime is past."""
        self.client.spin(0.3)
        self.take_counts()

    def send(self, channel: str, message: object, verdict: Verdict | None = None) -> None:
        """Send a message, or the bytes of one, and hold what becomes of it against a verdict, or that of the oracle."""
        verdict = verdict or self.verdict(channel, message)
        if channel in SERVICES:
            self._call(channel, message, verdict)
        elif channel == STATE:
            self._state(message, verdict)
        elif channel == REPORT:
            self._report(message, verdict)
        else:
            self._send(channel, message, verdict)

    def verdict(self, channel: str, message: object) -> Verdict:
        """What the oracle says."""
        now_ns = self.newest_stamp_ns if channel == STATE else time.time_ns()
        if not isinstance(message, bytes):
            return JUDGES[channel](message, NODE, now_ns)
        kinds = {ACTIONS: ActionSequence, PLAN: JointTrajectory, STATE: JointState, REPORT: self.report_type}
        return judge_bytes(message, kinds[channel], lambda decoded: JUDGES[channel](decoded, NODE, now_ns))

    # Topics

    def _send(self, channel: str, message: object, verdict: Verdict) -> None:
        """Send a sequence or a plan and, while the node serves, a good one after it, which must be answered."""
        client, number = self.client, self._next()
        if channel == ACTIONS:
            publisher, answers, good = client.sequences, client.batches, good_sequence()
            good.header.stamp.sec = number
        else:
            publisher, answers, good = client.plans, client.trajectories, good_plan(1e-6 * number)

        def is_good(answer: TrajectoryBatch | JointTrajectory) -> bool:
            if channel == ACTIONS:
                return answer.header.stamp.sec == number
            return np.allclose(answer.points[-1].positions, 1e-6 * number, rtol=0, atol=1e-8)

        if self.serves and not self._bridged:
            self._bridge()
        for received in (client.batches, client.trajectories, self.told):
            received.clear()
        told: list[str] = []
        problem = ""
        try:
            self._publish(publisher, message)
            if not self.serves:
                client.wait_for(lambda: int(client.counts()["sequences"]) >= self._sequences, "count", ANSWER_TIMEOUT_S)
                told = self._new_reasons()
            elif verdict.goes_far:
                self._await_outputs(channel, 1)
                told = self._told()
                self.reset()
            elif "limits_violated" in verdict.reasons:  # a motion may be sought that keeps them, until the next comes
                self._await_outputs(channel, 1)
            if self.serves:
                self._publish(publisher, good)
                client.wait_for(lambda: any(map(is_good, answers)), "the good one answered", ANSWER_TIMEOUT_S)
            if "not_active" not in told:
                self._await_outputs(channel, 1 + self.serves)
        except TimeoutError as missing:
            problem = str(missing)
        for batch in client.batches:
            assert_batch(batch)
        problem = problem or self._wrong_rejection(channel, message)
        self._judge(channel, message, verdict, told or self._told(), problem)

    def _await_outputs(self, channel: str, sent: int) -> None:
        """Wait until each of so many messages is answered or refused on each output."""
        outputs = {"joint_trajectory": self.client.trajectories}
        if channel == ACTIONS:
            outputs["trajectory_batch"] = self.client.batches
        for output, published in outputs.items():
            self.client.wait_for(
                lambda output=output, published=published: (
                    len(published) + sum(one.output in (output, "both") for one in self.told) == sent
                ),
                f"each answered or refused on ~/{output}",
                5.0,
            )

    def _bridge(self) -> None:
        """Have a motion in execution: until the first one begins, of several that come only the last is executed."""
        self.client.trajectories.clear()
        self._publish(self.client.plans, good_plan())
        self.client.wait_for(lambda: self.client.trajectories, "a first motion", ANSWER_TIMEOUT_S)
        self.client.spin(1.5 * PARAMETERS["publish.bridge_time"])
        self._bridged = True

    def _publish(self, publisher: Publisher, message: object) -> None:
        publisher.publish(message)
        self._sequences += 1

    def _told(self) -> list[str]:
        """The reasons that came on ~/rejections, which the node must have counted, too."""
        told = [one.reason for one in self.told]
        self.rejected.update(told)
        return told

    def _wrong_rejection(self, channel: str, message: object) -> str:
        """What is wrong with what ~/rejections told of a message, beside its reason."""
        for one in self.told:
            output = "joint_trajectory" if channel == PLAN or one.reason in OF_ROW else "both"
            if one.output != output and one.reason not in OF_EITHER:
                return f"~/rejections: expected {output}, got {one.output}"
            if (one.topic, one.count) != (channel.removeprefix("~/"), 1) or not one.text or len(one.text) > 600:
                return f"~/rejections: {one}"
            if not isinstance(message, bytes) and one.header.stamp != message.header.stamp:
                return f"~/rejections: stamp {one.header.stamp}"
        return ""

    # States

    def _state(self, message: JointState | bytes, verdict: Verdict) -> None:
        """Send a joint state, measured now; a bad one must be counted, and leave the one before it in force."""
        if isinstance(message, JointState) and not message.header.stamp.sec:
            set_stamp(message, time.time_ns())
        self.client.states.publish(message)
        problem = "" if verdict.may_pass else self._await_count()
        in_part = isinstance(message, JointState) and any(np.isnan(message.position))  # the other joints are taken
        kept = in_part or "clock_jumped_back" in verdict.reasons
        if not verdict.may_pass and not kept and not self._holds_state():
            problem += " the joint state before it is gone"
        self._measure()  # what comes of this one tells that the other has arrived
        self._judge(STATE, message, verdict, self._new_reasons(), problem)

    def _report(self, message: object, verdict: Verdict) -> None:
        """Send a report of the controller; a bad one must be counted and change nothing, a good one must be taken."""
        if not isinstance(message, bytes):
            set_stamp(message, time.time_ns())
        self.reports.publish(message)
        problem = "" if verdict.may_pass else self._await_count()
        if not verdict.may_pass and _values(self.client)["controller"] != "unknown":
            problem += f" the controller is {_values(self.client)['controller']}"
        position = 1e-6 * self._next()
        self.client.wait_for(lambda: self._commands(position), "the good report in use", ANSWER_TIMEOUT_S)
        self._judge(REPORT, message, verdict, self._new_reasons(), problem)
        self.reset()

    def publish_report(self, position: float, velocity: float = 0.0, speed_scaling: float = 1.0) -> None:
        """Publish a good report of this cycle."""
        message = good_report(self.report_type, position, velocity)
        message.speed_scaling_factor = speed_scaling
        set_stamp(message, time.time_ns())
        self.reports.publish(message)

    def _await_count(self) -> str:
        """Wait until one more rejection is counted; returns what is wrong."""
        try:
            self.client.wait_for(
                lambda: _rejected(_values(self.client)).total() > self.rejected.total(), "count", ANSWER_TIMEOUT_S
            )
        except TimeoutError:
            return "not counted"
        return ""

    def _measure(self) -> None:
        """Publish another joint state and wait until trajectories start from it."""
        self._bridged = False
        self._position = 1e-6 * self._next()
        self.newest_stamp_ns = time.time_ns()
        self.client.publish_state([self._position] * NODE.dof, stamp_ns=self.newest_stamp_ns)
        self.client.wait_for(self._holds_state, "the joint state in use", ANSWER_TIMEOUT_S)

    def _holds_state(self) -> bool:
        """Whether trajectories start from the joint state that was sent last."""
        response = self._ask(Integrate, Integrate.Request(actions=good_sequence(start_position=np.zeros(0, "f4"))))
        return response.success and np.allclose(response.trajectory.position[: NODE.dof], self._position, atol=1e-8)

    def _commands(self, position: float) -> bool:
        """Whether a report is what the motion of the robot would begin with."""
        self.publish_report(position)
        response = self._ask(Committed, Committed.Request(rows=1))
        return response.success and np.allclose(response.position, position, rtol=0, atol=1e-9)

    def _ask(self, service: type, request: object) -> object:
        """The answer to a request that only asks, and may be refused."""
        name = {Integrate: INTEGRATE, Committed: COMMITTED}[service].removeprefix("~/")
        response = self.client.call(service, name, request, ANSWER_TIMEOUT_S)
        if not response.success:
            self.rejected[response.message.partition(":")[0]] += 1
        return response

    # Services

    def _call(self, channel: str, request: object, verdict: Verdict) -> None:
        """Call a service with a request; now and then, while the node serves, with a good one after it."""
        service, make_good, _ = SERVICES[channel]
        response = self.client.call(service, channel.removeprefix("~/"), request, ANSWER_TIMEOUT_S)
        text = response.message
        reason = text.partition(":")[0]
        told = [] if response.success else [reason]
        self.rejected.update(told)
        problem = ""
        if response.success == bool(text) or (told and any(values.size for _, values in arrays_of(response))):
            problem = "success, message and values contradict each other"
        elif told and not any(text.startswith(f"{reason}: {field}") for r, field in verdict.faults if r == reason):
            problem = f"expected one of {sorted(verdict.faults)}"
        elif not (len(text) < 600 and text.isprintable()):
            problem = "not one printable line"
        self._judge(channel, request, verdict, told, problem and f"{problem}: {text}")
        answers = [] if told else [(request, response)]
        if self.serves and self._next() % GOOD_EVERY == 0:
            good = make_good()
            answers.append((good, self.client.call(service, channel.removeprefix("~/"), good, ANSWER_TIMEOUT_S)))
        for asked, answer in answers:
            assert_answered(channel, asked, answer)

    # What must hold after all of it

    def assert_in_good_health(self) -> None:
        """Check that it is alive, has grown by no more than 5 % since warm-up, and met with nothing unforeseen."""
        assert self.process.is_running(), self.process.output
        counts = self.client.counts()
        rejected = _rejected(counts)
        assert (int(counts["sequences"]), rejected - self.rejected, self.rejected - rejected) == (
            self._sequences, Counter(), Counter()
        )  # fmt: skip
        assert "internal_error" not in self.process.output, self.process.output
        if self.warm_bytes:
            now = self.process.memory_bytes("VmRSS")
            assert now <= self.warm_bytes * TOLERATED_GROWTH, (self.warm_bytes, now)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _judge(self, channel: str, message: object, verdict: Verdict, told: list[str], problem: str) -> None:
        """Hold what became of a message against its verdict; `told`: the reasons that the node gave for refusing it."""
        # One that takes long to join is given up for the good one after it.
        late = {"superseded"} if verdict.may_pass and channel in (ACTIONS, PLAN) else set()
        right = told[0] in verdict.reasons | late and len(told) == 1 if told else verdict.may_pass
        if problem or not right:
            line = f"{channel}: expected {sorted(verdict.reasons)}{' or an answer' * verdict.may_pass}, got {told}"
            text = message.hex() if isinstance(message, bytes) else str(message)
            raise AssertionError(f"{line} {problem}\n{text[:1_000]}")
        self.refused += len(told)

    def _new_reasons(self) -> list[str]:
        """Reasons counted beyond those that are known; now they are known."""
        now = _rejected(self.client.counts())
        assert not self.rejected - now, f"told, but not counted: {self.rejected - now}"
        new = list((now - self.rejected).elements())
        self.rejected = now
        return new


def _values(client: RosClient) -> dict[str, str]:
    return {pair.key: pair.value for pair in client.statuses[-1].values}


def _rejected(counts: dict[str, str]) -> Counter:
    prefix = "rejected."
    return Counter({key[len(prefix) :]: int(value) for key, value in counts.items() if key.startswith(prefix)})
