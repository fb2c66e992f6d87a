# The agent alone, in a folder that an application takes over. In the root of the checkout:
#   docker build -f examples/deployment/agent.Dockerfile --build-arg PYTHON=3.12 -t latencytrace-agent:0.2.0 .
# PYTHON is the version that the application runs on: one dependency has a compiled part.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim AS build
# A compiler, for what the agent has in C; it is whole without.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY latencytrace latencytrace
COPY examples/rag_chat examples/rag_chat
RUN pip install --no-cache-dir --target /opt/latencytrace .

FROM busybox:1.37
COPY --from=build /opt/latencytrace /opt/latencytrace
USER 65532:65532
# As an init container: copies itself into a volume that the application mounts at /opt/latencytrace.
ENTRYPOINT ["cp", "-r", "/opt/latencytrace/.", "/target"]
