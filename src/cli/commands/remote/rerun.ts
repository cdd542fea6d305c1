import type { AcceptedRun, Client, RunRecord } from '../../../client/client.ts';
import { hasCode, WaybillError } from '../../../core/lib/errors.ts';
import type { Output } from '../../output/output.ts';
import { printRun } from '../../output/run-record-text.ts';
import { timeoutOf, type WaitFlags } from '../../setup/wait-options.ts';
import { withDaemon, type RunFlags } from './runs.ts';

export interface RerunFlags extends RunFlags, WaitFlags {}

/** `waybill runs rerun`: exit code 0 if the new run succeeded or was not waited for, 1 if it failed. */
export async function rerun(id: string, flags: RerunFlags): Promise<number> {
  const timeoutMs = timeoutOf(flags);
  return withDaemon(flags, { tokenIsOptional: false }, async (client, output) => {
    const accepted = await client.runs.rerun(id);
    const { runId, isReplayed } = accepted;
    if (isReplayed) output.note(`${id} was repeated before, as ${runId}`);
    if (!flags.wait) return tell(id, accepted, null, output);
    output.note(`taken as ${runId}; waiting for it`);
    const code = tell(id, accepted, await ended(client, runId, timeoutMs), output);
    if (code !== 0 && isReplayed)
      output.note(`it failed, too; waybill runs rerun ${runId} --to ${flags.to} repeats that one`);
    return code;
  });
}

async function ended(client: Client, runId: string, timeoutMs: number | undefined): Promise<RunRecord> {
  try {
    return await client.runs.wait(runId, timeoutMs === undefined ? {} : { timeoutMs });
  } catch (error) {
    if (!hasCode(error, 'run_not_found')) throw error;
    throw new WaybillError('run_not_found', `the daemon has forgotten the run ${runId} that it had taken`, {
      hint: 'push the bundle again',
      cause: error,
    });
  }
}

function tell(
  id: string,
  { runId, isReplayed, position }: AcceptedRun,
  run: RunRecord | null,
  output: Output,
): number {
  if (output.isJson) output.json('rerun', { runId, rerunOf: id, isReplayed, position, run });
  else if (run === null) output.data(`${output.style.green('taken')}  ${runId}`);
  else printRun(run, output);
  return run === null || run.status === 'succeeded' ? 0 : 1;
}
