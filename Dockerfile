# syntax=docker/dockerfile:1
#
#   docker build --tag waybill .
#
# docs/containers.md says how it is run: with a read-only root file system, and as a user without rights.

# The release of Node.js and Debian, by digest of the index for all platforms: the same bytes in each build.
# `docker buildx imagetools inspect node:24-bookworm-slim` tells the digest of a newer one.
ARG NODE_IMAGE=docker.io/library/node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6

FROM ${NODE_IMAGE} AS build
WORKDIR /app
# Dependencies first: they change less often than the code. The build comes with the code, hence --ignore-scripts.
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-fund --no-audit
COPY tsconfig.json tsconfig.build.json tsconfig.client.json ./
COPY scripts ./scripts
COPY src ./src
RUN npm run build && find dist -name '*.map' -delete
# The packages that are not bundled.
RUN node scripts/package/locked.mjs /optional

FROM ${NODE_IMAGE}
# Given by the build: `--build-arg VERSION=1.2.3 --build-arg REVISION=$(git rev-parse HEAD)`.
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="waybill" \
  org.opencontainers.image.description="Publishes bundles of files to local, SFTP and S3 destinations with a managed catalog" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.base.name="docker.io/library/node:24.21.0-bookworm-slim"
# Of the user of no home: what would go there is state.
ENV NODE_ENV=production HOME=/var/lib/waybill
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /optional/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY templates ./templates
COPY schemas ./schemas
COPY LICENSE ./
# The program and /etc/waybill are root's; the user writes to its state alone.
RUN ln -s /app/dist/bundle/waybill.cjs /usr/local/bin/waybill \
  && install -d -m 755 /etc/waybill /etc/waybill/secrets \
  && install -d -m 755 -o 1000 -g 1000 /var/lib/waybill
# The user `node` of the base, by number: Kubernetes sees that it is not root.
USER 1000:1000
VOLUME /var/lib/waybill
EXPOSE 8080

# The daemon handles SIGTERM itself. As process 1 it would have to reap orphans too: run it with `docker run --init`
# (compose: `init: true`), which puts a tini before it.
STOPSIGNAL SIGTERM
ENTRYPOINT ["waybill"]
CMD ["serve", "--config", "/etc/waybill/waybill.yml"]

# HEALTHCHECK_URL is for configurations with another port or base_path, and for workers: their server.worker.listen.
ENV HEALTHCHECK_URL=http://127.0.0.1:8080/healthz
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(process.env.HEALTHCHECK_URL).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
