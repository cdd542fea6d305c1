import type { AcceptedRun, Client, Pipeline, RunFilter, RunRecord } from '../../../client/client.ts';
import { hasCode, WaybillError } from '../../../core/lib/errors.ts';
import { columns, makeOutput, type Output, plural, type Style } from '../../output/output.ts';
import { printRun, retryNotes, runLines } from '../../output/run-record-text.ts';
import { untilStopped } from '../../process/stop-signal.ts';
import type { CommonOptions, RemoteFlags } from '../../setup/command-options.ts';
import { openClient, timeoutOf, type WaitFlags, withRemedies } from '../../setup/remote-client.ts';

export interface RunFlags extends Omit<CommonOptions, 'verbose'>, RemoteFlags {}

export interface FollowFlags extends RunFlags {
  pipeline?: string[];
}

export interface ListFlags extends FollowFlags {
  status?: RunRecord['status'];
  since?: string;
  until?: string;
  search?: string;
  limit: number;
}

/** `waybill runs list`. */
export async function listRuns(flags: ListFlags): Promise<number> {
  return withDaemon(flags, { tokenIsOptional: false }, async (client, output) => {
    const { pipeline, status, since, until, search, limit } = flags;
    const filter: RunFilter = {
      ...(pipeline === undefined ? {} : { pipelines: pipeline }),
      ...(status === undefined ? {} : { status }),
      ...(since === undefined ? {} : { since }),
      ...(until === undefined ? {} : { until }),
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

/** `waybill runs show`: exit code 0 for every status of the run. */
export async function showRun(id: string, flags: RunFlags): Promise<number> {
  return withDaemon(flags, { tokenIsOptional: true }, async (client, output) => {
    printRecord(await client.runs.show(id), output);
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
    printRecord(ended, output);
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
    printRecord(last, output);
    return last.status === 'failed' ? 1 : 0;
  });
}

function printRecord(run: RunRecord, output: Output): void {
  if (output.isJson) output.json('run-record', { run });
  else printRun(run, output);
}

/** Runs work on the daemon that the flags name, until it is done or stopped by a signal. */
async function withDaemon(
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

export interface RerunFlags extends RunFlags, WaitFlags {}

/** `waybill runs rerun`: exit code 0 if the new run succeeded or was not waited for, 1 if it failed. */
export async function rerun(id: string, flags: RerunFlags): Promise<number> {
  const timeoutMs = timeoutOf(flags);
  return withDaemon(flags, { tokenIsOptional: false }, async (client, output) => {
    const accepted = await client.runs.rerun(id);
    const { runId, isReplayed } = accepted;
    if (isReplayed) output.note(`${id} was repeated before, as ${runId}`);
    if (!flags.wait) return printRerun(id, accepted, null, output);
    output.note(`taken as ${runId}; waiting for it`);
    const code = printRerun(id, accepted, await ended(client, runId, timeoutMs), output);
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

function printRerun(
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

export interface PipelinesFlags extends Omit<CommonOptions, 'verbose'>, RemoteFlags {}

/** `waybill pipelines`. */
export async function showPipelines(flags: PipelinesFlags): Promise<number> {
  const output = makeOutput({ json: flags.format === 'json', color: flags.color });
  return untilStopped((signal) =>
    withRemedies(flags, async () => {
      const pipelines = await (await openClient(flags, { output, signal })).pipelines();
      if (output.isJson) output.json('pipelines', { pipelines });
      else for (const line of lines(pipelines, output.style)) output.data(line);
      if (pipelines.length === 0) output.note('the token is for no pipeline');
      return 0;
    }),
  );
}

function lines(pipelines: readonly Pipeline[], style: Style): string[] {
  return columns(
    pipelines.map((pipeline) => [
      style.bold(pipeline.pipeline_id),
      `${pipeline.source.backend === 'http_upload' ? 'uploads' : pipeline.source.backend} → ${pipeline.destinations.map(({ destination_id: id }) => id).join(', ')}`,
      stateOf(pipeline, style),
      style.dim(
        pipeline.last_success === null
          ? 'nothing published yet'
          : `last success ${pipeline.last_success.finished_at}`,
      ),
    ]),
  );
}

function stateOf({ paused, running, waiting }: Pipeline, style: Style): string {
  const parts = [
    ...(paused === null ? [] : [style.yellow(`paused${paused.reason === null ? '' : `: ${paused.reason}`}`)]),
    ...(running === null ? [] : ['running']),
    ...(waiting === 0 ? [] : [`${plural(waiting, 'run')} waiting`]),
  ];
  return parts.length === 0 ? 'idle' : parts.join(', ');
}
