"""The integrator node's own counts, and their sum over its restarts. Knows no ROS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NodeCounts:
    """What the node has counted since its start, from /diagnostics."""

    sequences: int = 0
    published: int = 0
    service_calls: int = 0
    rejected: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    brakes: int = 0
    """Trajectories that answer no sequence: the node had to stop the robot."""

    @classmethod
    def of_values(cls, values: Mapping[str, str]) -> NodeCounts:
        """The counts among the values of a diagnostic status."""
        reasons = {key.partition(".")[2]: int(value) for key, value in values.items() if key.startswith("rejected.")}
        names = ("sequences", "published", "service_calls", "rejected")
        return cls(*(int(values[name]) for name in names), reasons, int(values.get("supervision_brakes", 0)))

    @property
    def refused(self) -> int:
        """Sequences that the node received and did not answer by a trajectory."""
        return self.sequences - self.published

    def since(self, before: NodeCounts) -> NodeCounts:
        """What was counted after `before`."""
        reasons = Counter(self.by_reason)
        reasons.subtract(before.by_reason)
        return NodeCounts(
            self.sequences - before.sequences,
            self.published - before.published,
            self.service_calls - before.service_calls,
            self.rejected - before.rejected,
            {reason: count for reason, count in sorted(reasons.items()) if count},
            self.brakes - before.brakes,
        )

    def plus(self, other: NodeCounts) -> NodeCounts:
        """Both together."""
        return self.since(NodeCounts().since(other))


class TotalCounts:
    """Counts since we first heard of the node, over its restarts: a new process counts from zero again."""

    def __init__(self) -> None:
        self._first: NodeCounts | None = None
        self._ended = NodeCounts()
        self._now = NodeCounts()

    def update(self, counts: NodeCounts) -> None:
        """Take the latest counts."""
        if self._first is None:
            self._first = counts
        elif counts.sequences < self._now.sequences:
            self._ended = self._ended.plus(self._now)
        self._now = counts

    @property
    def counts(self) -> NodeCounts:
        """All of it."""
        return self._ended.plus(self._now).since(self._first or NodeCounts())
