# Every target sets up what it needs first; where nothing is missing, that takes about a second.
PYTHON ?= python3
BIN := .venv/bin
# Tools of .venv that call one another (molecule, ansible-lint) look for them on the PATH.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"

.PHONY: help setup setup-tests demo demo-asked demo-streams demo-mirror fleet-up fleet-down lint test-fast test-java test-kafka test-fleet test bench-clients clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]*:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing: system packages, .venv, jars, the sandbox proxy, the nodes' image
	@$(PYTHON) -m local.setup

setup-tests: ## what the tests need beside that
	@$(PYTHON) -m local.setup --fleet-if-possible --for-tests

demo: demo-asked setup ## deploy a local fleet, load it, restart it under load, audit it (README: LOAD=, DISTRIBUTION=)
	@$(RUN) $(BIN)/python -m local.demo $(ASKED)

# Values of the command line alone: a VERSION that is in somebody's environment is meant for something else.
asked = $(if $(filter command,$(origin $(1))),--$(2)='$(subst ','\'',$($(1)))')
ASKED = $(call asked,LOAD,load) $(call asked,DISTRIBUTION,distribution) $(call asked,VERSION,version) \
	$(call asked,ARCHIVE,archive) $(call asked,CHECKSUM,checksum)

demo-asked:
	@$(PYTHON) -m local.demo.asked $(ASKED)

demo-streams: setup ## the same with a Streams application of eight windowed joins
	@$(RUN) $(BIN)/python -m local.demo --inventory inventories/local-streams

demo-mirror: setup ## the same with mirrors between two clusters that are 60 ms apart
	@$(RUN) $(BIN)/python -m local.demo --inventory inventories/local-mirror

fleet-up: setup ## start the local fleet
	@$(BIN)/python -m local.fleet up

fleet-down: ## stop and remove every fleet of this project
	@$(PYTHON) -m local.fleet down --all

lint: setup-tests ## ruff, mypy, yamllint, ansible-lint
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy sizing spark_checks verify local plugins
	$(RUN) yamllint --strict .
	$(RUN) ansible-lint --offline -q

test-fast: lint ## lint, unit, Spark and render tests
	$(RUN) python -m pytest -n 2 --dist loadfile -m "not fleet and not kafka and not long"

test-java: setup-tests ## build the sandbox proxy and the sample application with their own tests
	mvn -q -B -f local/services/sandbox_rest/pom.xml verify
	mvn -q -B -f local/services/sample_streams/pom.xml verify

test-kafka: setup-tests ## the load and the proxy contract against brokers on loopback
	$(RUN) python -m pytest -m "kafka and not long"

test-fleet: setup-tests ## molecule, and the fleet end to end; skipped, with the reason, where no node can run
	@if reason=$$($(BIN)/python -m local.fleet check); \
	then $(RUN) molecule test --all; \
	else echo "skipped: molecule: $$reason"; fi
	$(RUN) python -m pytest -m "fleet and not long"

bench-clients: setup ## stock clients against the profiles, and acks against killed leaders: 7 minutes
	@$(RUN) $(BIN)/python -m bench.clients

test: test-fast test-java test-kafka test-fleet ## everything but test-long

test-long: setup-tests ## what takes minutes or a quiet machine: mirrors' faults, benches, secured and killed hosts
	$(RUN) python -m pytest -m long

clean: fleet-down ## remove the fleet, its image and all generated files; runs and downloads stay
	@$(PYTHON) -m local.setup.clean

distclean: clean ## as clean, and the runs and downloads as well
	@$(PYTHON) -m local.setup.clean --downloads
