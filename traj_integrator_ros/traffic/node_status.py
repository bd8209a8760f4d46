"""What the integrator node reports about itself on /diagnostics: its state, and its counts over its restarts."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray

from .ledger import NodeCounts, TotalCounts
from .participant import Participant

_STABLE_FOR = 3
"""Messages in a row with the same counts: nothing is on its way any more."""


class NodeStatus:
    """Listens to the diagnostics of a participant's integrator node."""

    def __init__(self, participant: Participant) -> None:
        self.values: dict[str, str] = {}
        self.message = ""
        """The latest status in words."""
        self.messages = 0
        """How many have come."""
        self.counts = NodeCounts()
        """The latest counts."""
        self.total = TotalCounts()
        self._same = 0
        self._name = f"{participant.node_name}: integrator"
        participant.subscribe(DiagnosticArray, "/diagnostics", self._on_diagnostics)

    @property
    def is_settled(self) -> bool:
        """Whether the counts have stopped changing since the start, or since `unsettle`."""
        return self._same >= _STABLE_FOR

    def unsettle(self) -> None:
        """From here on, wait anew for counts that do not change."""
        self._same = 0

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name != self._name:
                continue
            self.values = {entry.key: entry.value for entry in status.values}
            counts = NodeCounts.of_values(self.values)
            self._same = self._same + 1 if counts == self.counts else 0
            self.counts = counts
            self.total.update(counts)
            self.message = status.message
            self.messages += 1
