import type { Tracer } from '../../core/tracing/span.ts';
import type { Triggers } from '../queue/trigger.ts';

/**
 * Decides as `triggers` does. A trigger that starts a run is a span that begins a trace, and the run belongs
 * to it; of any other nothing is reported.
 */
export function tracedTriggers(triggers: Triggers, tracer: Tracer): Triggers {
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
