"""Late, noisy, disagreeing chunks by the node, by what people use today, and by the unconstrained optimum.

`python -m benchmarks.peers [KIND ...]` prints a table for each kind of chunks; `--page` writes all of them to
docs/peers.md, and draws docs/figures/peers.png (two minutes). Simulated time at 1 kHz, each peer as its documentation
recommends (`players.py`), all on the same chunks (`chunks.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from traj_integrator_ros.motions.figures import BLUE, MOTION_GREY, ORANGE, figure

from .chunks import CYCLE_S, JUDGED_S, KINDS, Kind, Meant, figures
from .optimum import Way, by_executor, front, gentlest, options_of, streams_of
from .players import CONTROLLER, ENSEMBLING, PEERS, UPSAMPLING

NODE, OPTIMUM = "**the node**", "unconstrained optimum"
DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, PICTURE = DOCS / "peers.md", DOCS / "figures" / "peers.png"
MARK = "<!-- written by `python -m benchmarks.peers --page` -->\n"
DRAWN = "noisy"
"""Kind of chunks in the picture."""
JOINT = 0
"""Joint in the picture, of the first seed."""
SEEDS = range(2)
"""Seeds of the page."""
SHOWN = {
    CONTROLLER: "joint_trajectory_controller, positions",
    UPSAMPLING: "its positions_upsampling",
    ENSEMBLING: "temporal ensembling",
    NODE: "the node",
}
"""Ways in the picture, and their titles."""


def main() -> int:
    """Print tables, or write the page and draw its picture."""
    options = options_of("benchmarks.peers", __doc__, page="write docs/peers.md, and draw its picture")
    lines = []
    for name in KINDS if options.page else options.kinds:
        found = ways(KINDS[name], SEEDS if options.page else options.seeds)
        lines += table(name, found)
        if options.page and name == DRAWN:
            draw(found)
    if options.page:
        PAGE.write_text("\n".join([PAGE.read_text().partition(MARK)[0] + MARK, *lines]))
    else:
        print("\n".join(lines))
    return 0


def ways(kind: Kind, seeds: range) -> dict[str, Way]:
    """Return all ways to command by name. Raises RuntimeError if the node refuses a chunk."""
    streams, motions = streams_of(kind, seeds)
    ours, refused = zip(*map(by_executor, streams), strict=True)
    if any(refused):
        raise RuntimeError(f"the node refused {sum(refused)} chunks")
    commands = {name: [player(stream) for stream in streams] for name, player in PEERS.items()} | {NODE: list(ours)}
    found = {name: (figures(each, motions), each) for name, each in commands.items()}
    return {**found, OPTIMUM: gentlest(front(streams, motions), found[NODE][0])}


def table(kind: str, found: dict[str, Way]) -> Iterator[str]:
    """Yield the lines of a Markdown table of one kind."""
    yield from (f"### {kind}", "")
    yield "| commanded by | distance, mrad | lag, ms | acceleration | its peak | jerk |"
    yield "|---|---|---|---|---|---|"
    for name, ((distance, late, *ratios), _) in found.items():
        cells = [f"{1e3 * distance:.2f}", f"{round(1e3 * late)}", *map(number, ratios)]
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""


def number(value: float) -> str:
    """Return three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(found: dict[str, Way]) -> None:
    """Draw a joint's acceleration by some of the ways; the figures go into the file, for a test that compares them."""
    judged = np.arange(*(round(time / CYCLE_S) for time in JUDGED_S))
    meant = Meant(SEEDS[0]).at(CYCLE_S * judged, 2)[:, JOINT]
    with figure(PICTURE, 15, 4.2, metadata={"figures": json.dumps({name: found[name][0] for name in SHOWN})}) as drawn:
        panels = drawn.subplots(1, len(SHOWN), sharex=True, sharey=True)
        for axes, (name, title) in zip(panels, SHOWN.items(), strict=True):
            values, commands = found[name]
            bends = np.diff(commands[0][:, JOINT], 2)[judged - 1] / CYCLE_S**2
            axes.plot(CYCLE_S * judged, meant, color=MOTION_GREY, linewidth=3, label="meant by the policy")
            color = BLUE if name == NODE else ORANGE
            axes.plot(CYCLE_S * judged, bends, color=color, linewidth=0.9, label="commanded at 1 kHz")
            axes.set_yscale("symlog", linthresh=1)
            axes.set_title(f"{title}\n{number(values.acceleration)} x the meant acceleration", loc="left")
            axes.set_xlabel("time [s]")
        panels[0].set_ylabel("acceleration [rad/s²]")
        panels[-1].legend(loc="lower right")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
