"""What became of every bad message and of every fault, and the summary of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """Counts of one test run."""

    right: Counter = field(default_factory=Counter)
    """Bad messages refused for a reason that the interface gives, by (channel, reason)."""
    wrong: list[str] = field(default_factory=list)
    """What went wrong, a line for each message."""
    good: Counter = field(default_factory=Counter)
    """Good messages answered, by channel."""
    kept_out: Counter = field(default_factory=Counter)
    """What the middleware did not let through to the node, by (channel, what)."""
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Resident bytes of each node after warm-up and when last looked at."""
    faults: dict[str, bool] = field(default_factory=dict)
    """Whether a fault was survived, by test."""

    notes: list[str] = field(default_factory=list)
    """Figures of faults, a line each."""

    @property
    def bad(self) -> int:
        return self.right.total() + len(self.wrong)

    def summary(self) -> list[str]:
        lines = []
        if self.bad:
            lines += [
                f"bad messages: {self.bad} sent, {self.right.total()} rejected with the right reason, "
                f"{len(self.wrong)} wrong",
                f"good messages between them: {self.good.total()} answered",
                "",
            ]
            for channel in sorted({channel for channel, _ in self.right}):
                reasons = {reason: n for (c, reason), n in sorted(self.right.items()) if c == channel}
                lines.append(f"{channel}: {sum(reasons.values())} rejected, {self.good[channel]} good ones answered")
                lines += [f"    {count:6d}  {reason}" for reason, count in reasons.items()]
            lines += [f"wrong: {line}" for line in self.wrong[:20]]
        for (channel, what), count in sorted(self.kept_out.items()):
            lines.append(f"kept out by the middleware: {count} on {channel}: {what}")
        for node, (before, after) in self.memory.items():
            grown = f"{before / 2**20:.1f} MiB after warm-up, {after / 2**20:.1f} MiB at the end"
            lines.append(f"memory of the node, {node}: {grown} ({100 * (after / before - 1):+.2f} %)")
        if self.faults:
            lines.append(f"faults survived: {sum(self.faults.values())} of {len(self.faults)}")
            lines += [f"    {'survived' if well else 'FAILED  '}  {fault}" for fault, well in self.faults.items()]
        return lines + self.notes
