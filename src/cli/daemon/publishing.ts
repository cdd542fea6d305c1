import type { ProcessMetrics } from '../../api/metrics/process-metrics.ts';
import { productVersion } from '../../api/version.ts';
import type { AuditRecord } from '../../core/audit/record.ts';
import { openConfiguredTrail, type Trail } from '../../core/audit/trail.ts';
import type { Finding } from '../../core/lib/errors.ts';
import { closeAll, type Releaser } from '../../core/lib/lifecycle.ts';
import type { Postponed } from '../../core/notify/delivery-queue.ts';
import { Notifier } from '../../core/notify/notifier.ts';
import { auditEntryOf, programActor } from '../../core/notify/occurrence-acts.ts';
import { logOutcome } from '../../core/notify/outcome-warnings.ts';
import { openNotifiers } from '../../core/notify/sink-kinds.ts';
import { openTracing, type Tracing } from '../../core/tracing/open-tracing.ts';
import type { Coordinator } from '../../workers/coordinator/coordinator.ts';
import {
  openConfiguredStore,
  openCoordinator,
  openEvents,
} from '../../workers/coordinator/open-coordinator.ts';
import type { OpenedDisk } from '../../workers/disk/open-disk.ts';
import type { QueueStore } from '../../workers/embedded/queue-store.ts';
import type { EventStore } from '../../workers/queue/run-events.ts';
import { outcomeNote, postponedNote } from '../../workers/queue/run-record.ts';
import { logWarnings, type ProgramContext, type ReadConfig } from './bootstrap.ts';

/*
 * Opens what the daemon and separate workers have in common: tracing, events, notifiers, and the coordinator,
 * which publishes.
 */

/** Remembers a part, so that it is closed if startup fails later on. Returns the part. */
export type CloseOnError = <Part extends { close(withinMs: number): unknown } | null>(part: Part) => Part;

export function closeOnError(onFailure: (release: Releaser) => void): CloseOnError {
  return (part) => {
    if (part !== null)
      onFailure(async () => {
        await part.close(0);
      });
    return part;
  };
}

/** The parts of a program that report on its runs, such as the audit trail, tracing and notifiers. */
export interface Reporting {
  audit: Trail;
  tracing: ProgramTracing;
  /** null if the queue is not embedded. */
  store: QueueStore | null;
  events: EventStore;
  notifier: ProgramNotifier;
}

type ProgramTracing = Tracing & { close: () => Promise<void> };

/**
 * Opens the parts of `Reporting`. Throws the same errors as `openTracing`, `openConfiguredStore`,
 * `openEvents`, `openNotifiers` and `openConfiguredTrail`.
 */
export async function openReporting(
  foundation: ProgramContext,
  metrics: ProcessMetrics | null,
  own: CloseOnError,
): Promise<Reporting> {
  const { log } = foundation;
  const onDropped = (notifier: string, count: number): void => {
    log.warn({ notifier, count }, 'too many undelivered events; the oldest were dropped');
    metrics?.undeliveredDropped(notifier, count);
  };
  const tracing = own(await openConfiguredTracing(foundation));
  const store = own(await openConfiguredStore({ ...foundation, onDropped }));
  const events = own(await openEvents({ ...foundation, store, onDropped }));
  const notifier = own(await openNotifier(foundation, { events, tracing, metrics }));
  const onRecord = (record: AuditRecord): void =>
    notifier.notify({ type: 'audit.recorded', data: { record } });
  const audit = own(await openConfiguredTrail(foundation.config.audit, { ...foundation, onRecord }));
  return { audit, tracing, store, events, notifier };
}

// In milliseconds. An administrator may be waiting for the end of the daemon, and the collector may hang.
const lastSpansMs = 5_000;

/**
 * Opens tracing. When it is closed, it sends the remaining spans, for up to five seconds or
 * `shutdown_timeout`, whichever is shorter.
 */
async function openConfiguredTracing(foundation: ProgramContext): Promise<ProgramTracing> {
  const { config } = foundation;
  const version = config.tracing === null ? '' : productVersion();
  const tracing = await openTracing(config.tracing, { ...foundation, version });
  const withinMs = Math.min(config.server.http.shutdownTimeoutMs, lastSpansMs);
  return { ...tracing, close: () => tracing.close(withinMs) };
}

export interface ProgramNotifier extends Pick<Notifier, 'undelivered' | 'redeliver' | 'notify'> {
  /**
   * Opens the notifiers of a new configuration. They are used once `replace` is called. Throws
   * `secrets_invalid`.
   */
  prepare(next: ReadConfig): Promise<{ replace: () => void; warnings: Finding[] }>;
  /** Tries to deliver each pending event once more. Takes up to 10 seconds in total. */
  close(): Promise<void>;
}

const deliveryGraceMs = 10_000;

/**
 * Opens the notifiers in the configuration. Events that an earlier process could not deliver are sent first.
 * The outcome of each delivery is logged, counted, and added to the run's record.
 */
async function openNotifier(
  { config, secrets, clock, log }: ProgramContext,
  { events, tracing, metrics }: Pick<Reporting, 'events' | 'tracing'> & { metrics: ProcessMetrics | null },
): Promise<ProgramNotifier> {
  const stopping = new AbortController();
  const note = (noted: ReturnType<typeof outcomeNote>): void => {
    if (noted !== null) events.note(noted.runId, noted.note);
  };
  const { notifiers, warnings } = await openNotifiers(config.notifiers, { clock, log, secrets });
  const notifier = new Notifier({
    notifiers,
    clock,
    log,
    stopping: stopping.signal,
    tracer: tracing.tracer,
    outbox: events.outbox,
    undelivered: events.undelivered,
    onOutcome: (outcome) => {
      logOutcome(outcome, log);
      note(outcomeNote(outcome, clock.now()));
      metrics?.recordDelivery(outcome);
    },
    onPostponed: (postponed: Postponed) => note(postponedNote(postponed, clock.now())),
  });
  logWarnings(log, warnings);
  return {
    notify: (occurrence, trace) => notifier.notify(occurrence, trace),
    undelivered: (notifierId) => notifier.undelivered(notifierId),
    redeliver: (notifierId, signal) => notifier.redeliver(notifierId, signal),
    prepare: async (next) => {
      const opened = await openNotifiers(next.config.notifiers, { clock, log, secrets: next.secrets });
      return { replace: () => notifier.replace(opened.notifiers), warnings: opened.warnings };
    },
    close: async () => {
      stopping.abort();
      await notifier.close(deliveryGraceMs);
    },
  };
}

/** Creates the coordinator. Its runs are reported to `reporting` and counted in `metrics`. */
export async function openPublishing(
  foundation: ProgramContext,
  { audit, tracing, store, events, notifier }: Reporting,
  { metrics, stagingDisk }: { metrics: ProcessMetrics | null; stagingDisk?: OpenedDisk },
  own: CloseOnError,
): Promise<Coordinator> {
  const coordinator = await openCoordinator({
    ...foundation,
    disk: stagingDisk?.disk,
    requireAnswers: stagingDisk?.requireAnswers,
    store,
    verbose: () => foundation.logging.shows('debug'),
    tracing,
    notify: (occurrence, trace) => {
      const entry = auditEntryOf(occurrence, programActor);
      if (entry !== null) void audit.append(entry);
      notifier.notify(occurrence, trace);
    },
    flushed: () => events.flushed(),
    observer: metrics?.runs,
  });
  return own(coordinator);
}

/** Writes and delivers pending records, events and spans, and then closes everything that reports runs. */
export async function closeReporting({ notifier, tracing, events, store, audit }: Reporting): Promise<void> {
  await closeAll(
    () => audit.close(),
    () => notifier.close(),
    () => tracing.close(),
    () => events.close(),
    () => store?.close(),
  );
}
