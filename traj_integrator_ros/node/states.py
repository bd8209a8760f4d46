"""Joint states and reports of the controller, read when they are needed rather than as they come."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..handling.pipeline import Pipeline
from ..handling.rejection import Rejected
from ..wire.controller_state import ControllerStateReader
from ..wire.received_messages import JointStateReader
from .accounts import Accounts
from .entities import Entities, take_waiting


class StateInputs:
    """Reads what has arrived on joint_states and controller_state, both of which may come at 1 kHz.

    Args:
        entities: with the subscriptions.
        pipeline: takes the states.
        accounts: count and log what is wrong with a message.
        now_ns: reads the node's clock.

    """

    def __init__(self, entities: Entities, pipeline: Pipeline, accounts: Accounts, now_ns: Callable[[], int]) -> None:
        self._entities, self._pipeline, self._accounts, self._now_ns = entities, pipeline, accounts, now_ns
        self._joint_states = JointStateReader()
        fields = entities.controller_state_fields
        self._reports = None if fields is None else ControllerStateReader(fields)

    def poll(self) -> None:
        """Read all that has arrived."""
        with self._accounts.guard("joint_states"):
            for message, _ in take_waiting(self._entities.joint_states):
                with self._accounts.guard("joint_states"):
                    state = self._joint_states.read(message)
                    self._pipeline.take_joint_state(
                        state.names, state.position, state.velocity, state.stamp_ns, self._now_ns()
                    )
        if self._reports is not None:
            with self._accounts.guard("controller_state"):
                self._poll_reports(self._reports)

    def _poll_reports(self, reader: ControllerStateReader) -> None:
        """Take the newest report that can be taken: it says everything that the ones before it do."""
        waiting = list(take_waiting(self._entities.controller_state))
        refused: list[Rejected] = []
        for message, info in reversed(waiting):
            try:
                received, arrived_ns = reader.read(message), self._now_ns() - _age_ns(info)
                report = self._pipeline.controller_reports.report(
                    received.names, *received.reference, received.stamp_ns or arrived_ns, received.speed_scaling
                )
            except Rejected as rejected:
                refused.append(rejected)
                continue
            self._pipeline.take_controller_state(report, arrived_ns)
            break
        for rejected in refused:
            self._accounts.refused("controller_state", rejected)


def _age_ns(info: object) -> int:
    """How long ago a message arrived, ns, by its message info; 0 if that does not say."""
    arrived_ns = info.get("received_timestamp") if hasattr(info, "get") else None
    if not isinstance(arrived_ns, int) or arrived_ns <= 0:
        return 0
    return max(0, time.time_ns() - arrived_ns)
