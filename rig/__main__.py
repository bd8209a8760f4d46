"""`python -m rig [--without] [--core N] [--physics] [--list] [CASE ...]`: see docs/operations.md."""

from __future__ import annotations

import argparse
import os
import sys
import traceback

from kit.local_dds import isolate

from .environment import environment, is_ready

_TRIES = 3
_STALL_S = 0.05


def main() -> int:
    """Run cases; return 0 if all hold, 1 if some fail, 2 if there is no such case."""
    parser = argparse.ArgumentParser(prog="python -m rig", description="the real node, closed around an arm, judged.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases; default: all")
    parser.add_argument("--list", action="store_true", help="the cases and what they are")
    parser.add_argument("--without", action="store_true", help="without controller_state")
    parser.add_argument("--core", type=int, metavar="N", help="run this and the node on one core")
    parser.add_argument("--physics", action="store_true", help="arms with masses, in simulated time, without a node")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each physical scenario")
    options = parser.parse_args()
    if options.physics:
        return physical(options)
    if not is_ready():  # the dynamic linker reads the variables when a process starts
        if options.core is not None:
            os.sched_setaffinity(0, {options.core})
        os.execve(sys.executable, [sys.executable, "-m", "rig", *sys.argv[1:]], environment(not options.without))
    isolate()
    from .cases import CASES

    if options.list:
        for name, case in CASES.items():
            print(f"{name:28} {case.__doc__}")
        return 0
    if unknown := [name for name in options.cases if name not in CASES]:
        print("rig: no such case:", *unknown, file=sys.stderr)
        return 2
    names = options.cases or [*CASES]
    failed = [name for name in names if not holds(name)]
    print(f"{len(failed)} of {len(names)} cases fail: {' '.join(failed)}")
    return bool(failed)


def physical(options: argparse.Namespace) -> int:
    """Run scenarios with physical arms; return as `main`."""
    from .physics.run import run
    from .physics.scenes import SCENES

    if unknown := [name for name in options.cases if name not in SCENES]:
        print("rig: no such scenario:", *unknown, file=sys.stderr)
        return 2
    if options.list:
        print(*SCENES, sep="\n")
        return 0
    return int(run(options.cases, seeds=options.seeds, reports=not options.without) > 0)


def holds(name: str) -> bool:
    """Run a case and print its figures; repeat a failed one if the machine was too slow for it."""
    from .cases import CASES

    for _ in range(_TRIES):
        fails, figures, late = [], [], []
        try:
            for rig in CASES[name](name):
                try:
                    rig.played()
                    late += rig.late() + [rig.stall] * (rig.stall > _STALL_S)
                    fails += rig.fails
                    figures += [*rig.figures, f"{len(rig.arrivals)} published, refused {rig.reasons()}"]
                finally:
                    rig.close()
        except Exception as error:
            traceback.print_exc()
            fails.append(f"{type(error).__name__}: {error}")
        if not fails or not late:
            break
        print(f"  {name}: {len(late)} times up to {max(late) * 1e3:.0f} ms late, so once more; {'; '.join(fails[:3])}")
    note = f" [{len(late)} late, up to {max(late) * 1e3:.0f} ms]" if late else ""
    said = f"FAILS: {'; '.join(fails)}{note} | else: {'; '.join(figures)}" if fails else f"holds ({'; '.join(figures)})"
    print(f"{name} {said}{'' if fails else note}", flush=True)
    return not fails


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.stdout.flush()
    os._exit(int(code))  # the middleware's threads are not waited for
