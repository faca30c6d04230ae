# Two stages: the first has the resolver's hashes and the build tools, the second only what runs.
# Both begin from one image, named by its digest: docs/operations.md says how to take a newer one.

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS build
WORKDIR /src
# Every file is checked against a hash of requirements.lock as it arrives. What is installed later
# comes from this directory alone, so it is pinned to the same hashes, development tools left out.
COPY requirements.lock ./
RUN python -m pip download --quiet --no-cache-dir --require-hashes --no-deps \
        --requirement requirements.lock --dest /wheels
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
COPY docs ./docs
COPY mechanisms ./mechanisms
COPY migrations ./migrations
RUN python -m venv /tools \
    && /tools/bin/python -m pip install --quiet --no-index --upgrade --find-links /wheels setuptools \
    && /tools/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --no-index \
        --wheel-dir /dist . \
    && python -m venv --without-pip /opt/release-desk \
    && python -m pip --python /opt/release-desk/bin/python install --quiet --no-index \
        --find-links /wheels --compile /dist/*.whl

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
LABEL org.opencontainers.image.title="Release Desk" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/release-desk /opt/release-desk
RUN install -d -o 10001 -g 10001 -m 0700 /data /anchor
ENV PATH=/opt/release-desk/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    RELEASE_DESK_DATA_DIR=/data \
    RELEASE_DESK_ANCHOR_DIR=/anchor
USER 10001:10001
# Two, so that a backup of one put back is noticed by the other.
VOLUME ["/data", "/anchor"]
EXPOSE 8000
# The address is the container's own; the image has no curl.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["release-desk"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
