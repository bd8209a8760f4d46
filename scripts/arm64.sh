#!/bin/bash
# The wheel on emulated arm64: bits of kernels, retiming and motions, and the tests of kernels and engine: `make arm64`.
# PYTEST_ARGS chooses other tests.
# Debian's packages are unpacked only: to configure them under emulation takes longer than all else. Python's files are
# compiled here, by a Python of the same version: every process would take minutes for that. They lie in a folder called
# site-packages: hypothesis reads the source of every module elsewhere, which of torch takes hours.
set -e
cd "$(dirname "$0")/.."
folder=$PWD/build/arm64 root=$PWD/build/arm64/root site=$PWD/build/arm64/site-packages version=3.13
for tool in debootstrap dpkg-deb qemu-aarch64-static "python$version"; do
  "$tool" --version > /dev/null 2>&1 || { echo "arm64: no $tool on the path: sudo apt install debootstrap dpkg qemu-user-static, and a Python $version" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "arm64: debootstrap needs root: sudo make arm64" >&2; exit 1; }
make --no-print-directory setup
mkdir -p "$folder"
if [ ! -e "$folder/unpacked" ]; then
  rm -rf "$root"
  debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,libgomp1 trixie "$root" http://deb.debian.org/debian
  for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  touch "$folder/unpacked"
fi
# torch 2.10.0 is the last whose arm64 build is without CUDA (2.5 GB). Without dependencies: pip chooses them for this machine.
pip=("python$version" -m pip install --quiet --disable-pip-version-check --root-user-action ignore --upgrade --no-deps --only-binary=:all:)
for glibc in 2_17 2_27 2_28; do pip+=(--platform "manylinux_${glibc}_aarch64"); done
[ -e "$site/torch" ] || "${pip[@]}" --target "$site" torch==2.10.0 filelock typing-extensions setuptools sympy mpmath \
  networkx jinja2 markupsafe fsspec numpy==2.4.6 scipy==1.17.1 hypothesis==6.170.15 sortedcontainers pytest==9.2.0 \
  pytest-timeout==2.4.0 iniconfig packaging pluggy pygments PyYAML==6.0.3
"python$version" scripts/build_wheel.py aarch64
"${pip[@]}" --target "$site" dist/*aarch64.whl
unset PYTHONDONTWRITEBYTECODE
"python$version" -m compileall -q "$site" "$root/usr/lib/python$version" || true  # some files are of other Pythons
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 QEMU_LD_PREFIX="$root" PYTHONPATH="$site:$PWD/test/kernels"
emulated=(qemu-aarch64-static -L "$root" "$root/usr/bin/python$version" -P)
"${emulated[@]}" test/kernels/result_bits.py | tail -n +2 > "$folder/bits"
(unset PYTHONPATH && . .venv/environment.sh && python test/kernels/result_bits.py) | tail -n +2 | diff - "$folder/bits"
echo "arm64: the same bits as on this machine for $(wc -l < "$folder/bits") kinds of results"
# Left out: tests that trace or compile (no compiler in that root, and Dynamo takes minutes to import), of Triton (no wheel),
# and those that start processes, which this machine would have to emulate by itself.
left_out=(--ignore=test/kernels/test_native_absent.py --ignore=test/kernels/test_triton_kernels.py)
for name in kernels/test_native.py::test_every_instruction_set_gives_the_same_bits \
  kernels/test_public_functions.py::test_{compiles,a_number_for_dt_that_changes,exports,a_traced_fit,function_transforms,import} \
  engine/test_direct.py::test_nothing_is_read_or_written_beyond_the_arrays; do
  left_out+=("--deselect=test/$name")
done
exec "${emulated[@]}" -m pytest -v -p no:cacheprovider -o timeout=0 "${left_out[@]}" \
  ${PYTEST_ARGS:-test/kernels/test_native.py test/engine test/kernels test/maps}
