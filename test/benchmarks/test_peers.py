"""The page of the comparison, its picture and the README are of today's commands, and the peers do as they say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ruckig", reason="the ruckig library is not installed")
pytest.importorskip("PIL", reason="pillow, which comes with matplotlib, is not installed")

from PIL import Image

from benchmarks import peers, players
from benchmarks.chunks import CYCLE_S, DOF, KINDS, SECONDS, Chunk, Figures, Stream

ROOT = Path(__file__).resolve().parents[2]
NEAR = 0.1
"""How far, relative, what is shown may be from what is commanded today."""
CYCLES = round(SECONDS / CYCLE_S)


@pytest.fixture(scope="module")
def found() -> dict[str, Figures]:
    """Today's figures of the kind that the picture shows."""
    return {name: figures for name, (figures, _) in peers.ways(KINDS[peers.DRAWN], peers.SEEDS).items()}


def test_the_picture_is_of_todays_commands(found: dict[str, Figures]) -> None:
    drawn = json.loads(Image.open(peers.PICTURE).text["figures"])
    assert list(drawn) == list(peers.SHOWN)
    for name, figures in drawn.items():
        assert figures == pytest.approx(found[name], rel=NEAR, abs=1e-3)


def test_the_page_is_of_todays_commands(found: dict[str, Figures]) -> None:
    table = peers.PAGE.read_text().partition(f"### {peers.DRAWN}\n")[2].partition("###")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    for (name, *cells), (way, figures) in zip(rows, found.items(), strict=True):
        assert name.split()[0] == way.split()[0], "the version of ruckig may differ"
        distance, behind, *ratios = (float(cell.replace(",", "")) for cell in cells)
        shown = Figures(1e-3 * distance, 1e-3 * behind, *ratios)
        assert shown == pytest.approx(figures, rel=NEAR, abs=1e-3), name


def test_the_readme_is_of_todays_commands(found: dict[str, Figures]) -> None:
    [told] = re.findall(r"!\[(.*)\]\(docs/figures/peers.png\)", (ROOT / "README.md").read_text())
    shown = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", told)]
    assert shown == pytest.approx([found[name].acceleration for name in peers.SHOWN], rel=NEAR)


def test_the_readmes_answers_to_why_not_are_of_todays_commands(found: dict[str, Figures]) -> None:
    answers = (ROOT / "README.md").read_text().partition("## Why not")[2].partition("| toppra")[0]
    shown = [float(number) for number in re.findall(r"(?<!\w)\d+(?:\.\d+)?(?!\w)", answers)]
    _, velocities, upsampling, ruckig, _, lerobot, ensembled, butterworth, limited, node, _ = found.values()
    expected = [node.acceleration, ruckig.acceleration, 1e3 * ruckig.lag]
    expected += [way.acceleration for way in (limited, butterworth, velocities, upsampling, lerobot)]
    expected += [1e3 * ensembled.distance, 1e3 * node.distance, ensembled.acceleration]
    assert shown == pytest.approx(expected, rel=NEAR)


def stream_to(place: np.ndarray, start: np.ndarray) -> Stream:
    """Chunks that all mean the same place, 50 ms late."""
    rows = np.tile(place, (50, 1))
    return Stream(0.02, [Chunk(seen, seen + 0.05, rows) for seen in np.arange(0.0, SECONDS, 0.2)], start)


@pytest.mark.parametrize("name", players.PEERS)
def test_a_peer_stays_where_all_chunks_are_and_goes_where_they_lead(name: str) -> None:
    start, away = np.linspace(-1, 1, DOF), np.linspace(0.3, -0.2, DOF)
    commands = players.PEERS[name](stream_to(start, start))
    np.testing.assert_allclose(commands, np.tile(start, (CYCLES, 1)), atol=1e-9)
    commands = players.PEERS[name](stream_to(start + away, start))
    np.testing.assert_allclose(commands[:50], np.tile(start, (50, 1)), atol=1e-9)
    np.testing.assert_allclose(commands[3000:], np.tile(start + away, (CYCLES - 3000, 1)), atol=1e-6)
