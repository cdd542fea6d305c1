import type { AcceptedRun, Client, Pipeline, RunRecord } from '../../../client/client.ts';
import { hasCode, WaybillError } from '../../../core/lib/errors.ts';
import { plural } from '../../../core/lib/text.ts';
import { columns, type Output, type Style } from '../../output/output.ts';
import { printRun, retryNotes, runLines } from '../../output/run-record-text.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import type { RemoteFlags } from '../../setup/command-options.ts';
import { timeOf } from '../../setup/period.ts';
import { openClient, timeoutOf, withRemedies } from '../../setup/remote-client.ts';
import { pipelineOfToken } from '../../setup/remote-place.ts';
import type {
  followCommand,
  listCommand,
  pipelinesCommand,
  rerunCommand,
  retryCommand,
  showCommand,
  startCommand,
} from './commands.ts';

type RunFlags = OptionsFor<typeof showCommand>;

export async function listRuns(flags: OptionsFor<typeof listCommand>, io: Io): Promise<number> {
  const { pipeline: pipelines, status, search: q, limit } = flags;
  const since = timeOf('since', flags.since)?.toISOString();
  const until = timeOf('until', flags.until)?.toISOString();
  const { output } = io;
  return withDaemon(flags, io, async (client) => {
    const runs: RunRecord[] = [];
    for await (const run of client.runs.list({ pipelines, status, since, until, q }, limit)) runs.push(run);
    output.result('runs', { runs }, () => {
      for (const line of runLines(runs, output.style)) output.data(line);
    });
    if (runs.length === 0) output.note('there are no such runs');
    return 0;
  });
}

/**
 * Implements `waybill runs start`. The exit code is 0 if the run succeeded, or if the command did not wait
 * for it. It is 1 if the run failed.
 */
export async function startRun(flags: OptionsFor<typeof startCommand>, io: Io): Promise<number> {
  const { wait, channel, pipeline: named } = flags;
  const { output } = io;
  const timeoutMs = timeoutOf(flags);
  return withRemedies(flags, async () => {
    const client = await openClient(flags, { ...io, pipeline: named });
    const pipelineId = await pipelineOfToken(client, named);
    const { runId, position } = await client.runs.start(pipelineId, { channel });
    if (wait) output.note(`accepted as ${runId}; waiting for the result`);
    const run = wait ? await client.runs.wait(runId, { timeoutMs, onRecord: retryNotes(output) }) : null;
    output.result('run-start', { runId, pipelineId, position, run }, () => {
      if (run === null) output.data(`${output.style.green('accepted')}  ${runId}`);
      else printRun(run, output);
    });
    return run === null || run.status === 'succeeded' ? 0 : 1;
  });
}

/** Implements `waybill runs show`. The exit code does not depend on the run's status. */
export async function showRun(flags: RunFlags, io: Io): Promise<number> {
  return withDaemon({ ...flags, tokenIsOptional: true }, io, async (client) => {
    printRecord(await client.runs.show(flags.id), io.output);
    return 0;
  });
}

/** Implements `waybill runs follow`. If a single run is followed, the exit code is 1 if it failed. */
export async function followRuns(flags: OptionsFor<typeof followCommand>, io: Io): Promise<number> {
  const { id: runId, pipeline: pipelines } = flags;
  const { output } = io;
  return withDaemon({ ...flags, tokenIsOptional: runId !== undefined }, io, async (client) => {
    let last: RunRecord | null = null;
    for await (const run of client.runs.follow(runId === undefined ? { pipelines } : { runId })) {
      last = run;
      if (output.isJson) output.jsonLine('run-record', { run });
      else for (const line of runLines([run], output.style)) output.data(line);
    }
    if (last !== null && !output.isJson) printRun(last, output);
    return last?.status === 'failed' ? 1 : 0;
  });
}

/**
 * Implements `waybill runs cancel`. The exit code is 0 if the run was cancelled, and 1 if it was already
 * over.
 */
export async function cancelRun(flags: RunFlags, io: Io): Promise<number> {
  const { id } = flags;
  return withDaemon(flags, io, async (client) => {
    const run = await client.runs.cancel(id);
    const finalRun = run.finished_at === null ? await client.runs.wait(id) : run;
    printRecord(finalRun, io.output);
    return finalRun.error?.code === 'cancelled' ? 0 : 1;
  });
}

/**
 * Implements `waybill runs retry`. The exit code is 0 if the run succeeded, or if the command did not wait
 * for it. It is 1 if the run failed.
 */
export async function retryRun(flags: OptionsFor<typeof retryCommand>, io: Io): Promise<number> {
  const { id, wait } = flags;
  const timeoutMs = timeoutOf(flags);
  return withDaemon(flags, io, async (client) => {
    const run = await client.runs.retry(id);
    const onRecord = retryNotes(io.output);
    const last = wait ? await client.runs.wait(id, { timeoutMs, onRecord }) : run;
    printRecord(last, io.output);
    return last.status === 'failed' ? 1 : 0;
  });
}

function printRecord(run: RunRecord, output: Output): void {
  output.result('run-record', { run }, () => printRun(run, output));
}

/** Runs `work` with a client for the daemon that the options refer to. */
async function withDaemon(
  flags: RemoteFlags & { tokenIsOptional?: boolean },
  io: Io,
  work: (client: Client) => Promise<number>,
): Promise<number> {
  return withRemedies(flags, async () => work(await openClient(flags, { ...io, ...flags })));
}

/**
 * Implements `waybill runs rerun`. The exit code is 0 if the new run succeeded, or if the command did not
 * wait for it. It is 1 if the run failed.
 */
export async function rerun(flags: OptionsFor<typeof rerunCommand>, io: Io): Promise<number> {
  const { id, wait, to } = flags;
  const { output } = io;
  const timeoutMs = timeoutOf(flags);
  return withDaemon(flags, io, async (client) => {
    const accepted = await client.runs.rerun(id);
    const { runId, isReplayed } = accepted;
    if (isReplayed) output.note(`${id} was repeated before, as ${runId}`);
    if (!wait) return printRerun(id, accepted, null, output);
    output.note(`accepted as ${runId}; waiting for the result`);
    const code = printRerun(id, accepted, await waitForEnd(client, runId, timeoutMs), output);
    if (code !== 0 && isReplayed)
      output.note(`it failed, too; waybill runs rerun ${runId} --to ${to} repeats that one`);
    return code;
  });
}

async function waitForEnd(client: Client, runId: string, timeoutMs: number | undefined): Promise<RunRecord> {
  try {
    return await client.runs.wait(runId, { timeoutMs });
  } catch (error) {
    if (!hasCode(error, 'run_not_found')) throw error;
    throw new WaybillError('run_not_found', `the daemon no longer has a record of the run ${runId}`, {
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
  output.result('rerun', { runId, rerunOf: id, isReplayed, position, run }, () => {
    if (run === null) output.data(`${output.style.green('accepted')}  ${runId}`);
    else printRun(run, output);
  });
  return run === null || run.status === 'succeeded' ? 0 : 1;
}

export async function showPipelines(flags: OptionsFor<typeof pipelinesCommand>, io: Io): Promise<number> {
  const { output } = io;
  return withDaemon(flags, io, async (client) => {
    const pipelines = await client.pipelines();
    output.result('pipelines', { pipelines }, () => {
      for (const line of lines(pipelines, output.style)) output.data(line);
    });
    if (pipelines.length === 0) output.note('the token is for no pipeline');
    return 0;
  });
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
