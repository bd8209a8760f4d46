#!/bin/sh
# Sets this project up as on a fresh machine, with the package index's own torch (a CUDA build, 3 GB) instead of local
# wheels, and runs what depends on the torch: demo, memory, compiled kernels; and a ROS 2 workspace. It uses
# a checkout of its own, of the last commit. Skipped where the index is away or slow, or .venv has that torch already;
# whatever else goes wrong is a failure.
cd "$(dirname "$0")/.." || exit
scripts/workspace.sh || exit
skip() {
  echo "stranger: skipped, $1"
  exit
}
if .venv/bin/python -c 'import sys, torch; sys.exit(torch.version.cuda is None)'; then
  skip ".venv has the index's own torch already: the tests above ran with it"
fi
exec 9> build/stranger.lock
flock 9  # one at a time in that checkout
export PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= PIP_EXTRA_INDEX_URL= PIP_NO_INDEX=
if ! answer=$(.venv/bin/python -m pip index versions torch --timeout 20 --retries 1 2>&1); then
  skip "the package index has no torch to offer here: $(echo "$answer" | tail -n 1)"
fi
checkout=build/stranger/checkout
if [ -d $checkout/.git ]; then
  git -C $checkout fetch --quiet origin HEAD && git -C $checkout reset --quiet --hard FETCH_HEAD || exit
else
  git clone --quiet . $checkout || exit
fi
# What needs no torch is compiled once: set-up takes modules that fit the sources, and compiles others.
cp -r --parents build/native/built build/temp.*/*/kernels/native/src/loops_*.o kernels/*/*.abi3.so \
  traj_integrator_ros/execution/*.abi3.so $checkout/ 2> /dev/null
[ ! -d ../shared ] || ln -sfn "$(cd ../shared && pwd)" build/stranger/shared
cd $checkout || exit
export MAKEFLAGS=
for limit in 18m 9m; do  # set-up goes on where it stopped: once more, in case the network was the cause
  timeout $limit make setup
  code=$?
  [ $code -ne 0 ] || break
done
if [ $code -eq 124 ] && [ ! -e .venv/.set-up/packages ]; then
  skip "the package index did not deliver 3 GB in 27 minutes"
fi
[ $code -eq 0 ] || exit $code
.venv/bin/python -c 'import sys, torch; sys.exit(torch.version.cuda is None)' || { echo "stranger: expected a CUDA build" >&2; exit 1; }
make demo || exit
# Beside other programs, all of it can take long.
make test PYTEST_ARGS="--thorough --timeout=600 test/engine/test_allocation.py test/kernels/test_native.py"
