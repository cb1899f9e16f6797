# Rehearsal as a server of worlds: docs/installing.md has the commands. It has not been built by its
# authors, who have no Docker; tests/install/dockerfile.py runs its steps without one.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY pyproject.toml MANIFEST.in README.md LICENSE CHANGELOG.md constraints.txt ./
COPY src src/
COPY envpool envpool/
COPY harness harness/
COPY judge judge/
COPY learner learner/
COPY scenarios scenarios/
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /dist . && cp constraints.txt /dist/

FROM python:${PYTHON}-slim
# What is installed beside the core; `train` adds torch, which is large.
ARG EXTRAS=awm,mcp,openai,otlp,parquet,tokens
# The layers of the sandbox. Where the container may not make namespaces, seccomp and Landlock are
# used alone (rehearse doctor shows the level).
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap libseccomp2 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /dist /dist/
RUN python -m venv /opt/rehearsal \
    && /opt/rehearsal/bin/python -m pip install --no-cache-dir --constraint /dist/constraints.txt "$(echo /dist/*.whl)[${EXTRAS}]"
RUN useradd --uid 10001 --create-home rehearsal && install --directory --owner rehearsal /data
ENV PATH=/opt/rehearsal/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    REHEARSE_WORLDS=/data/worlds
USER 10001
WORKDIR /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/health', timeout=4)"]
ENTRYPOINT ["rehearse"]
CMD ["serve", "shop_support", "flight_desk", "claims_desk", "--http", "0.0.0.0:8765"]
