"""`python -m rig [--without] [--physics] [--list] [SCENE ...]`: see docs/operations.md."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from importlib import import_module

from kit.local_dds import isolate

from .environment import prepare
from .table import SCENES, Verdict

_TRIES = 3


def main() -> int:
    """Play scenes; return 0 if all hold, 1 if some fail, 2 if there is no such scene."""
    parser = argparse.ArgumentParser(prog="python -m rig", description="a node, closed around an arm, and judged.")
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help="names of scenes; default: all")
    parser.add_argument("--list", action="store_true", help="the scenes and what they are")
    parser.add_argument("--without", action="store_true", help="without controller_state")
    parser.add_argument("--physics", action="store_true", help="arms with masses, in simulated time, without a node")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how often each scene is played")
    options = parser.parse_args()
    if not options.physics:
        prepare(not options.without)
        isolate()
    import_module("rig.physics.scenes" if options.physics else "rig.cases")
    if options.list:
        for name, scene in SCENES.items():
            print(f"{name:55} {scene.about.splitlines()[0]}" if options.physics else f"{name:28} {scene.about}")
        return 0
    if unknown := [name for name in options.scenes if name not in SCENES]:
        print("rig: no such scene:", *unknown, file=sys.stderr)
        return 2
    names = [name for name in options.scenes or SCENES for _ in range(options.seeds)]
    failed = [name for k, name in enumerate(names) if not holds(name, k % options.seeds, not options.without)]
    print(f"{len(failed)} of {len(names)} fail", *failed, sep="; ")
    return bool(failed)


def holds(name: str, seed: int = 0, reports: bool = True) -> bool:
    """Play a scene and print its figures; repeat one that fails if the machine was too slow for it."""
    began = time.monotonic()
    for _ in range(_TRIES):
        try:
            fails, figures, late = SCENES[name].play(seed, reports)
        except Exception as error:
            traceback.print_exc()
            fails, figures, late = Verdict([f"{type(error).__name__}: {error}"], [], [])
        if not fails or not late:
            break
        print(f"  {name}: {len(late)} times up to {max(late) * 1e3:.0f} ms late, so once more; {'; '.join(fails[:3])}")
    note = f" [{len(late)} late, up to {max(late) * 1e3:.0f} ms]" if late else ""
    said = f"FAILS: {'; '.join(fails)} | else:" if fails else "holds:"
    print(f"{name} [{seed}] {said} {'; '.join(figures)}; {time.monotonic() - began:.1f} s{note}", flush=True)
    return not fails


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.stdout.flush()
    os._exit(int(code))  # the middleware's threads are not waited for
