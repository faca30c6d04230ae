# A provider of identities to try signing in with: it asks for no password.
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
COPY requirements.lock ./
# Every file is checked against a hash of the lock as it arrives, as in the image of the desk.
RUN python -m pip download --quiet --no-cache-dir --require-hashes --no-deps \
        --requirement requirements.lock --dest /wheels \
    && python -m pip install --quiet --no-cache-dir --no-index --find-links /wheels oidc-provider-mock \
    && rm -rf /wheels
USER 10001:10001
ENTRYPOINT ["oidc-provider-mock"]
