# syntax=docker/dockerfile:1
#
#   docker build -t waybill .
#   docker run --init --rm -p 127.0.0.1:8080:8080 -v ./waybill.yml:/etc/waybill/waybill.yml:ro -v waybill:/var/lib/waybill \
#     -e WAYBILL_TOKEN_CI waybill
#
# In the configuration: `listen: 0.0.0.0:8080` (the address inside the container; publish the port to where it should be reached),
# `staging: {directory: /var/lib/waybill/staging}`. Any other command: docker run --rm … waybill run --config /etc/waybill/waybill.yml

FROM node:22-slim AS build
WORKDIR /app
# Dependencies first: they change less often than the code. The build comes with the code, hence --ignore-scripts here.
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-fund --no-audit
COPY tsconfig.json tsconfig.build.json tsconfig.client.json ./
COPY scripts ./scripts
COPY src ./src
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-fund --no-audit

FROM node:22-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY templates ./templates
COPY schemas ./schemas
RUN ln -s /app/dist/bundle/waybill.cjs /usr/local/bin/waybill \
  && install -d -o node -g node /var/lib/waybill /etc/waybill
USER node
VOLUME /var/lib/waybill
EXPOSE 8080

# The daemon handles SIGTERM itself. As process 1 it would have to reap orphans too: run it with `docker run --init` (compose: `init: true`), which
# puts a tini before it.
STOPSIGNAL SIGTERM
ENTRYPOINT ["waybill"]
CMD ["serve", "--config", "/etc/waybill/waybill.yml"]

# HEALTHCHECK_URL is for configurations with another port or base_path, and for workers: their server.worker.listen.
ENV HEALTHCHECK_URL=http://127.0.0.1:8080/healthz
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch(process.env.HEALTHCHECK_URL).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
