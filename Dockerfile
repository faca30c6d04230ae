# Three stages, of which the last alone is the image. Two begin from one image, named by its digest:
# docs/operations/deployment.md says how to take a newer one.

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS build
RUN apt-get update --quiet --quiet \
    && apt-get install --quiet --quiet --yes --no-install-recommends binutils
WORKDIR /src
# Every file is checked against a hash of requirements.lock as it arrives. What is installed later
# comes from this directory alone, so it is pinned to the same hashes, development tools left out.
COPY requirements.lock ./
RUN python -m venv /tools \
    && /tools/bin/python -m pip download --quiet --no-cache-dir --require-hashes --no-deps \
        --requirement requirements.lock --dest /wheels
# What `release-desk[...]` adds: `--build-arg 'EXTRAS=[dask]'` for a cluster.
ARG EXTRAS=
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
COPY clients ./clients
COPY docs ./docs
COPY mechanisms ./mechanisms
COPY migrations ./migrations
RUN /tools/bin/python -m pip install --quiet --no-index --upgrade --find-links /wheels setuptools \
    && /tools/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --no-index \
        --wheel-dir /dist . \
    && python -m venv --without-pip /opt/release-desk \
    && /tools/bin/python -m pip --python /opt/release-desk/bin/python install --quiet --no-index \
        --find-links /wheels --no-compile "$(echo /dist/*.whl)$EXTRAS"
# No tests of other people's packages, no locales but those of the desk's languages, and no debugging
# symbols. Libraries in *.libs were edited after they were linked, and would not load any more.
RUN find /opt/release-desk -depth -type d -name tests -exec rm -r {} + \
    && find /opt/release-desk -path '*/babel/locale-data/*' \
        ! -name 'root.dat' ! -name 'de*' ! -name 'en*' ! -name 'fr*' -delete \
    && find /opt/release-desk -name '*.so' ! -path '*.libs/*' -exec strip --strip-unneeded {} +
# A whole trip, which also writes the bytecode of the modules that are used, and of no others: on a
# read-only root none can be written later. Elsewhere than in /src, whose modules would come first.
WORKDIR /
RUN /opt/release-desk/bin/release-desk demo --once > /dev/null
# What the environment consists of, as CycloneDX.
RUN /opt/release-desk/bin/release-desk sbom > /opt/release-desk/sbom.cdx.json

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS slim
COPY --from=build /opt/release-desk /opt/release-desk
RUN rm -rf /usr/share/doc /usr/share/locale /usr/share/man /usr/share/python-wheels \
    /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/site-packages \
    /usr/local/bin/pip* /var/cache/* /var/lib/apt/lists/* /var/log/*

# From nothing: what was removed above is in no layer of the image.
FROM scratch
# Where the image comes from: `--build-arg REVISION=$(git rev-parse HEAD)` and so on.
ARG CREATED=
ARG REVISION=
ARG SOURCE=
ARG VERSION=
LABEL org.opencontainers.image.title="Release Desk" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.base.name="docker.io/library/python:3.12-slim" \
      org.opencontainers.image.base.digest="sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea"
COPY --from=slim / /
ENV LANG=C.UTF-8 \
    PATH=/opt/release-desk/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    RELEASE_DESK_DATA_DIR=/data \
    RELEASE_DESK_ANCHOR_DIR=/anchor
RUN install -d -o 10001 -g 10001 -m 0700 /data /anchor
USER 10001:10001
# Two, so that a backup of one put back is noticed by the other.
VOLUME ["/data", "/anchor"]
EXPOSE 8000
# The address is the container's own; the image has no curl.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["release-desk"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
