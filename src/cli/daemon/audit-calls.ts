import { statusOf } from '../../api/http/answer/error-status.ts';
import type { ActEntry } from '../../core/audit/record.ts';
import type { Trail } from '../../core/audit/trail.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { asWaybillError } from '../../core/lib/errors.ts';
import { programActor } from '../../core/notify/occurrence-acts.ts';
import type { Triggers } from '../../workers/queue/trigger.ts';

/* Records actions in the audit trail that do not come from a request. */

/**
 * Wraps `triggers` to record the runs that they start. Throws `audit_unavailable` before deciding anything if
 * the audit trail cannot be written to.
 */
export function auditTriggers(triggers: Triggers, trail: Trail): Triggers {
  return {
    last: (pipelineId, kind) => triggers.last(pipelineId, kind),
    async decide(job, options) {
      await trail.requireWritable();
      const decision = await triggers.decide(job, options);
      const { runId, pipelineId, trigger } = job;
      if (decision.outcome === 'started')
        await trail.append({
          act: 'run.start',
          result: 'done',
          pipelineId,
          runId,
          actor: { type: trigger.kind, id: pipelineId },
        });
      return decision;
    },
  };
}

/** Returns the same result as a request for a reload has. */
function resultOf(code: ErrorCode): ActEntry['result'] {
  return statusOf[code] >= 500 ? 'failed' : 'refused';
}

/**
 * Wraps a reload that was requested by a signal, to record it. If the reload is rejected or fails, `reload`
 * itself logs that, even if the record cannot be written.
 */
export function auditReload<T>(reload: () => Promise<T>, trail: Trail): () => Promise<T> {
  const entry: ActEntry = { act: 'reload', result: 'done', actor: { ...programActor, signal: 'SIGHUP' } };
  return async () => {
    try {
      await trail.requireWritable();
      const report = await reload();
      await trail.append(entry);
      return report;
    } catch (thrown) {
      const { code } = asWaybillError(thrown);
      await trail.append({ ...entry, result: resultOf(code), code });
      throw thrown;
    }
  };
}
