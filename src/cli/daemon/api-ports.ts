import { createLoginLimit } from '../../api/http/login-limit.ts';
import { createBodyMemory } from '../../api/http/request/request-body.ts';
import { createShares } from '../../api/http/request/shares.ts';
import { problemPage } from '../../api/pages/send-page.ts';
import { siteOf } from '../../api/pages/site.ts';
import { fetchJson } from '../../api/publishers/fetch-json.ts';
import { IssuerKeys } from '../../api/publishers/issuer-keys.ts';
import { measuredStage } from '../../api/uploads/staged-upload.ts';
import type { ReloadReport } from '../../core/config/reload.ts';
import { errorRecord } from '../../core/lib/errors.ts';
import { runFailure } from '../../core/publish/results/occurrences.ts';
import { cancelled } from '../../workers/queue/refusals.ts';
import { roomForUploads } from '../../workers/staging/content-bounds.ts';
import { stageWithContent } from '../../workers/staging/stage-with-content.ts';
import { consoleSettings, quotasOf } from './access.ts';
import type { DaemonPorts } from './daemon-app.ts';
import type { Daemon } from './open-daemon.ts';

/** Provides everything that the API needs from the daemon. */
export function apiPorts(daemon: Daemon, reload: () => Promise<ReloadReport>): DaemonPorts {
  const { foundation, configured, metrics, coordinator, weather, shutdown } = daemon;
  const { audit, notifier, tracing } = daemon.reporting;
  const { content, partialUploads, stagingDisk } = daemon.uploads;
  const { config, clock, log, logging } = foundation;
  const { disk, requireAnswers } = stagingDisk;
  const { http, queue, staging } = config.server;
  const stage = stageWithContent(content, { yieldToEventLoop: foundation.yieldToEventLoop, disk });
  const settings = consoleSettings(config, foundation.secrets);
  return {
    http,
    clock,
    log,
    logging,
    tracer: tracing.tracer,
    audit: config.audit === null ? null : { trail: audit, directory: config.audit.directory },
    configured,
    reload,
    notifier,
    nextRunOf: (pipelineId) => daemon.scheduler.nextRun(pipelineId),
    queue: coordinator.queue,
    queueDriver: queue.driver,
    archives: createShares({ total: Infinity, perOwner: quotasOf(config).uploads }),
    onCancelled: ({ pipelineId, runId }) => {
      metrics?.runs.cancelled(pipelineId);
      notifier.notify(runFailure(pipelineId, runId, errorRecord(cancelled())));
    },
    staging: coordinator.staging,
    room: roomForUploads({ directory: staging.directory, clock, content, requireAnswers }),
    partialUploads,
    content,
    stage: metrics === null ? stage : measuredStage(stage, metrics),
    plan: (job, signal) => coordinator.threads.plan(job, signal),
    releases: (request, signal) => coordinator.threads.releases(request, signal),
    inspect: (request, signal) => coordinator.threads.inspect(request, signal),
    runLines: (runId) => daemon.runLines.of(runId),
    console: settings,
    metrics,
    weather: weather?.service ?? null,
    weatherHealth: weather?.health ?? null,
    readiness: daemon.readiness,
    sceneMaps: daemon.sceneMaps,
    endedSessions: daemon.endedSessions,
    issuerKeys: new IssuerKeys(clock, fetchJson),
    exchangeLimit: createLoginLimit(clock),
    bodyMemory: createBodyMemory(http.maxBodyMemory),
    streams: daemon.streams,
    draining: shutdown.draining.signal,
    stopping: shutdown.uploads.signal,
    problemPage: problemPage(siteOf({ http, console: settings })),
  };
}
