import type { Accepted } from '../generated/api-types.ts';
import type { JsonAnswer } from '../http/connection.ts';

/** A run that the daemon has taken. */
export interface AcceptedRun {
  runId: string;
  /** Its place in the line of its pipeline when it was accepted; null if the answer does not say. */
  position: number | null;
  /** The daemon had taken this very bundle, or this very repetition, before: it does nothing once more. */
  isReplayed: boolean;
}

/** What the answer to a request that starts a run says. Pure. */
export function acceptedRun({ headers, body }: JsonAnswer): AcceptedRun {
  const { run_id: runId, position } = body as Accepted;
  return { runId, position: position ?? null, isReplayed: headers['idempotency-replayed'] === 'true' };
}
