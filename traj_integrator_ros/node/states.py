"""Reads joint states and the controller's reports when they are needed: both may come at 1 kHz."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from rclpy.serialization import deserialize_message
from std_msgs.msg import Float64

from ..governor.executor import Executor
from ..governor.robot_clock import Stamps
from ..requests.rejection import Rejected
from ..wire.readers import controller_state_reader, nanoseconds, read_joint_state, stamp_of_message
from .accounts import Accounts
from .entities import STATE_DEPTH, Entities, JointTrajectoryControllerState
from .intake import age_ns, take_waiting

_EVERY_NS = 10_000_000
"""Time between two joint states that are read, ns: a robot that moves is supervised as often."""


class States:
    """Hands messages of robot and controller to the executor.

    `now_ns` returns the time of the robot's clock, and `is_simulated` whether that is a simulation's.
    """

    def __init__(
        self,
        entities: Entities,
        accounts: Accounts,
        pipeline: Executor,
        now_ns: Callable[[], int],
        is_simulated: Callable[[], bool],
    ) -> None:
        self._entities, self._accounts, self._pipeline, self._now_ns = entities, accounts, pipeline, now_ns
        self._is_simulated = is_simulated
        self._clock = pipeline.published.clock
        self.arrived_s = 0.0
        """When a message arrived last, s of the steady clock."""
        self._read_ns: dict[bytes, int] = {}
        """When the last message that was read arrived, ns of the system's clock, by its publisher."""
        self._first_joint = pipeline.parameters.joint_names[0]
        self._read_report = None
        if JointTrajectoryControllerState is not None:
            self._read_report = controller_state_reader(JointTrajectoryControllerState)

    def poll(self) -> None:
        """Read all joint states and reports of the controller that have arrived."""
        with self._accounts.guard("joint_states"):
            now_ns = self._now_ns()
            # Until a simulation has told its time, messages wait: read now, they would seem as old as it is late.
            waiting = [*take_waiting(self._entities.joint_states, STATE_DEPTH if now_ns else 0)]
            for message, info in worth_reading(waiting, self._read_ns, partial(self._all_count, now_ns)):
                self.arrived_s = time.monotonic()
                with self._accounts.guard("joint_states"):
                    names, *state, stamp_ns = read_joint_state(message)
                    if self._first_joint in names:  # so the stamps are those of one publisher
                        self._take_stamp(self._clock.states, stamp_ns, info)
                    waited_ns = 0 if self._is_simulated() else age_ns(info)
                    self._pipeline.joint_state(*state, now_ns, stamp_ns, names, hash(_sender(info)), waited_ns)
        if self._entities.speed_scaling is not None:
            with self._accounts.guard("speed_scaling"):
                for message, _ in take_waiting(self._entities.speed_scaling, STATE_DEPTH):
                    percent = deserialize_message(message, Float64).data
                    self._pipeline.take_speed_scaling(percent / 100, self._now_ns())
        if self._read_report is not None:
            with self._accounts.guard("controller_state"):
                self._poll_reports(self._read_report)

    def _all_count(self, now_ns: int) -> bool:
        """Return whether no joint state may be left out: each may be the observation of a policy, or is doubted."""
        return self._pipeline.parameters.relative.any() or self._pipeline.joint_states.believed.doubts(now_ns)

    def _poll_reports(self, read: Callable[[bytes], tuple]) -> None:
        """Take the newest valid report, which replaces those before it, and the stamps of all."""
        waiting = [*take_waiting(self._entities.controller_state, STATE_DEPTH)]
        self.arrived_s = time.monotonic() if waiting else self.arrived_s
        for message, info in reversed(waiting):
            try:
                report = self._pipeline.controller_reports.report(*read(message))
            except Rejected as rejected:
                self._accounts.refused("controller_state", rejected)
                continue
            for each, its_info in waiting:
                self._take_stamp(self._clock.reports, nanoseconds(stamp_of_message(each)), its_info)
            arrived_ns = self._now_ns()
            if not self._is_simulated():  # Simulated time may stand still.
                arrived_ns -= age_ns(info)
            self._pipeline.report(report, arrived_ns, len(waiting))
            return

    def _take_stamp(self, stamps: Stamps, stamp_ns: int, info: Mapping[str, object]) -> None:
        received_ns = info.get("received_timestamp")
        if stamp_ns and isinstance(received_ns, int) and received_ns > 0:
            # in this order: an interruption in between makes the time later, never earlier
            age_ns = time.time_ns() - received_ns
            arrived_ns = time.monotonic_ns() - age_ns
            if age_ns >= 0:  # otherwise the message came before this clock was set
                self._clock.take(stamps, stamp_ns, arrived_ns)


def worth_reading(
    waiting: list[tuple[bytes, dict]], read_ns: dict[bytes, int], all_count: Callable[[], bool]
) -> Iterator[tuple[bytes, dict]]:
    """Yield the newest message of each publisher, and one in 10 ms before it: the supervision needs no more.

    As long as states are doubted, all are worth reading: otherwise, if one publisher forwards the states of two robots
    in turn, only those of one might be read.

    Args:
        waiting: messages and what the middleware says of them. If it does not say who sent them, and when they arrived,
            all are yielded.
        read_ns: when the last message that was read arrived, by its publisher; it is brought up to date.
        all_count: whether all messages are yielded from here on; it is asked for each message.

    """
    senders = [_sender(info) for _, info in waiting]
    newest = dict(zip(senders, range(len(senders)), strict=True))
    for sender in [one for one in read_ns if one not in newest]:
        del read_ns[sender]
    for place, (sender, (message, info)) in enumerate(zip(senders, waiting, strict=True)):
        arrived_ns = info.get("received_timestamp") if sender else None
        is_due = not arrived_ns or sender not in read_ns or not 0 <= arrived_ns - read_ns[sender] < _EVERY_NS
        if is_due or place == newest[sender] or all_count():
            read_ns[sender] = arrived_ns or 0
            yield message, info


def _sender(info: Mapping[str, object]) -> bytes:
    """Return the identity of a message's publisher; empty if the middleware does not say it."""
    publisher = info.get("publisher_gid")
    return bytes(publisher["data"]) if isinstance(publisher, Mapping) else b""
