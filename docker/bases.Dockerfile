# Debian in the place of the base images of Dockerfile, for a machine that reaches Debian's packages
# but no registry of images: `make images BASES=debian`. The context has debian.tar, which
# mmdebstrap makes, and the certificates that this machine trusts besides Debian's.

FROM scratch AS debian
ADD debian.tar /
COPY certificates /usr/local/share/ca-certificates
ENV DEBIAN_FRONTEND=noninteractive
RUN update-ca-certificates

FROM debian AS eclipse-temurin
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

FROM eclipse-temurin AS maven
RUN apt-get update \
    && apt-get install -y --no-install-recommends maven \
    && rm -rf /var/lib/apt/lists/*

# Python's own image has `python` and `pip`; pip and uv trust what Debian trusts.
FROM debian AS python
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
RUN apt-get update \
    && apt-get install -y --no-install-recommends openssl python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/* /usr/lib/python3.*/EXTERNALLY-MANAGED \
    && ln -s python3 /usr/bin/python
