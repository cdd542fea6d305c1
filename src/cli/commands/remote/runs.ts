import type { Client, RunFilter, RunRecord } from '../../../client/client.ts';
import type { CommonOptions } from '../../setup/options.ts';
import { makeOutput, type Output } from '../../output/output.ts';
import { openClient, withRemedies } from '../../setup/remote-client.ts';
import type { RemoteFlags } from '../../setup/remote-options.ts';
import { printRun, retryNotes, runLines } from '../../output/run-record-text.ts';
import { timeoutOf, type WaitFlags } from '../../setup/wait-options.ts';
import { untilStopped } from '../../process/stop-signal.ts';

export interface RunFlags extends Omit<CommonOptions, 'verbose'>, RemoteFlags {}

export interface FollowFlags extends RunFlags {
  pipeline?: string[];
}

export interface ListFlags extends FollowFlags {
  status?: RunRecord['status'];
  since?: string;
  search?: string;
  limit: number;
}

/** `waybill runs list`. */
export async function listRuns(flags: ListFlags): Promise<number> {
  return withDaemon(flags, { tokenIsOptional: false }, async (client, output) => {
    const { pipeline, status, since, search, limit } = flags;
    const filter: RunFilter = {
      ...(pipeline === undefined ? {} : { pipelines: pipeline }),
      ...(status === undefined ? {} : { status }),
      ...(since === undefined ? {} : { since }),
      ...(search === undefined ? {} : { q: search }),
    };
    const runs: RunRecord[] = [];
    for await (const run of client.runs.list(filter, limit)) runs.push(run);
    if (output.isJson) output.json('runs', { runs });
    else for (const line of runLines(runs, output.style)) output.data(line);
    if (runs.length === 0) output.note('there are no such runs');
    return 0;
  });
}

/** `waybill runs show`: exit code 0 whatever became of the run. */
export async function showRun(id: string, flags: RunFlags): Promise<number> {
  return withDaemon(flags, { tokenIsOptional: true }, async (client, output) => {
    tell(await client.runs.show(id), output);
    return 0;
  });
}

/** `waybill runs follow`: of one run, exit code 1 if it failed. */
export async function followRuns(id: string | undefined, flags: FollowFlags): Promise<number> {
  return withDaemon(flags, { tokenIsOptional: id !== undefined }, async (client, output) => {
    let last: RunRecord | null = null;
    const pipelines = flags.pipeline === undefined ? {} : { pipelines: flags.pipeline };
    for await (const run of client.runs.follow(id === undefined ? pipelines : { runId: id })) {
      last = run;
      if (output.isJson) output.jsonLine('run-record', { run });
      else for (const line of runLines([run], output.style)) output.data(line);
    }
    if (last !== null && !output.isJson) printRun(last, output);
    return last?.status === 'failed' ? 1 : 0;
  });
}

/** `waybill runs cancel`: exit code 0 if the run ended as cancelled, 1 if it was done before. */
export async function cancelRun(id: string, flags: RunFlags): Promise<number> {
  return withDaemon(flags, { tokenIsOptional: false }, async (client, output) => {
    const run = await client.runs.cancel(id);
    const ended = run.finished_at === null ? await client.runs.wait(id) : run;
    tell(ended, output);
    return ended.error?.code === 'cancelled' ? 0 : 1;
  });
}

/** `waybill runs retry`: exit code 0 if the run succeeded or was not waited for, 1 if it failed. */
export async function retryRun(id: string, flags: RunFlags & WaitFlags): Promise<number> {
  const timeoutMs = timeoutOf(flags);
  return withDaemon(flags, { tokenIsOptional: false }, async (client, output) => {
    const run = await client.runs.retry(id);
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    const last = flags.wait ? await client.runs.wait(id, { ...limit, onRecord: retryNotes(output) }) : run;
    tell(last, output);
    return last.status === 'failed' ? 1 : 0;
  });
}

function tell(run: RunRecord, output: Output): void {
  if (output.isJson) output.json('run-record', { run });
  else printRun(run, output);
}

/** Runs work on the daemon that the flags name, until it is done or stopped by a signal. */
export async function withDaemon(
  flags: RunFlags,
  { tokenIsOptional }: { tokenIsOptional: boolean },
  work: (client: Client, output: Output) => Promise<number>,
): Promise<number> {
  const output = makeOutput({ json: flags.format === 'json', color: flags.color });
  return untilStopped((signal) =>
    withRemedies(flags, async () =>
      work(await openClient(flags, { output, signal, tokenIsOptional }), output),
    ),
  );
}
