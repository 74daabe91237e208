# Each target sets up what it needs: `make run` is the main job, `make check` what CI runs.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
# The GPU target takes the interpreter that has the device's torch; it needs the packages of pyproject.toml.
GPU_PYTHON ?= python3
GPU_OUT    ?= build/gpu

.PHONY: help setup run test check cov lint docs reference outputs full gpu stamp clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' Makefile

$(VENV)/.installed: pyproject.toml .ci/constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing sparkctl, the nvcc wheels and the development tools into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[toolchain,dev]'
	@$(BIN)/python .ci/occupancy_header.py $(VENV)/occupancy
	@touch $@

# What builds the site, and nothing else needs: pyproject.toml's extra `docs`.
$(VENV)/.docs: pyproject.toml .ci/constraints.txt $(VENV)/.installed
	@echo "installing mkdocs and its theme into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[docs]'
	@touch $@

setup: $(VENV)/.installed  ## install everything into .venv

run:  ## at head_dim 128: build for sm_90 and for the emulator, report registers, test (no GPU needed)
	@start=$$(date +%s); \
	$(MAKE) --no-print-directory setup && \
	$(BIN)/sparkctl build --arch sm_90 --head-dim 128 && \
	$(BIN)/sparkctl build --backend emulator --head-dim 128 && \
	$(BIN)/sparkctl regs --arch sm_90 --head-dim 128 && \
	$(BIN)/sparkctl test --head-dim 128 --backend emulator && \
	echo "make run: $$(( $$(date +%s) - start )) s from the first command to the last"

test: setup  ## every test that needs no GPU, but for the full sets
	$(BIN)/pytest -n $(JOBS) --durations=25 -m 'not gpu and not full'

check: lint docs test  ## what CI runs

full: lint docs  ## check, what pages show, the full sets of cases on the emulator, quick cases under each sanitizer, all pinned registers
	$(BIN)/pytest -n $(JOBS) -m 'not gpu'
	$(BIN)/python docs/tools/run_tutorial.py
	$(BIN)/python docs/tools/shown_outputs.py
	$(BIN)/sparkctl regs --arch sm_89,sm_90 --check
	$(BIN)/sparkctl test --backend emulator --full
	for check in race memory undefined; do \
	  $(BIN)/sparkctl test --sanitize $$check --dtype bf16 --head-dim 64 || exit 1; \
	done

cov: setup  ## which lines of csrc (gcov) and of sparkctl (coverage.py) run; in build/coverage
	$(BIN)/python benchmarks/coverage_report.py -j $(JOBS)

lint: setup  ## formatting, style, types, layers, spelling
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache | tail -n 4
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'csrc/*' 'examples/*.cu' 'examples/*.cpp' 'tests/*.cu' 'tests/*.h' 'tests/*.cpp' ':!tests/data' ':!*.md')
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md docs csrc examples sparkctl benchmarks flags.yaml Makefile

docs: $(VENV)/.docs  ## the documentation as a site in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: setup  ## write docs/reference anew from the code
	@$(BIN)/python docs/tools/generate_reference.py

outputs: setup  ## run what docs/tutorial.md and other pages show, in a clone of the last commit; outputs and picture anew
	@$(BIN)/python docs/tools/run_tutorial.py --update
	@$(BIN)/python docs/tools/shown_outputs.py --update

stamp:  ## write the commit for machines that get the tree without its history
	@$(BIN)/python benchmarks/write_stamp.py

gpu:  ## on a machine with a GPU: build, all cases on the device, bench; results as JSON in GPU_OUT
	@mkdir -p $(GPU_OUT)
	$(GPU_PYTHON) -m sparkctl build
	$(GPU_PYTHON) -m sparkctl test --backend cuda --full --json > $(GPU_OUT)/test.json
	$(GPU_PYTHON) -m pytest -q -p no:cacheprovider -m gpu tests/kernels tests/emulator --junit-xml=$(GPU_OUT)/pytest.xml
	$(GPU_PYTHON) benchmarks/occupancy_on_device.py $(GPU_OUT)/occupancy.json
	$(GPU_PYTHON) -m sparkctl bench --seq 4k,16k --batch 1,8 --save $(GPU_OUT)/bench.json

clean:  ## remove build outputs, never the cache
	rm -rf build
