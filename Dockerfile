# docker build --tag gpu-tollgate:0.1.0 .
#
# The base image is named by version. For builds that are the same tomorrow name it by digest:
#   docker buildx imagetools inspect python:3.13-slim            # prints the digest
#   docker build --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:… --tag gpu-tollgate:0.1.0 .
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
# A virtual environment without pip: what is copied from here can run Tollgate and install nothing. Dependencies are
# wheels with the hashes of the lock files, so nothing is compiled and nothing unknown comes in.
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/tollgate \
 && python -m pip --python /opt/tollgate/bin/python install --no-cache-dir --disable-pip-version-check \
      --only-binary=:all: --require-hashes -r requirements.lock
COPY requirements-build.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
      --only-binary=:all: --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY webhook ./webhook
RUN /opt/build/bin/python -m pip wheel --no-cache-dir --disable-pip-version-check \
      --no-deps --no-build-isolation --wheel-dir /src/dist . \
 && python -m pip --python /opt/tollgate/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-index --no-deps /src/dist/gpu_tollgate-*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="gpu-tollgate" \
      org.opencontainers.image.description="Admission for GPU clusters: token-throughput budgets, fractional GPUs that autoscalers can see, and queues." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# The base image's own installer has no work here.
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore pip \
 && rm -rf /usr/local/lib/python3.*/ensurepip
COPY --from=build /opt/tollgate /opt/tollgate
# Bytecode was written at build time; at run time the root file system is read-only.
ENV PATH=/opt/tollgate/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /
# By number, so that kubelet can see that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 8443 9090
ENTRYPOINT ["tollgate"]
CMD ["serve"]
