# Each target can be the first command on a fresh Debian 12 machine, as root: it installs what it needs,
# says so step by step, and does nothing the second time.

VENV := build/venv
PY   := $(VENV)/bin
PREPARE := ./tools/prepare

.DEFAULT_GOAL := help
.PHONY: help demo test chaos lint format venv switch test-unit test-switch-weir test-switch test-switch-full \
	soak soak-switch fuzz bench-switch bench-controller bench-incast test-system package test-package clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## the product at work: incasts over Reno, DCTCP and Weir (about 2 minutes after the build)
	@$(PREPARE) packages venv switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" $(PY)/weir-experiment demo --out build/demo

test: ## lint, unit tests, the switch's own tests, the whole system in namespaces
	@$(PREPARE) packages venv switch bpf
	@$(MAKE) --no-print-directory lint test-switch-weir
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" $(PY)/pytest -m 'not chaos'

lint: ## format, style, types, import rules, patch style
	@$(PREPARE) packages venv
	@tools/lint

format: ## bring the sources into form
	@$(PREPARE) packages venv
	@$(PY)/ruff format . && $(PY)/ruff check --fix .

venv: ## the Python environment alone
	@$(PREPARE) packages venv

switch: ## the patched Open vSwitch alone
	@$(PREPARE) packages switch

test-unit: ## what needs neither root nor a switch
	@$(PREPARE) packages venv
	@$(PY)/pytest -m 'not netns and not switch'

test-switch-weir: ## Open vSwitch's test suite, the groups that the patches add
	@$(PREPARE) packages switch
	@ovs-patches/check weir
	@ovs-patches/check kernel

test-switch: ## the series: style, each patch compiles, its tests, Open vSwitch's own around it against unpatched
	@$(PREPARE) packages switch unpatched-switch
	@ovs-patches/check all

test-switch-full: ## the same with all of Open vSwitch's unit tests
	@$(PREPARE) packages switch unpatched-switch
	@ovs-patches/check all --full

MINUTES := 30
soak-switch: ## MINUTES=30 of random changes and traffic under AddressSanitizer (SEED=N to repeat some)
	@$(PREPARE) packages venv sanitized-switch
	@$(PY)/weir-experiment soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --out build/soak \
		--ovs "$$(ovs-patches/build --sanitize --prefix)"

soak: MINUTES := 45
soak: ## MINUTES=45 of 2,000 connections/s with churn for the controller (SEED=N to repeat some)
	@$(PREPARE) packages venv
	@$(PY)/weir-experiment soak controller --minutes $(MINUTES) --rate 2000 \
		$(if $(SEED),--seed $(SEED)) --out build/soak-controller

fuzz: MINUTES := 10
fuzz: ## MINUTES=10 of what a hostile switch or host may send to the controller, coverage-guided
	@$(PREPARE) packages venv fuzzer
	@mkdir -p build/fuzz/found
	@$(PY)/python tests/fuzz/southbound.py build/fuzz/corpus -artifact_prefix=build/fuzz/found/ \
		-rss_limit_mb=4096 -timeout=10 -max_total_time=$$(($(MINUTES) * 60))

bench-switch: ## the switch's figures: table and build/bench/switch.json (about 6 minutes)
	@$(PREPARE) packages venv switch unpatched-switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" \
		WEIR_UNPATCHED_OVS_PREFIX="$$(ovs-patches/build --unpatched --prefix)" \
		$(PY)/weir-experiment bench switch --out build/bench/switch.json

bench-incast: ## Weir, SDTCP, Reno and DCTCP with 1 to 120 senders: table and build/bench/incast.json
	@$(PREPARE) packages venv switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" \
		$(PY)/weir-experiment bench incast --out build/bench/incast.json

bench-controller: ## the controller's figures: table and build/bench/controller.json (about 2 minutes)
	@$(PREPARE) packages venv
	@$(PY)/weir-experiment bench controller --out build/bench/controller.json

test-system: ## real switch, real controller, real TCP, in namespaces
	@$(PREPARE) packages venv switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" $(PY)/pytest -m '(netns or switch) and not chaos'

chaos: ## 20 random faults at controller and switches (WEIR_CHAOS_SEED=N to repeat some, WEIR_CHAOS_FAULTS=N)
	@$(PREPARE) packages venv switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" $(PY)/pytest -m chaos

package: ## the Debian packages weir-switch and weir-controller: build/packages
	@$(PREPARE) packages venv packaging package
	@rm -rf build/packages && mkdir -p build/packages && cp "$$(packaging/build --out)"/* build/packages && ls build/packages

test-package: ## install, use, upgrade and remove the packages in a fresh Debian 12 of their own (about 3 minutes)
	@$(PREPARE) packages venv packaging package
	@$(PY)/python packaging/trial.py "$$(packaging/build --out)"

clean: ## remove build/ (the built switch stays in its cache)
	rm -rf build
