# Each target can be the first command on a fresh Debian 12 machine, as root: it installs what it needs,
# says so step by step, and does nothing the second time.

VENV := build/venv
PY   := $(VENV)/bin
PREPARE := ./tools/prepare

.DEFAULT_GOAL := help
.PHONY: help demo demo-dashboard check test test-fabric test-long chaos lint format venv switch transport test-unit test-transport test-switch-weir test-switch \
	test-switch-full soak soak-switch soak-atp soak-acc soak-acc-hosts fuzz fuzz-transport audit miri hostile-transport bench-switch bench-controller bench-incast bench-apps bench-codec bench-transport bench-short-flows bench-acc bench-dctcp bench-lttp bench-bandwidth bench-dfcp bench-page figures \
	test-system manual page page-test screenshots package test-package clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo-dashboard: ## the operator's page with something to look at, until Ctrl-C (ADDRESS=127.0.0.1:8181)
	@$(PREPARE) packages venv switch page
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" WEIR_PAGE_PREFIX="$$(dashboards/web/build --prefix)" \
		$(PY)/weir-experiment dashboard $(addprefix --address ,$(ADDRESS))

demo: ## the product at work: incasts over Reno, DCTCP and Weir (about 2 minutes after the build; STAY=1 keeps up the operator's page)
	@$(PREPARE) packages venv switch bpf $(if $(STAY),page)
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" WEIR_PAGE_PREFIX="$$(dashboards/web/build --prefix)" \
		$(PY)/weir-experiment demo --out build/demo $(if $(STAY),--stay) $(addprefix --address ,$(ADDRESS))

# Where what was built lies, for those who use it.
OVERCHARGING = --with tests/system/charged_tenfold.patch
BUILT = WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" WEIR_TRANSPORT_PREFIX="$$(transport/build --prefix)" \
	WEIR_OVERCHARGING_OVS_PREFIX="$$(ovs-patches/build $(OVERCHARGING) --prefix)"

test: ## lint, unit tests, the switch's own tests, the transports', the system in namespaces (FRESH=1: what passed before, too)
	@$(PREPARE) packages venv switch bpf transport bindings apps promtool
	@$(MAKE) --no-print-directory lint test-switch-weir
	@$(CARGO_TEST)
	@$(BUILT) tools/test 'not chaos and not browser and not long'

test-long: ## the tests that take minutes, or a machine whose speed holds: each alert by its fault, comparisons, window scales, a soak, sweeps of figures
	@$(PREPARE) packages venv switch overcharging-switch bpf transport apps promtool
	@$(BUILT) tools/test long

test-fabric: ## a fabric as operators have them: VLANs, a router, a VXLAN tunnel, a bond, pools that were idle for long (1 minute; part of make test-long)
	@$(PREPARE) packages venv switch bpf
	@$(BUILT) $(PY)/pytest -s tests/system/test_routed_fabric.py

BASE :=
check: ## lint, types and unit tests of what has changed since the branch left its upstream (BASE=COMMIT: since then)
	@$(PREPARE) packages venv promtool
	@$(PY)/python tools/changed $(BASE)

lint: ## format, style, types, import rules, patch style
	@$(PREPARE) packages venv rust
	@tools/lint

format: ## bring the sources into form
	@$(PREPARE) packages venv rust
	@$(PY)/ruff format . && $(PY)/ruff check --fix . && tools/cargo fmt --all

venv: ## the Python environment alone
	@$(PREPARE) packages venv

switch: ## the patched Open vSwitch alone
	@$(PREPARE) packages switch

transport: ## the programs of the coded transports alone
	@$(PREPARE) packages transport
	@transport/build --prefix

test-unit: ## what needs neither root nor a switch
	@$(PREPARE) packages venv bindings promtool
	@tools/test 'not netns and not switch and not browser'

TRANSPORT_KEY = $$(transport/build --key && cat transport/test tools/cargo tools/rustc | sha256sum)
CARGO_TEST = tools/once transport "$(TRANSPORT_KEY)" transport/test
test-transport: ## the coded transports: the tests of all crates, and of the bindings for Python
	@$(PREPARE) packages venv rust bindings
	@$(CARGO_TEST)
	@[ ! -d tests/transport ] || $(PY)/pytest tests/transport

# What Open vSwitch's own tests depend on.
SWITCH_KEY = $$(ovs-patches/build --prefix && cat ovs-patches/check ovs-patches/*.py | sha256sum)
test-switch-weir: ## Open vSwitch's test suite, the groups that the patches add
	@$(PREPARE) packages switch
	@tools/once switch "$(SWITCH_KEY)" ovs-patches/check weir
	@tools/once switch-kernel "$(SWITCH_KEY)" ovs-patches/check kernel

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

soak-atp: MINUTES := 60
soak-atp: ## MINUTES=60 of curl, redis and pgbench over atp-proxy at 1 % loss both ways, every byte compared (SEED=N to repeat some)
	@$(PREPARE) packages venv bpf transport apps
	@$(BUILT) $(PY)/weir-experiment soak atp --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --out build/soak-atp

soak-acc-hosts: MINUTES := 60
soak-acc-hosts: ## MINUTES=60 of curl, redis, pgbench, ssh and iperf3 over TCP-ACC's layer at two hosts, at 1 % loss both ways, with restarts (SEED=N to repeat some)
	@$(PREPARE) packages venv bpf transport apps
	@$(BUILT) $(PY)/weir-experiment soak acc --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --out build/soak-acc

soak-acc: HOURS := 24
soak-acc: ## HOURS=24 of virtual time of TCP-ACC's layer under any weather: loss, copies, changes, restarts (SEED=N to repeat some)
	@$(PREPARE) packages rust
	@cd transport && WEIR_HOURS=$(HOURS) WEIR_SEED=$(or $(SEED),1) ../tools/cargo test --release -p weir-proto --lib -- \
		--ignored --nocapture a_day_of_any_weather

fuzz: MINUTES := 10
fuzz: ## MINUTES=10 of what a hostile switch or host may send to the controller, coverage-guided
	@$(PREPARE) packages venv fuzzer
	@mkdir -p build/fuzz/found
	@$(PY)/python tests/fuzz/southbound.py build/fuzz/corpus -artifact_prefix=build/fuzz/found/ \
		-rss_limit_mb=4096 -timeout=10 -max_total_time=$$(($(MINUTES) * 60))

fuzz-transport: MINUTES := 10
fuzz-transport: ## MINUTES=10 a target of what a hostile peer may send to the coded transports, coverage-guided (TARGETS=...)
	@$(PREPARE) packages rust
	@tools/cargo --run transport/fuzz/run $(MINUTES) $(TARGETS)

ADVISORIES :=
audit: ## licences, sources and known vulnerabilities of the crates that transport/ is built of (ADVISORIES=CHECKOUT: without network)
	@$(PREPARE) packages rust
	@tools/cargo --run transport/audit $(ADVISORIES)

miri: ## the codec in an interpreter that finds undefined behaviour (rustup toolchain install nightly -c miri; some minutes)
	@tools/cargo --run transport/miri

PEERS := 4096
hostile-transport: ## PEERS=4096 that do their worst to fountain serve and recv: memory, files and disk stay within their bounds
	@$(PREPARE) packages rust
	@WEIR_HOSTILE_PEERS=$(PEERS) tools/cargo test --locked -p weir-cli --test hostile -- --nocapture --test-threads 1

FIGURES := build/figures
figures: ## the page of the papers' figures, in seconds: build/report (MEASURE=1: measures all of them first, hours; MEASURE=1 QUICK=1: some of each)
ifdef MEASURE
	@$(PREPARE) packages venv switch bpf transport apps
	@$(BUILT) $(PY)/weir-experiment run all $(if $(QUICK),--quick)
	@$(PY)/weir-experiment report $(FIGURES) --out build/report
else
	@$(PREPARE) packages venv
	@$(PY)/weir-experiment report --out build/report
endif

bench-switch: ## the switch's figures: table and build/bench/switch.json (about 6 minutes)
	@$(PREPARE) packages venv switch unpatched-switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" \
		WEIR_UNPATCHED_OVS_PREFIX="$$(ovs-patches/build --unpatched --prefix)" \
		$(PY)/weir-experiment bench switch --out build/bench/switch.json

GROUP :=
bench-incast: ## Weir, SDTCP, Reno, DCTCP and a fair queue, 1 to 1,000 connections: build/bench/incast.json (long; GROUP=n40: one group)
	@$(PREPARE) packages venv switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" \
		$(PY)/weir-experiment bench incast $(addprefix --group ,$(GROUP)) --out build/bench/incast.json

bench-apps: ## ordinary programs through a regulated fabric: build/bench/apps.json (long; QUICK=1: 11 minutes of it)
	@$(PREPARE) packages venv switch bpf apps
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" \
		$(PY)/weir-experiment bench apps $(addprefix --group ,$(GROUP)) $(if $(QUICK),--quick --repeats 2,--repeats 5) --out build/bench/apps.json

bench-codec: ## the codec beside other crates: table, build/bench/codec.json and .png
	@$(PREPARE) packages venv rust
	@mkdir -p build/bench
	@tools/cargo run --release --locked --quiet -p weir-bench --bin bench-codec -- --out "$(CURDIR)/build/bench/codec.json"
	@$(PY)/weir-experiment plot build/bench/codec.json

QUICK :=
CARGO_RELEASE = $$(tools/cargo --run sh -c 'echo "$$CARGO_TARGET_DIR/release"')
bench-transport: ## LTTP, DFCP and ATP beside quinn and iperf3, over loopback and veth: build/bench/transport.json, .png (10 minutes; QUICK=1: 2 of it)
	@$(PREPARE) packages venv rust transport
	@tools/cargo build --release --locked --quiet -p weir-bench
	@$(BUILT) WEIR_BENCH_PREFIX="$(CARGO_RELEASE)" $(PY)/weir-experiment bench transport $(if $(QUICK),--quick) --out build/bench/transport.json

bench-short-flows: ## short flows over ATP, TCP and QUIC, alone, beside others, with losses, from many at once: build/bench/short_flows.json, .png (35 minutes; QUICK=1: 5 of it)
	@$(PREPARE) packages venv rust switch bpf transport apps
	@tools/cargo build --release --locked --quiet -p weir-bench
	@$(BUILT) WEIR_BENCH_PREFIX="$(CARGO_RELEASE)" $(PY)/weir-experiment bench short-flows $(addprefix --group ,$(GROUP)) $(if $(QUICK),--quick --repeats 1) --out build/bench/short_flows.json

bench-acc: ## TCP over TCP-ACC's layer with losses, from many at once, between switches, and as fast as it goes; timeouts beside what they are taken for: build/bench/acc.json, acc*.png (60 minutes; QUICK=1: 10 of it)
	@$(PREPARE) packages venv rust switch bpf transport apps
	@tools/cargo build --release --locked --quiet -p weir-bench
	@$(BUILT) WEIR_BENCH_PREFIX="$(CARGO_RELEASE)" $(PY)/weir-experiment bench acc $(addprefix --group ,$(GROUP)) $(if $(QUICK),--quick) --out build/bench/acc.json

bench-dctcp: ## which K and g are the best for DCTCP in a short buffer: build/bench/dctcp.json (20 minutes; QUICK=1: 2)
	@$(PREPARE) packages venv switch bpf
	@$(BUILT) $(PY)/weir-experiment bench dctcp $(addprefix --group ,$(GROUP)) $(if $(QUICK),--quick) --out build/bench/dctcp.json

bench-lttp: ## LTTP, Reno and DCTCP from 1 to 120 servers, at two rates, and fairness: build/bench/lttp.json (30 minutes; QUICK=1: some of it)
	@$(PREPARE) packages venv switch bpf transport
	@$(BUILT) $(PY)/weir-experiment bench lttp $(if $(QUICK),--quick --repeats 1,--repeats 2) --out build/bench/lttp.json

bench-bandwidth: ## the controller's estimates of available bandwidth against the truth and iperf3: build/bench/bandwidth.json (8 minutes)
	@$(PREPARE) packages venv switch
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" \
		$(PY)/weir-experiment bench bandwidth --out build/bench/bandwidth.json

bench-dfcp: ## DFCP beside CUBIC and BBR over long and lossy links, its rates, and how it shares: build/bench/dfcp.json (25 minutes, more where it measures again; QUICK=1: some of it)
	@$(PREPARE) packages venv switch bpf transport
	@$(BUILT) $(PY)/weir-experiment bench dfcp $(if $(QUICK),--quick) --out build/bench/dfcp.json

bench-controller: ## the controller's figures: table and build/bench/controller.json (about 8 minutes)
	@$(PREPARE) packages venv
	@$(PY)/weir-experiment bench controller --out build/bench/controller.json

bench-page: ## the operator's page over 1,000 switches and a million flows: build/bench/page.json (QUICK=1: some of it)
	@$(PREPARE) packages venv page browser
	@WEIR_PAGE_PREFIX="$$(dashboards/web/build --prefix)" \
		$(PY)/weir-experiment bench page $(addprefix --group ,$(GROUP)) $(if $(QUICK),--quick) --out build/bench/page.json

test-system: ## real switch, real controller, real TCP and LTTP, in namespaces
	@$(PREPARE) packages venv switch bpf transport apps
	@$(BUILT) tools/test '(netns or switch) and not chaos'

chaos: ## 20 random faults at controller and switches (WEIR_CHAOS_SEED=N to repeat some, WEIR_CHAOS_FAULTS=N)
	@$(PREPARE) packages venv switch bpf
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" $(PY)/pytest -m chaos tests/system

manual: ## man pages and shell completions of all programs: build/man, build/completions
	@$(PREPARE) packages venv rust
	@$(PY)/python tools/manual build
	@FOUNTAIN_MANUAL="$(CURDIR)/build" tools/cargo run --quiet --locked -p weir-cli --features manual
	@find build/man build/completions -type f | sort

page: ## the operator's page: static files for the HTTP API to serve
	@$(PREPARE) page
	@dashboards/web/build --prefix

page-test: ## the page: form, types, unit tests, size, and a browser that uses it, over a real switch as well
	@$(PREPARE) packages venv page browser switch
	@dashboards/web/check
	@dashboards/web/check --reproducible
	@$(BUILT) WEIR_PAGE_PREFIX="$$(dashboards/web/build --prefix)" $(PY)/pytest -m browser tests/dashboards

screenshots: ## the pictures of the page in README.md and docs: dashboards/images (about 5 minutes)
	@$(PREPARE) packages venv page browser switch
	@WEIR_OVS_PREFIX="$$(ovs-patches/build --prefix)" WEIR_PAGE_PREFIX="$$(dashboards/web/build --prefix)" $(PY)/python dashboards/screenshots

package: ## the Debian packages weir-switch, weir-controller and weir-fountain: build/packages
	@$(PREPARE) packages venv packaging package
	@rm -rf build/packages && mkdir -p build/packages && cp "$$(packaging/build --out)"/* build/packages && ls build/packages

test-package: ## install, use, upgrade and remove the packages in a fresh Debian 12 of their own, and play the pages there (about 5 minutes)
	@$(PREPARE) packages venv packaging package
	@$(PY)/python packaging/trial.py "$$(packaging/build --out)"
	@$(PY)/python packaging/first_day.py "$$(packaging/build --out)"

clean: ## remove build/ (the built switch stays in its cache)
	rm -rf build
