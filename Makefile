# make setup | demo | test | soak | soak-streams | soak-cold | lint | bench | bench-compare | bench-store | peer-suites | fuzz | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MOTO := build/moto/bin/moto_server
SOURCES := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.h')

.PHONY: setup demo test soak soak-streams soak-cold lint format bench bench-compare bench-store peer-suites fuzz clean
.DEFAULT_GOAL := setup

setup: $(VENV)/.built

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Tidelog needs Python 3.11 or newer; say which with: make PYTHON=python3.13"; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "Tidelog needs a C compiler, such as gcc (Debian: apt-get install build-essential)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt setuptools Cython
	TIDELOG_COMPILE=later $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[dev]'
	@$(BIN)/python -c 'import sys; from tidelog.spark.java import main; sys.exit(main())'
	@touch $@

$(VENV)/.built: $(VENV)/.installed setup.py $(SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

demo: setup
	$(BIN)/tidelog demo --to build/demo

test: setup $(MOTO)
	$(BIN)/pytest

# A second S3 for the tests. What it brings does not go with our own pins, so it lives apart.
$(MOTO):
	$(PYTHON) -m venv $(dir $(MOTO))..
	$(dir $(MOTO))pip install --quiet --disable-pip-version-check 'moto[s3]==5.2.5' 'Flask==3.1.3' 'flask-cors==6.0.5' \
		|| { rm -rf $(dir $(MOTO))..; echo "moto is not installed: its tests are skipped"; }

# What it does, and what it has found: docs/how-to/soak.md
SOAK_SECONDS ?= 60

soak: setup
	PYTHONPATH=tests $(BIN)/python -m sim.soak --seconds $$(( $(SOAK_SECONDS) / 2 ))
	PYTHONPATH=tests $(BIN)/python -m crash.soak --seconds $$(( $(SOAK_SECONDS) / 2 ))

# The same for servers with streams and stock clients.
SOAK_KILLS ?= 100

soak-streams: setup
	PYTHONPATH=tests $(BIN)/python -m crash.stream_soak --kills $(SOAK_KILLS)

# And for servers that send history to the cold tier.
COLD_KILLS ?= 200

soak-cold: setup
	PYTHONPATH=tests $(BIN)/python -m crash.cold_soak --kills $(COLD_KILLS)

lint: setup
	$(BIN)/ruff check src tests fuzz
	$(BIN)/ruff format --check src tests fuzz
	$(BIN)/mypy
	$(BIN)/mypy -p fuzz
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix src tests fuzz
	$(BIN)/ruff format src tests fuzz

bench: setup
	$(BIN)/tidelog bench core

bench-compare: setup
	$(BIN)/tidelog bench compare

# NATS_SERVER=dir, a checkout of nats-server, puts its own figures beside ours.
STORE_RESULTS ?= docs/benchmarks/store.md

bench-store: setup
	$(BIN)/tidelog bench store --markdown $(STORE_RESULTS) $(if $(NATS_SERVER),--nats-server "$(NATS_SERVER)")

# docs/compatibility.md says how to make the directory; SUITES="nats.c ..." runs some of them.
peer-suites: setup
	@test -n "$(PEERS)" || { echo "make peer-suites PEERS=dir [SUITES=...]; docs/compatibility.md says how to make dir"; exit 1; }
	PYTHONPATH=tests $(BIN)/python -m conform.peer_suite --peers "$(PEERS)" --server "$$($(BIN)/tidelog drop-in)" \
		$(addprefix --suite ,$(SUITES))

# How long, and what else libFuzzer should be told: docs/how-to/fuzz.md
FUZZ_SECONDS ?= 60
FUZZ_OPTIONS ?=
FUZZ := build/fuzz

fuzz: setup
	PYTHONPATH=.:tests $(BIN)/python -m fuzz.build
	@mkdir -p $(FUZZ)/corpus $(FUZZ)/findings
	$(FUZZ)/target -max_total_time=$(FUZZ_SECONDS) -max_len=2048 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-dict=fuzz/nats.dict -artifact_prefix=$(FUZZ)/findings/ $(FUZZ_OPTIONS) $(FUZZ)/corpus $(FUZZ)/seed

clean:
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
