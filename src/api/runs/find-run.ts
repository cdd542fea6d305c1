import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../core/lib/errors.ts';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import { authenticate, challenge, requireScope, type Token } from '../http/auth.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { RunPorts } from './ports.ts';

/**
 * The token of a request about one run; null if none is asked for, because the run id is the capability.
 * Throws `unauthorized`, `token_expired`, and `insufficient_scope` if it may not read.
 */
export function tokenOfReader(
  req: IncomingMessage,
  res: ServerResponse,
  { http, configured, clock }: Pick<RunPorts, 'http' | 'configured' | 'clock'>,
): Token | null {
  if (!http.protectRuns) return null;
  const { tokens } = configured.get();
  const token = challenge(req, res, () => authenticate(req.headers.authorization, tokens, clock));
  requestContext(req).fields['token_id'] = token.id;
  requireScope(token, 'read', res);
  return token;
}

/** Throws `run_not_found`, and `forbidden` if there is a token and it is not for the run's pipeline. */
export async function findRun(
  token: Token | null,
  runId: string,
  { queue }: Pick<RunPorts, 'queue'>,
): Promise<RunRecord> {
  const record = await queue.find(runId);
  if (record === undefined) {
    throw new WaybillError('run_not_found', 'there is no such run', {
      hint: 'records are kept for server.http.retention, and a restart of the daemon clears them',
    });
  }
  requireRun(token, record);
  return record;
}

/** Throws `forbidden` if there is a token and it is not for the run's pipeline. */
export function requireRun(token: Token | null, { pipeline_id: id }: Pick<RunRecord, 'pipeline_id'>): void {
  if (token === null || token.pipelines.has(id)) return;
  throw new WaybillError('forbidden', `the token "${token.id}" is not for the pipeline of this run`);
}
