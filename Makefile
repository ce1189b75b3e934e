# `make` alone prints what there is. Every target makes what it needs in $(VENV), from a plain
# python3 with pip; nothing but the package index is asked for anything.

PYTHON ?= python3
VENV ?= .venv
# One more than there are cores: tests wait for processes as much as they work.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 7) + 1)')
N ?= 5000
MINUTES ?= 3
TABLES ?= 200
WHAT ?= all

export PYTHONPATH := $(CURDIR):$(CURDIR)/proto/gen
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
BENCH := $(VENV)/.bench
DEPLOY := $(VENV)/deploy
SUPPLY := $(VENV)/supply
SBOM := build/sbom.json
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet
LOCKED := $(PIP) --require-hashes --only-binary :all:
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate $(UPGRADE)
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
ENGINE ?= $(firstword $(foreach each,podman buildah docker,$(if $(shell command -v $(each)),$(each))))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo run test check lint types proto freeze laws leaks drill restore-drill drops rolling sim reasons bench \
	image deploy-check sbom audit-deps lock pictures clean

help: ## Print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUN) ## Play whole games over four services, break one, replay and audit all
	$(BIN)/kozyr demo

run: $(RUN) ## Run everything on this machine, with what to try next
	$(BIN)/kozyr up

test: $(DEV) ## Run every test, on WORKERS=n processes at once
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations 10 $(ARGS)

check: $(DEV) ## Check style, types, imports, the wire contract and generated code; change nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code
	$(BIN)/python proto/generate.py --check
	$(BIN)/hadolint deploy/Dockerfile
	for image in tests/fixtures/*/contract.binpb; do $(BIN)/buf breaking --against $$image || exit 1; done

lint: $(DEV) ## Fix what can be fixed: style, order of imports, format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/buf format --write

types: $(DEV) ## Check types alone
	$(BIN)/mypy

proto: $(DEV) ## Generate proto/gen from proto/kozyr
	$(BIN)/python proto/generate.py

freeze: $(DEV) ## Freeze VERSION=x.y.z as the fixture that later releases must read; REPLACE=--replace
	$(BIN)/python tests/fixtures/freeze.py $(VERSION) $(REPLACE)

laws: $(DEV) ## Play N=5000 games of each kind against the laws of the games
	KOZYR_LAWS_N=$(N) $(BIN)/python -m pytest -n $(WORKERS) --durations 10 \
		tests/engines/test_*_laws.py $(ARGS)

leaks: $(DEV) ## Look for hidden cards in every channel of N=20 games of each kind, for every viewer
	$(BIN)/python -m tests.leaks --games $(if $(filter command line,$(origin N)),$(N),20) $(ARGS)

drill: $(DEV) ## Break services, database and disk for MINUTES=3 while games are played; SEED=n replays
	$(BIN)/python -m tests.drill --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

restore-drill: $(DEV) ## Lose all databases, restore them to moments that agree and that do not; ARGS=--sqlite
	$(BIN)/python -m tests.deploy.restore $(ARGS)

drops: $(DEV) ## Play N=100 games of each kind through lost connections, from replica to replica; SEED=n
	$(BIN)/python -m tests.drops --games $(if $(filter command line,$(origin N)),$(N),100) \
		$(if $(SEED),--seed $(SEED)) $(ARGS)

rolling: $(DEV) ## Restart every service in turn while TABLES=200 tables are played at; SEED=n
	$(BIN)/python -m tests.rolling --tables $(TABLES) $(if $(SEED),--seed $(SEED)) $(ARGS)

reasons: $(DEV) ## Write docs/reasons.md anew from the refusals in the code
	$(BIN)/python -m tests.reasons

sim: $(DEV) ## Simulate the whole system through faults, N=50 runs from SEED=1 on; a failure names its seed
	$(BIN)/python -m tests.sim.run --seed $(or $(SEED),1) \
		--runs $(if $(filter command line,$(origin N)),$(N),50) $(ARGS)

bench: $(BENCH) ## Measure everything beside its ceiling or peer (docs/bench.md); WHAT=store for one
	$(BIN)/kozyr bench $(WHAT) $(ARGS)

image: $(SBOM) ## Build the image kozyr:VERSION with podman, buildah or docker; BASE=… another base
	@test -n "$(ENGINE)" || { echo "no podman, buildah or docker here" >&2; exit 1; }
	$(ENGINE) build --file deploy/Dockerfile --tag kozyr:$(VERSION) \
		--build-arg VERSION=$(VERSION) $(if $(BASE),--build-arg BASE=$(BASE)) $(ARGS) .

deploy-check: $(DEV) $(DEPLOY)/.made ## Check image and manifests: schemas, policy, checkov, a run through Envoy
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/python -m tests.deploy.check $(DEPLOY)/bin
	$(BIN)/python -m pytest tests/deploy $(ARGS)

sbom: $(SBOM) ## Write build/sbom.json: what the image is made of, as CycloneDX

audit-deps: $(SUPPLY)/.made ## Ask the package index what is known against the locked requirements
	$(SUPPLY)/bin/python -m tests.deploy.supply audit

pictures: $(DEV) ## Draw the screens of kozyr play anew: pictures of the docs, texts of the tests
	$(BIN)/python -m tests.cli.screens

lock: $(DEV) ## Lock the requirements again; UPGRADE=--upgrade takes the newest that pyproject.toml allows
	$(COMPILE) pyproject.toml --group build --extra dev --output-file requirements-dev.txt
	$(COMPILE) pyproject.toml --group build --constraint requirements-dev.txt \
		--output-file requirements.txt
	$(COMPILE) pyproject.toml --group build --constraint requirements-dev.txt --extra bench \
		--output-file requirements-bench.txt
	$(COMPILE) --group pyproject.toml:deploy --output-file requirements-deploy.txt
	$(COMPILE) --group pyproject.toml:supply --output-file requirements-supply.txt

clean: ## Remove what make and the tools made, the environment included
	rm -rf $(VENV) build kozyr.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Kozyr needs Python 3.11 or newer: make PYTHON=python3.x …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo "This Python lacks venv or pip; Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements.txt pyproject.toml | $(BIN)/python
	$(LOCKED) -r requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): requirements-dev.txt $(RUN)
	$(LOCKED) -r requirements-dev.txt
	@touch $@

# rlcard is published as source alone; it is built with the setuptools of its lock.
$(BENCH): requirements-bench.txt $(RUN)
	$(LOCKED) --no-binary rlcard --no-build-isolation -r requirements-bench.txt
	@touch $@

$(SBOM): requirements.txt pyproject.toml $(SUPPLY)/.made
	$(SUPPLY)/bin/python -m tests.deploy.supply sbom $@

$(SUPPLY)/.made: requirements-supply.txt | $(BIN)/python
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
		--require-hashes --only-binary :all: -r requirements-supply.txt
	@touch $@

$(DEPLOY)/.made: requirements-deploy.txt | $(BIN)/python
	$(PYTHON) -m venv $(DEPLOY)
	$(DEPLOY)/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
		--require-hashes --only-binary :all: -r requirements-deploy.txt
	@touch $@
