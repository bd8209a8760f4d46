# Everything starts here: `make demo` and `make test` set up what they need by themselves.
#   make PYTHON=/path/to/python3 ...   uses that Python instead of the first suitable one
#   make ROS_DISTRO=jazzy ...          takes the ROS 2 wheels of Jazzy instead of Kilted (where no ROS 2 is sourced)
#   make demo DATA=path                integrates a recording (rosbag2 or CSV) instead of a planned motion
#   make test PYTEST_ARGS="-k clique"  passes arguments to pytest
#   make bench ARGS=--quick            passes arguments to the benchmarks
#   make soak ARGS="--minutes 2"       and to the soak (--random: 1,000 random streams on a simulated clock, without a node)
#   make rig ARGS="--list"            lists what the real node is put through (names of cases run those; --physics:
#                                      arms with masses in simulated time)
#   make matrix ARGS="jazzy-*"         tests some of the combinations

# Without PYTHON, python3 is tried first and then every other one on this machine.
given := $(if $(filter undefined,$(origin PYTHON)),,--python-is-given)
PYTHON ?= python3
PYTEST_ARGS ?=
DATA ?=
ARGS ?=

# Only what is asked for here: a shell with ROS 2 sourced has a ROS_DISTRO, too, and that installation is used as it is.
ifeq ($(origin ROS_DISTRO),command line)
wheels := --wheels $(ROS_DISTRO)
venv := .venv$(if $(filter-out kilted,$(ROS_DISTRO)),-$(ROS_DISTRO))
else
venv := .venv
endif

# Two workers more than cores: tests of the node wait for much of their time.
workers = -n $(shell cores=$$(nproc); echo $$((cores < 8 ? cores + 2 : 8))) --dist loadfile --no-loadscope-reorder
coverage = build/coverage
measured = COVERAGE_ROOT=$(CURDIR) COVERAGE_PROCESS_START=$(CURDIR)/test/coverage.ini PYTHONPATH=$(CURDIR)/$(coverage)/packages:$$PYTHONPATH
in_environment = . $(venv)/environment.sh &&

# Parts of `make gpu`, each a process of its own: a fault in one prevents no other.
PARTS ?= build tests sweep engine peers
on_gpu = TRITON_INTERPRET=0 TRITON_CHECKS_DEVICE=cuda PYTHONPATH=$(CURDIR)
gpu_build = setup.py build_ext --inplace
gpu_tests = -m pytest -q -c /dev/null --rootdir $(CURDIR) --noconftest test/kernels/triton_checks.py
gpu_sweep = -m benchmarks --out build/gpu --suite cuda_sweep
gpu_engine = -m benchmarks --out build/gpu --suite cuda_engine
gpu_peers = -m benchmarks --out build/gpu --suite cuda_kernels

# Set-up compiles no modules: the first import does, and unless it may leave the result, so does every import after it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-arm bench rig soak test stranger coverage matrix gpu wheel arm64 offline release lint clean distclean

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: ## makes .venv (does nothing when it is up to date)
	@command -v $(PYTHON) > /dev/null || { echo "set-up: no $(PYTHON): sudo apt install python3 python3-venv python3-dev" >&2; exit 1; }
	@$(PYTHON) scripts/set_up.py $(wheels) $(given)

demo: setup ## the main job: motion in, integrated and optimized trajectories out, into build/demo/
	@$(in_environment) python -m traj_integrator_ros.demo.main $(if $(DATA),"$(DATA)") $(ARGS)

demo-arm: ## make demo ARGS=--arm: an arm with masses under an optimizer, a policy, a push and a stop, in build/demo/arm.png
	@$(MAKE) --no-print-directory demo ARGS=--arm

bench: setup ## speed compared with peers and limits, into build/bench/ (ARGS=--quick takes under two minutes)
	@$(in_environment) python -m benchmarks $(ARGS)

rig: setup ## the real node, closed around an arm in real time, judged, in a quarter of an hour on idle cores (ARGS="--without hold")
	@$(in_environment) python -m rig $(ARGS)

soak: setup ## the node under steady load for 10 minutes, into build/soak/ (ARGS="--minutes 2" for less)
	@$(in_environment) python -m soak $(ARGS)

test: lint ## lint and tests, on all cores (PYTEST_ARGS=--thorough adds those that take long; "-n 0" uses one process)
	@$(in_environment) python -m pytest $(workers) $(PYTEST_ARGS)

stranger: setup ## a colcon workspace; and what depends on the torch, with PyPI's CUDA build (3 GB), in a second checkout
	@scripts/stranger.sh

coverage: setup ## the tests, and which lines of the kernels and the package they run, in all processes
	@$(in_environment) python -m pip install --quiet --no-deps --upgrade --target $(coverage)/packages coverage==7.10.7
	@echo "import coverage; coverage.process_startup()" > $(coverage)/packages/sitecustomize.py
	@rm -f $(coverage)/data*
	@$(in_environment) $(measured) python -m pytest $(workers) $(PYTEST_ARGS); \
	$(measured) python -m coverage combine --quiet --rcfile=test/coverage.ini && \
	$(measured) python -m coverage report --rcfile=test/coverage.ini

matrix: ## part of the tests with every ROS 2, Python and torch available, as rows of docs/compatibility.md (ARGS=--list)
	@$(PYTHON) scripts/matrix.py $(ARGS)

gpu: ## everything that needs a GPU, into build/gpu/: needs a torch with CUDA, no set-up (PARTS=sweep)
	@$(PYTHON) -c "import sys, torch; torch.cuda.is_available() or sys.exit('gpu: torch sees no CUDA device')"
	@failed=0; $(foreach part,$(PARTS),echo "== $(part)"; $(on_gpu) $(PYTHON) $(or $(gpu_$(part)),$(error gpu: no part $(part))) || failed=1;) exit $$failed

wheel: ## one wheel for every Python and torch, into dist/ (ARGS=aarch64 for arm64; takes some minutes)
	@$(PYTHON) scripts/build_wheel.py $(ARGS)

release: ## the sdist and both wheels, checked, then the tag: never with changes in the tree (takes half an hour)
	@$(PYTHON) scripts/release.py

arm64: ## the aarch64 wheel on emulated arm64: the same bits as here, and tests of kernels and engine (takes an hour)
	@PYTEST_ARGS="$(PYTEST_ARGS)" scripts/arm64.sh

ptx = TRITON_CHECKS_DEVICE=cpu TRITON_CACHE_DIR=$(CURDIR)/build/ptx TRITON_CHECKS_EXAMPLES=40 PTX_CHECKS=all
offline: setup ## compiles the GPU kernels without a GPU and executes their PTX, all architectures and cases (takes an hour)
	@$(in_environment) PYTHONPATH=$(CURDIR) python test/kernels/offline.py
	@$(in_environment) python -m pip install --quiet --no-deps --upgrade --target build/oldest-triton triton==3.2.0
	@$(in_environment) PYTHONPATH=build/oldest-triton:$(CURDIR) TRITON_CACHE_DIR=build/oldest-triton-cache python test/kernels/offline.py
	@$(in_environment) $(ptx) python -m pytest -q -p no:cacheprovider --timeout=3600 test/kernels/ptx_checks.py
	@$(in_environment) $(foreach sm,80 87 90 100 120,echo "== executed: sm_$(sm)" && $(ptx) TRITON_CHECKS_SM=$(sm) \
	python -m pytest -q -p no:cacheprovider --timeout=3600 test/kernels/triton_checks.py &&) true

lint: setup ## ruff
	@$(in_environment) ruff check .

clean: ## removes what demo, test and builds leave behind
	rm -rf build dist install log .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## the same, and .venv
	rm -rf .venv .venv-* *.egg-info kernels/*/_*.so traj_integrator_ros/execution/_*.so
