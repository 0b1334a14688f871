# plangate: every command that the README names. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# One set of features for everything that is compiled, binaries and tests alike: the AWS SDKs are then built once.
BUILD := cargo build --locked --workspace --all-targets

.PHONY: help
help: ## what there is to do
	@grep -E '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | awk -F'\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: prerequisites
prerequisites:
	@local/prerequisites.sh

.PHONY: setup
setup: prerequisites
	@local/setup.sh

.PHONY: build
build: prerequisites ## compile everything
	@$(BUILD)

.PHONY: demo
demo: setup build ## a run from proposal to applied, told step by step, on this machine
	@$(PYTHON) -m local.demo

.PHONY: up
up: setup build ## the laptop stack, kept running to play with; prints the environment to use
	@$(PYTHON) -m local.play up

.PHONY: down
down: setup ## stops what `make up` started
	@$(PYTHON) -m local.play down

.PHONY: as-alice as-bob as-administrator
as-alice as-bob as-administrator: ## prints somebody's environment on the stack of `make up`
	@$(PYTHON) -m local.play as $(@:as-%=%)

.PHONY: test
test: setup build provider test-rust test-stack ## all tests, the end-to-end ones included

.PHONY: test-rust
test-rust: prerequisites
	@if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --locked --workspace --no-fail-fast; else cargo test --locked --workspace --no-fail-fast; fi

# The test provider is a package of its own; its library (in tests/provider) builds it into target/test-provider.
.PHONY: provider
provider: prerequisites
	@cargo run --locked --quiet --package plangate-test-provider -- target/test-provider/mirror

.PHONY: test-stack
test-stack: setup build provider
	@$(PYTHON) -m pytest -n 2 --dist loadgroup local/tests infra/tests deploy/tests tests

# CHAOS_SEED left out: another each time, and printed.
.PHONY: chaos
chaos: setup build ## random schedules of acts, faults and attacks, CHAOS_RUNS (1000) drawn from CHAOS_SEED, judged from the stores alone
	@$(PYTHON) -m tests.chaos --runs $(or $(CHAOS_RUNS),1000) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

.PHONY: check
check: setup ## format, lints, linters of templates, state machine and dependencies
	@cargo fmt --all --check
	@cargo clippy --locked --workspace --all-targets -- -D warnings
	@.venv/bin/cfn-lint infra/*.yaml
	@local/lint/run.sh

.PHONY: fmt
fmt: ## formats the Rust code
	@cargo fmt --all

.PHONY: bench
bench: prerequisites ## the decision core on documents of 5, 50 and 200 MB and on audits of 1,000 and 10,000 events, held against its bounds
	@cargo bench --locked --package plangate-gate --bench core

# ---- Into an account: docs/deploy.md. SETTINGS is a file like deploy/example.json; `make deploy YES=1` does not ask. ----
SETTINGS ?= deploy.json

.PHONY: package
package: setup ## release programs for Lambda, one zip a function, the runner and the command line; TARGET is another triple
	@$(PYTHON) -m deploy.package $(if $(TARGET),--target $(TARGET))

.PHONY: package-check
package-check: setup ## two builds in two folders give the same bytes; ONLY="plangate-fn-guard" for some packages alone
	@$(PYTHON) -m deploy.package --check $(if $(TARGET),--target $(TARGET)) $(if $(ONLY),--only $(ONLY))

.PHONY: image
image: setup ## the runner's image for the gate of SETTINGS, built and started once; PUSH=1 puts it into the account's repository
	@$(PYTHON) -m deploy.image $(SETTINGS) $(if $(PUSH),--push)

.PHONY: deploy
deploy: setup ## brings the gate of SETTINGS to the release of `make package`; shows what changes, and asks
	@$(PYTHON) -m deploy.gate $(SETTINGS) $(if $(YES),--yes)

.PHONY: onboard
onboard: setup ## takes the workspace NAME of SETTINGS in; again, it goes on
	@$(PYTHON) -m deploy.onboard $(SETTINGS) "$(NAME)" $(if $(YES),--yes)

.PHONY: destroy
destroy: setup ## deletes the stacks of SETTINGS; state, audit and keys stay
	@$(PYTHON) -m deploy.destroy $(SETTINGS)

.PHONY: bench-run
bench-run: setup build provider ## what a run costs in calls, transitions and money; after `make package` also how long the gate takes around the engine
	@$(PYTHON) -m tests.bench $(addprefix --programs ,$(firstword $(wildcard target/packaging/*/release)))

.PHONY: fuzz
fuzz: prerequisites ## arbitrary bytes at each reader of outside input, FUZZ_SECONDS (60) for each
	@fuzz/run.sh $(or $(FUZZ_SECONDS),60)
