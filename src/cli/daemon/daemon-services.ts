import { createLoginLimit } from '../../api/http/login-limit.ts';
import { createBodyMemory } from '../../api/http/request/request-body.ts';
import { createShares } from '../../api/http/request/shares.ts';
import { problemPage } from '../../api/pages/send-page.ts';
import { siteOf } from '../../api/pages/site.ts';
import { fetchJson } from '../../api/publishers/fetch-json.ts';
import { IssuerKeys } from '../../api/publishers/issuer-keys.ts';
import type { RunService } from '../../api/runs/run-service.ts';
import { measuredStage } from '../../api/uploads/staged-upload.ts';
import type { UploadService } from '../../api/uploads/upload-service.ts';
import type { ReloadReport } from '../../core/config/config-changes.ts';
import { errorRecord } from '../../core/lib/errors.ts';
import { runFailure } from '../../core/publish/results/occurrences.ts';
import { cancelled } from '../../workers/queue/refusals.ts';
import { uploadSpaceCheck } from '../../workers/staging/content-limits.ts';
import { stageWithContent } from '../../workers/staging/stage-with-content.ts';
import { consoleSettings, quotasOf } from './access.ts';
import type { DaemonServices } from './daemon-app.ts';
import type { Daemon } from './open-daemon.ts';

export function daemonServices(daemon: Daemon, reload: () => Promise<ReloadReport>): DaemonServices {
  const { foundation, configured, metrics, coordinator, weather, revokedSessions } = daemon;
  const { audit, notifier, tracing } = daemon.reporting;
  const { config, clock, log, logging } = foundation;
  const { http, queue } = config.server;
  const settings = consoleSettings(config, foundation.secrets);
  return {
    // Handling of requests
    http,
    clock,
    log,
    logging,
    tracer: tracing.tracer,
    audit: config.audit === null ? null : { trail: audit, directory: config.audit.directory },
    problemPage: problemPage(siteOf({ http, console: settings })),
    bodyMemory: createBodyMemory(http.maxBodyMemory),
    draining: daemon.shutdown.draining.signal,
    stopping: daemon.shutdown.uploads.signal,

    // Publishing
    configured,
    uploads: uploadService(daemon),
    queue: coordinator.queue,
    runs: runService(daemon),
    threads: coordinator.threads,
    scheduler: daemon.scheduler,
    notifier,

    // Access and operation
    identity: {
      issuerKeys: new IssuerKeys(clock, fetchJson),
      revokedSessions,
      exchangeLimit: createLoginLimit(clock),
    },
    health: { readiness: daemon.readiness, weather: weather?.health ?? null, queueDriver: queue.driver },
    metrics,
    reload,
    console: settings,

    // Independent features
    sceneMaps: daemon.sceneMaps,
    weather: weather?.service ?? null,
  };
}

function uploadService({ foundation, metrics, coordinator, uploads }: Daemon): UploadService {
  const { content, partialUploads, stagingDisk } = uploads;
  const { config, clock, yieldToEventLoop } = foundation;
  const { disk, requireAnswers } = stagingDisk;
  const { directory } = config.server.staging;
  const stage = stageWithContent(content, { yieldToEventLoop, disk });
  return {
    archives: createShares({ total: Infinity, perOwner: quotasOf(config).uploads }),
    staging: coordinator.staging,
    room: uploadSpaceCheck({ directory, clock, content, requireAnswers }),
    stage: metrics === null ? stage : measuredStage(stage, metrics),
    content,
    partialUploads,
  };
}

function runService({ metrics, reporting, streams, runLines }: Daemon): RunService {
  return {
    onCancelled: ({ pipelineId, runId }) => {
      metrics?.runs.cancelled(pipelineId);
      reporting.notifier.notify(runFailure(pipelineId, runId, errorRecord(cancelled())));
    },
    streams,
    lines: runLines,
  };
}
