import type { Accepted } from '../generated/api-types.ts';
import type { JsonAnswer } from '../http/connection.ts';

/** A run that the daemon has accepted. */
export interface AcceptedRun {
  runId: string;
  /** Its position in the queue of its pipeline when it was accepted; null if unknown. */
  position: number | null;
  /** Whether the daemon had accepted the same bundle or repetition before, so that no new run was started. */
  isReplayed: boolean;
}

/** Parses the response to a request that starts a run. Pure. */
export function acceptedRun({ headers, body }: JsonAnswer): AcceptedRun {
  const { run_id: runId, position } = body as Accepted;
  return { runId, position: position ?? null, isReplayed: headers['idempotency-replayed'] === 'true' };
}
