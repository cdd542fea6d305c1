import type { PipelineConfig } from '../../core/config/config.ts';
import { timetable } from '../../core/config/timetable.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import { noTracer, type Tracer } from '../../core/tracing/span.ts';
import type { RunAdmission } from '../queue/job-queue.ts';
import type { Triggers } from '../queue/trigger.ts';
import { runSchedule } from './run-schedule.ts';
import { noScheduleObserver, type ScheduleObserver } from './schedule-observer.ts';
import { watchSource } from './watch-source.ts';

interface SchedulerOptions {
  clock: Clock;
  log: Log;
  queue: Pick<RunAdmission, 'triggers'>;
  observer?: ScheduleObserver;
  /** Creates a span for each trigger that starts a run. Default: no tracing. */
  tracer?: Tracer;
}

/** The part of a pipeline's configuration that matters to the scheduler. */
export type TriggeredPipeline = Pick<PipelineConfig, 'id' | 'source' | 'schedule' | 'watch'>;

/** Starts runs on its own, for schedules and watched sources. */
export interface Scheduler {
  /**
   * Replaces the pipelines. If a pipeline's schedule, watch, and source are still the same, it is not
   * interrupted. A new schedule starts with its next tick. Does nothing after `close`.
   */
  update(pipelines: readonly TriggeredPipeline[]): void;
  /** Returns when the pipeline's next scheduled run is due. null if there is no schedule. */
  nextRun(pipelineId: string): Date | null;
  /**
   * Stops starting runs, and resolves once nothing is in progress. If it is called again, the second call
   * waits for the first.
   */
  close(): Promise<void>;
}

interface PipelineTriggers {
  /** The settings it was created with. */
  settings: string;
  pipeline: TriggeredPipeline;
  stop: AbortController;
  done: Promise<unknown>;
}

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { clock, log, queue, observer = noScheduleObserver, tracer = noTracer } = options;
  const active = new Map<string, PipelineTriggers>();
  const ending = new Set<Promise<unknown>>();
  let isClosed = false;

  function keep(pipeline: TriggeredPipeline, settings: string): PipelineTriggers {
    const { id: pipelineId, schedule, watch, source } = pipeline;
    const stop = new AbortController();
    const triggers = tracedTriggers(queue.triggers, tracer);
    const common = { pipelineId, clock, log, triggers, observer, signal: stop.signal };
    const parts: Promise<void>[] = [];
    if (schedule !== null) parts.push(runSchedule({ ...common, schedule }));
    if (watch !== null && source.backend === 'local')
      parts.push(watchSource({ ...common, directory: source.path, settleMs: watch.settleMs }));
    const failed = (error: unknown): void =>
      log.error(
        { pipeline_id: pipelineId, err: error },
        'runs of this pipeline no longer start automatically',
      );
    return { settings, pipeline, stop, done: Promise.all(parts.map((part) => part.catch(failed))) };
  }

  function end(pipelineId: string, { stop, done }: PipelineTriggers): void {
    active.delete(pipelineId);
    stop.abort(new Error('this trigger no longer starts runs of the pipeline'));
    const stopped: Promise<unknown> = done.finally(() => ending.delete(stopped));
    ending.add(stopped);
  }

  return {
    update(pipelines) {
      if (isClosed) return;
      const wanted = new Map(pipelines.filter(hasTrigger).map((one) => [one.id, one]));
      for (const [id, one] of [...active]) if (settingsOf(wanted.get(id)) !== one.settings) end(id, one);
      for (const [id, pipeline] of wanted)
        if (!active.has(id)) active.set(id, keep(pipeline, settingsOf(pipeline)));
    },
    nextRun(pipelineId) {
      const schedule = active.get(pipelineId)?.pipeline.schedule ?? null;
      if (schedule === null) return null;
      const next = timetable(pipelineId, schedule).next(clock.now().getTime());
      return next === null ? null : new Date(next.at);
    },
    async close() {
      isClosed = true;
      for (const [id, one] of [...active]) end(id, one);
      await Promise.all(ending);
    },
  };
}

const hasTrigger = ({ schedule, watch }: TriggeredPipeline): boolean => schedule !== null || watch !== null;

function settingsOf(pipeline: TriggeredPipeline | undefined): string {
  return pipeline === undefined
    ? ''
    : JSON.stringify([pipeline.schedule, pipeline.watch, pipeline.watch === null ? null : pipeline.source]);
}

/**
 * Adds tracing to `triggers`. If a trigger starts a run, its span starts a new trace, and the run becomes
 * part of it. Other triggers do not get a span.
 */
function tracedTriggers(triggers: Triggers, tracer: Tracer): Triggers {
  if (!tracer.isOn) return triggers;
  return {
    last: (pipelineId, kind) => triggers.last(pipelineId, kind),
    async decide(job, options) {
      const { runId, pipelineId, trigger } = job;
      const span = tracer.start(trigger.kind, {
        kind: 'internal',
        attributes: { 'waybill.run_id': runId, 'waybill.pipeline_id': pipelineId },
      });
      const decision = await triggers.decide({ ...job, ...span.trace }, options);
      if (decision.outcome === 'started') span.end();
      return decision;
    },
  };
}
