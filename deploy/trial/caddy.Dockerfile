# Debian's Caddy, on the base image of the desk.
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
RUN apt-get update --quiet --quiet \
    && apt-get install --quiet --quiet --yes --no-install-recommends caddy \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 10001 -g 10001 -m 0700 /data
ENV XDG_DATA_HOME=/data XDG_CONFIG_HOME=/tmp
USER 10001:10001
ENTRYPOINT ["caddy", "run", "--adapter", "caddyfile", "--config", "/etc/caddy/Caddyfile"]
