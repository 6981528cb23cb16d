# Every target sets up what it needs: a virtual environment in .venv with the versions of
# constraints.txt, and kernels compiled to machine code. Needs Python 3.11 or newer and make.
# `make VENV=DIR PYTHON=python3.13 …` chooses where the environment goes and what it is made with.

VENV := .venv
PYTHON :=
EXTRAS := dev,bench,pipeline
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
# Kernels with every index checked must not share a cache with those that check none.
CHECKED := NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR='$(abspath $(VENV))/checked-kernels'
# The suite starts hundreds of programs: each would compile all of our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: installed setup system java run test suite checked slow chaos chaos-broker \
	chaos-pipeline chaos-virtual chaos-disk chaos-rings chaos-adhoc soak fuzz lint format bench \
	experiments docs wheel \
	clean

installed: $(INSTALLED)

setup: $(INSTALLED)
	@$(PY) -m nearcast._warm_up

# The product with a small living city on it: a broker, the pipeline beside it, clients, and a view
# of them all. `nearcast demo` is the engine alone, in virtual time.
run: setup java
	@$(PY) -m nearcast up --demo

# Java for the pipeline, and what tests and benchmarks run beside us; where it cannot be had, the
# pipeline says what to install, and tests say so and are skipped.
system:
	@sh scripts/system-packages

java:
	@sh scripts/system-packages java

# Kernels with and without checks are compiled at the same time.
test: $(INSTALLED) system
	@sh scripts/side-by-side \
		'make --no-print-directory checked' \
		'make --no-print-directory suite'

# At once what uses Spark in one session, what starts a Spark of its own, what starts other
# processes, the core and what lies below the broker, and the rest: all of them wait for something
# as much as they work.
PYTEST := $(PY) -m pytest --durations=12 --durations-min=4 -m
WITH_PROCESSES := $(wildcard tests/benchmarks tests/broker tests/chaos tests/cli tests/clients)
BELOW := $(wildcard tests/conformance tests/core tests/fuzz tests/scenario tests/store tests/wire)
suite: setup system
	@sh scripts/side-by-side \
		'$(PYTEST) "spark and not slow" tests/pipeline' \
		'$(PYTEST) "spark and not slow" --ignore=tests/pipeline' \
		'$(PYTEST) "not spark and not slow" $(WITH_PROCESSES)' \
		'$(PYTEST) "not spark and not slow" $(BELOW)' \
		'$(PYTEST) "not spark and not slow" \
			$(addprefix --ignore=,$(WITH_PROCESSES) $(BELOW))'

# The kernels of matching once more, with every index checked; tests compile those that they use.
checked: $(INSTALLED)
	$(CHECKED) $(PYTEST) "not slow" --hypothesis-profile=checked tests/core/matching \
		tests/core/model/test_flat_json.py tests/core/engine/delivery/test_delivery_rows.py \
		tests/core/engine/delivery/test_string_pair_table.py

slow: setup
	$(PY) -m pytest -m slow

# Faults for as long as it takes, by name: make chaos PART=broker (kill -9 of the broker), pipeline
# (of the pipeline and both), virtual (seeded runs with faults of networks, clients and files), disk
# (full and damaged disks), rings (pairs that keep silent over a bad network), adhoc (crowds without
# a broker). Variables of the environment override the counts.
PART := broker pipeline virtual disk rings adhoc
chaos: setup system $(addprefix chaos-,$(PART))

chaos-broker:
	NEARCAST_KILLS=$${NEARCAST_KILLS:-1000} $(PY) -m pytest tests/chaos/test_kill.py

chaos-pipeline:
	NEARCAST_KILLS_PIPELINE=$${NEARCAST_KILLS_PIPELINE:-100} $(PY) -m pytest \
		tests/chaos/test_pipeline_kill.py

chaos-virtual:
	NEARCAST_RUNS=$${NEARCAST_RUNS:-10000} $(PY) -m pytest \
		tests/scenario/test_thousand_runs.py tests/scenario/test_file_faults.py

chaos-rings:
	NEARCAST_RING_RUNS=$${NEARCAST_RING_RUNS:-10000} $(PY) -m pytest tests/scenario/test_rings.py
	NEARCAST_FOLLOW_RUNS=$${NEARCAST_FOLLOW_RUNS:-1000} $(PY) -m pytest tests/scenario/test_following.py

chaos-adhoc:
	NEARCAST_ADHOC_RUNS=$${NEARCAST_ADHOC_RUNS:-10000} $(PY) -m pytest tests/scenario/test_adhoc_runs.py

chaos-disk:
	$(PY) -m pytest tests/store/test_crashes.py tests/store/test_failures.py \
		tests/store/integrity tests/broker/durability/test_store_faults.py

# `make soak MINUTES=5` for a shorter one. The report is build/soak/soak.md.
MINUTES := 60
soak: setup
	@$(PY) -m nearcast bench soak --minutes $(MINUTES) --out build/soak

# Hostile input with a fresh seed, for NEARCAST_FUZZ_SECONDS (300) in all. `make fuzz TARGET=areas`
# tries one target; with SEED=… it repeats a run, with CASE=… as well a single case of it.
fuzz: setup
	$(PY) -m tests.fuzz $(TARGET) $(addprefix --seed=,$(SEED)) $(addprefix --case=,$(CASE))

lint: $(INSTALLED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(INSTALLED)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: setup system
	@$(PY) -m nearcast bench matching
	@$(PY) -m nearcast bench broker
	@$(PY) -m nearcast bench attacks
	@$(PY) -m nearcast bench thin-link
	@$(PY) -m nearcast bench situation
	@$(PY) -m nearcast bench pipeline
	@$(PY) -m nearcast bench tables

experiments: setup
	@$(PY) -m nearcast experiment all --out build/experiments

docs: setup
	$(PY) -m pytest tests/test_docs.py tests/test_docs_pasted.py tests/test_tutorial.py

# dist/nearcast-VERSION-py3-none-any.whl: alone the Python client and the command line, with the
# extras `broker`, `pipeline` and `bench` the rest.
wheel: $(INSTALLED)
	@rm -f dist/nearcast-*.whl
	@$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/nearcast-*.whl

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Packages that come as sources (pyspark) are built apart, with a build system that the constraints
# pin: older versions of pip read the one variable for that, newer ones the other. What the virtual
# environment happens to contain does not matter.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	$(PY) -m pip --disable-pip-version-check
$(INSTALLED): pyproject.toml constraints.txt $(PY)
	$(PIP) install --quiet -e '.[$(EXTRAS)]'
	@touch $@

$(PY):
	@mkdir -p '$(VENV)' 2>/dev/null && test -w '$(VENV)' || { \
		echo "$(VENV) cannot be made here: copy this folder to one that you can write to, or say" \
			"where the environment shall be: make VENV=DIRECTORY $(MAKECMDGOALS)" >&2; \
		exit 1; \
	}; \
	for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
				echo "$$python cannot make virtual environments: install its venv module" \
					"(Debian and Ubuntu: apt install $$python-venv), then run make again." >&2; \
				exit 1; \
			fi; \
			echo "Setting up $(VENV) with $$("$$python" --version)"; \
			exec "$$python" -m venv --clear $(VENV); \
		fi; \
	done; \
	echo "Nearcast needs Python 3.11 or newer, and none was found: install it" \
		"(Debian and Ubuntu: apt install python3.11 python3.11-venv; macOS: brew install" \
		"python@3.13), then run make again." >&2; \
	exit 1
