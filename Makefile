# Every target sets up what it needs first; where nothing is missing, that takes about a second.
PYTHON ?= python3
BIN := .venv/bin
# Tools of .venv that call one another (molecule, ansible-lint) look for them on the PATH.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"
# What a target needs is named in kedge/setup/targets.py, by the target's name.
SET_UP = @$(PYTHON) -m kedge.setup $@
# Container images often turn Python's bytecode off: then each start of Ansible compiles hundreds of modules again.
export PYTHONDONTWRITEBYTECODE :=
# Where no node can run, the tests go on without, and say so.
SET_UP_TESTS = $(SET_UP) --fleet-if-possible
# The molecule scenario that stands for all in `make test`. It takes longest, so the contract runs beside it.
SCENARIO := tests/e2e/test_molecule.py::test_a_scenario_passes[kafka_rest]

.PHONY: help setup bundle demo demo-asked demo-streams demo-mirror demo-capacity demo-compare demo-watch demo-canary fleet-up fleet-down check lint lint-code \
	lint-playbooks test-fast test-java test-proxy test-demo test test-kafka test-fleet test-bare test-slow \
	fast test-alone test-all test-long fuzz mutants bench bench-clients release clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]*:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing: system packages, .venv, jars, the sandbox proxy, the nodes' image (BUNDLE=: no network)
	$(SET_UP) $(call asked,BUNDLE,bundle)

bundle: ## pack what set-up and deploy fetch, with checksums, into dist/: for a machine without a network
	$(SET_UP)
	@$(PYTHON) -m kedge.setup.bundle

demo: demo-asked ## deploy a local fleet, load it, restart it under load, audit it (README: LOAD=, DISTRIBUTION=)
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.demo $(ASKED)

# Values of the command line alone: a VERSION that is in somebody's environment is meant for something else.
asked = $(if $(filter command,$(origin $(1))),--$(2)='$(subst ','\'',$($(1)))')
ASKED = $(call asked,LOAD,load) $(call asked,DISTRIBUTION,distribution) $(call asked,VERSION,version) \
	$(call asked,ARCHIVE,archive) $(call asked,CHECKSUM,checksum)

demo-asked:
	@$(PYTHON) -m lab.demo.options $(ASKED)

demo-streams: ## the same with a Streams application of eight windowed joins
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.demo --inventory inventories/local-streams

demo-mirror: ## the same with mirrors between two clusters that are 60 ms apart
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.demo --inventory inventories/local-mirror

demo-capacity: ## search for what the local fleet carries, healthy and while an instance restarts
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.demo --trials capacity

demo-compare: ## have configurations take turns on the local fleet (VARIANTS=stock,planned; else documented,planned)
	@$(PYTHON) -m lab.demo.options --trials compare $(call asked,VARIANTS,variants)
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.demo --trials compare $(call asked,VARIANTS,variants)

demo-watch: ## restart under a load that is taken for somebody else's: what its clients saw, and what a watch did (LOAD=)
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.demo --trials watch $(ASKED)

demo-canary: ## a canary's alert and its verdict, which names the records that a killed broker lost
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.demo --trials canary

fleet-up: ## start the local fleet
	$(SET_UP)
	@$(BIN)/python -m lab.fleet up

fleet-down: ## stop and remove every fleet of this project
	@$(PYTHON) -m lab.fleet down --all

check: ## ruff, and every test that starts no process (AREA=rest: of one service or package)
	$(SET_UP)
	$(RUN) ruff check --quiet .
	$(RUN) ruff format --check --quiet .
	$(RUN) python -m pytest -q -n 2 -m check $(call asked,AREA,area) tests/unit tests/render

lint: ## ruff, mypy, vermin, import-linter, yamllint, ansible-lint
	$(SET_UP)
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint-code lint-playbooks

# The two slow ones side by side.
lint-code:
	$(RUN) vermin --quiet --no-tips --violations --target=3.9- plugins/modules plugins/module_utils verify/watch/host_sampler.py
	$(RUN) mypy kedge spark_checks verify lab plugins
	$(RUN) lint-imports --no-cache --no-logo

lint-playbooks:
	$(RUN) yamllint --strict .
	$(RUN) ansible-lint --offline -q

# What only computes gives way to what waits beside it for containers, brokers and proxies. No higher than the audit
# that a verification starts beside its load: that one would starve.
LOW := nice -n 19

# Two things side by side, after their set-up, which is not. The demo judges rates: alone. Maven builds what tests unpack.
test: ## what a change must pass: from lint to one deployment, audited
	@$(PYTHON) -m kedge.setup lint
	@$(PYTHON) -m kedge.setup test-fast
	@$(PYTHON) -m kedge.setup test-proxy --fleet-if-possible
	@$(MAKE) --no-print-directory -j 2 lint test-java
	@$(MAKE) --no-print-directory -j 2 fast test-proxy
	@$(MAKE) --no-print-directory test-demo

# Brokers on loopback have time-outs, and fleets take eight shares of the CPU (lab/fleet/nodes.py): not side by side.
test-all: ## that, and all other scenarios, fleets, brokers, and a machine that has nothing
	@for target in lint test-fast test-kafka test-slow; do $(PYTHON) -m kedge.setup $$target || exit; done
	@$(PYTHON) -m kedge.setup test-fleet --fleet-if-possible
	@$(MAKE) --no-print-directory -j 2 lint test-java
	@$(MAKE) --no-print-directory -j 2 fast test-kafka
	@$(MAKE) --no-print-directory test-demo
	@$(MAKE) --no-print-directory -j 2 test-alone test-fleet

test-fast: lint ## lint, unit, Spark and render tests
	$(SET_UP)
	@$(MAKE) --no-print-directory fast

fast:
	$(RUN) $(LOW) python -m pytest -n 2 --durations=10 -m "not fleet and not kafka and not bare and not slow and not long"

test-slow: ## searches over many inputs, and playbooks played on stubs of hosts
	$(SET_UP)
	$(RUN) $(LOW) python -m pytest -n 2 --durations=10 -m "slow and not long"

test-java: ## build the sandbox proxy and the sample application with their own tests
	$(SET_UP)
	mvn -q -B -f lab/services/sandbox_rest/pom.xml verify
	mvn -q -B -f lab/services/sample_streams/pom.xml verify

test-proxy: ## the REST contract against the sandbox, and a molecule scenario with idempotence
	$(SET_UP_TESTS)
	$(RUN) python -m pytest -v -n 2 --no-loadscope-reorder -m "not long" "$(SCENARIO)" tests/contract

test-demo: ## make demo, and what its fleet and its audit must show
	$(SET_UP_TESTS)
	$(RUN) python -m pytest -v -m "not long" tests/e2e/test_demo.py

test-kafka: ## the load, the watchers, the modules and the REST contract against brokers on loopback
	$(SET_UP)
	$(RUN) python -m pytest -n 2 --durations=10 -m "kafka and not long"

test-fleet: ## molecule scenarios and tests on a fleet, but for the demo
	$(SET_UP_TESTS)
	$(RUN) python -m pytest -v -n 2 --durations=10 -m "fleet and not long" --ignore=tests/e2e/test_demo.py

test-bare: ## set-up on a Debian that has nothing
	$(SET_UP_TESTS)
	$(RUN) python -m pytest -v -m "bare and not long"

test-alone:
	@$(MAKE) --no-print-directory test-bare
	@$(MAKE) --no-print-directory test-slow

test-long: ## hours of faults, killed and secured hosts, upgrades, benches: what waited longest first (MINUTES=)
	$(SET_UP_TESTS)
	@$(RUN) python -m tests.long $(call asked,MINUTES,minutes)

fuzz: ## inputs against all that reads files of others: inventories, reviews, border (INPUTS= of each, SEED=, SECONDS= for each)
	$(SET_UP)
	@$(RUN) python -m tests.fuzz $(call asked,INPUTS,inputs) $(call asked,SEED,seed) $(call asked,SECONDS,seconds)

mutants: ## break lines of a copy of the product, and see which tests of make check notice (N=20 SEED=)
	$(SET_UP)
	@$(RUN) $(LOW) python -m tests.mutants $(call asked,N,n) $(call asked,SEED,seed)

bench: ## what the benches need (python -m lab.bench.NAME, see lab/bench/)
	$(SET_UP)

bench-clients: ## stock clients against the profiles, and acks against killed leaders: 7 minutes
	$(SET_UP)
	@$(RUN) $(BIN)/python -m lab.bench.clients

release: ## pack the tree of this version's tag, and build the wheel, with checksums, into build/
	$(SET_UP)
	@$(BIN)/python -m lab.release

clean: fleet-down ## remove the fleet, its image and all generated files; runs and downloads stay
	@$(PYTHON) -m kedge.setup.clean

distclean: clean ## as clean, and the runs and downloads as well
	@$(PYTHON) -m kedge.setup.clean --downloads
