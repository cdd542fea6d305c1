import type { Request, RequestHandler, Response } from 'express';
import type { Act, ActEntry, Actor, Fact } from '../../core/audit/record.ts';
import type { Trail } from '../../core/audit/trail.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { statusOf } from './answer/error-status.ts';
import { type RequestContext, requestContext, type RequestedRerun } from './request/request-context.ts';
import { networkOf } from './request/shares.ts';

/*
 * Writes audit records for requests. Every route declares which action it performs. The record is written by
 * a handler that runs before the route's own, after the response is complete but before it is sent.
 */

/** The action that a route performs, or the reason why it does not need an audit record. */
export type RouteAct = Act | { none: string };

/** The audit trail to write to. */
export interface AuditTarget {
  trail: Pick<Trail, 'append' | 'requireWritable'>;
  /** The trail's directory, which is read to list records. */
  directory: string;
}

interface RecordOptions {
  audit: AuditTarget;
  act: Act;
  via: 'api' | 'console';
  recordLimiter: RecordLimiter;
}

/**
 * Records the action of a request. Throws `audit_unavailable` before the action is performed if it could not
 * be recorded.
 */
export function recordAct({ audit, act: actOfRoute, via, recordLimiter }: RecordOptions): RequestHandler {
  return async (req, res, next) => {
    const { params } = req;
    await audit.trail.requireWritable();
    const context = requestContext(req);
    context.act = actOfRoute;
    beforeEnd(res, async () => {
      const { act } = context;
      if (act == null) return;
      const entry = entryOf(act, context, { params, res, via });
      const repeated = isLimited(entry) ? 0 : recordLimiter.note(anonymousKey(entry));
      if (repeated === null) return;
      for (const one of context.reruns?.map((rerun) => entryOfRerun(entry, rerun)) ?? [entry])
        await audit.trail.append(repeated === 0 ? one : { ...one, detail: { ...one.detail, repeated } });
    });
    next();
  };
}

/** Records the first time in an hour that a token is used from an address. */
export function recordTokenUse({ trail }: AuditTarget, recordLimiter: RecordLimiter): RequestHandler {
  return (req, res, next) => {
    res.once('close', () => {
      const context = requestContext(req);
      const { token_id: id } = context.fields;
      const address = context.client ?? null;
      if (typeof id !== 'string') return;
      const repeated = recordLimiter.note(`${id} ${address ?? ''}`);
      if (repeated === null) return;
      const actor = context.actor ?? actorOf(context);
      const detail: Record<string, Fact> = repeated === 0 ? {} : { repeated };
      void trail.append({ act: 'token.use', result: 'done', actor, address, requestId: context.id, detail });
    });
    next();
  };
}

/** Reports whether some other limit already prevents the client from creating lots of these records. */
function isLimited({ act, actor, code }: ActEntry): boolean {
  return actor.type !== 'anonymous' || (act === 'login' && code === 'unauthorized');
}

/**
 * Anyone can send requests that get rejected, so each network gets only one record for each kind of
 * rejection.
 */
function anonymousKey({ act, code, address }: ActEntry): string {
  return `${act} ${code ?? ''} ${networkOf(address ?? null)}`;
}

/** Runs `work` once, just before the response ends or is abandoned, and delays the end until it is done. */
function beforeEnd(res: Response, work: () => Promise<void>): void {
  const end: Response['end'] = res.end.bind(res);
  const destroy: Response['destroy'] = res.destroy.bind(res);
  const restore = (): void => void Object.assign(res, { end, destroy });
  res.end = ((...args: Parameters<typeof end>) => {
    restore();
    void work().finally(() => end(...args));
    return res;
  }) as typeof end;
  res.destroy = (error) => {
    restore();
    void work().finally(() => destroy(error));
    return res;
  };
}

/** Returns the audit record for a completed request. It only contains ids that exist in the configuration. */
function entryOf(
  act: Act,
  context: RequestContext,
  { params, res, via }: { params: Request['params']; res: Response; via: 'api' | 'console' },
): ActEntry {
  const { fields, actor, client = null, id: requestId } = context;
  const code = textOf(fields['code']);
  const result = resultOf(code, res.statusCode);
  // If the request was rejected, the ids in its path could be anything.
  const accepted = (name: string): string | null => (result === 'done' ? textOf(params[name]) : null);
  return {
    act,
    result,
    code,
    actor: { ...(actor ?? actorOf(context)), via },
    address: client,
    pipelineId: textOf(fields['pipeline_id']) ?? accepted('pipelineId'),
    destinationId: accepted('destinationId'),
    runId: textOf(fields['run_id']),
    requestId,
    detail: detailOf({
      release: accepted('releaseId'),
      notifier: accepted('notifierId'),
      rerun_of: rerunOf(act, params, fields),
      replayed: res.hasHeader('Idempotency-Replayed') ? true : null,
    }),
  };
}

/** Returns the audit record for one run, when a request repeats several. */
function entryOfRerun(entry: ActEntry, rerun: RequestedRerun): ActEntry {
  if ('code' in rerun) return { ...entry, code: rerun.code, result: resultOf(rerun.code, 0) };
  const { rerunOf, ...ids } = rerun;
  return { ...entry, ...ids, detail: { ...entry.detail, rerun_of: rerunOf } };
}

function actorOf({ fields: { token_id: id }, publishedBy }: RequestContext): Actor {
  if (publishedBy !== undefined)
    return {
      type: 'publisher',
      id: publishedBy.publisher_id,
      claims_digest: publishedBy.claims_digest,
    };
  return typeof id === 'string' ? { type: 'token', id } : { type: 'anonymous', id: null };
}

function resultOf(code: string | null, statusCode: number): ActEntry['result'] {
  const status = code === null ? statusCode : statusOf[code as ErrorCode];
  if (code === null && status < 400) return 'done';
  return status >= 500 ? 'failed' : 'refused';
}

/** Returns the id of the new run if the request repeated one. */
function rerunOf(act: Act, params: Request['params'], fields: RequestContext['fields']): string | null {
  const { run_id: runId } = fields;
  const given = textOf(params['runId']);
  return act === 'run.rerun' && typeof runId === 'string' && runId !== given ? given : null;
}

function detailOf(facts: Readonly<Record<string, Fact>>): Record<string, Fact> {
  return Object.fromEntries(Object.entries(facts).filter(([, fact]) => fact !== null));
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

const hourMs = 3_600_000;
const maxKeys = 10_000;

/** Limits records that clients could create in bulk to one per key and hour. */
export class RecordLimiter {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #noted = new Map<string, { at: number; repeated: number }>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /**
   * Returns how many records with this key were left out since the last one. Returns null if the key already
   * has a record in this hour.
   */
  note(key: string): number | null {
    const now = this.#clock.monotonic();
    const known = this.#noted.get(key);
    if (known !== undefined && now - known.at < hourMs) {
      known.repeated += 1;
      return null;
    }
    this.#noted.delete(key);
    if (this.#noted.size >= maxKeys) this.#forget(now);
    this.#noted.set(key, { at: now, repeated: 0 });
    return known?.repeated ?? 0;
  }

  /** Removes the keys from earlier hours. If there are none, removes the oldest key. */
  #forget(now: number): void {
    let isFirst = true;
    for (const [key, { at }] of this.#noted) {
      if (!isFirst && now - at < hourMs) return;
      this.#noted.delete(key);
      isFirst = false;
    }
  }
}
