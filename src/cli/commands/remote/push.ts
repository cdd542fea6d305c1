import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { type PreparedUpload, prepareUpload } from '../../../client/bundle.ts';
import type { Client, Plan, PushOptions, PushOutcome } from '../../../client/client.ts';
import { manifestName } from '../../../core/bundle/manifest.ts';
import type { PackSettings } from '../../../core/bundle/pack/pack-settings.ts';
import { describeFinding, type Finding, WaybillError, withDetails } from '../../../core/lib/errors.ts';
import { formatSize, parseSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../../core/lib/text.ts';
import { columns, type Output, reasonText, signOf } from '../../output/output.ts';
import { type Bars, createBars, withBars } from '../../output/progress.ts';
import { printRun, retryNotes } from '../../output/run-record-text.ts';
import { openPublished } from '../../process/open-browser.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { maxRateOf } from '../../setup/max-rate.ts';
import { defaultNameFor, packSettings } from '../../setup/pack-flags.ts';
import { openClient, timeoutOf, withRemedies } from '../../setup/remote-client.ts';
import { pipelineOfToken } from '../../setup/remote-place.ts';
import { signingOptions } from '../../setup/signing-key.ts';
import type { pushCommand } from './commands.ts';
import { revisionMetadata } from './git-revision.ts';

type PushFlags = OptionsFor<typeof pushCommand>;

/**
 * Implements `waybill push`. The exit code is 0 if the run succeeded, or if the command did not wait for it.
 * It is 1 if the run failed.
 */
export async function push(flags: PushFlags, { output, signal }: Io): Promise<number> {
  const { dryRun } = flags;
  const limits = { timeoutMs: timeoutOf(flags), chunkBytes: chunkBytesOf(flags) };
  const maxRate = maxRateOf(flags);
  refuseOpening(flags);
  const bars = createBars(output);
  return withRemedies(flags, async () => {
    try {
      const { pipeline: named } = flags;
      const about = { output, signal, maxRate, beforeNote: bars.pause, pipeline: named };
      const client = await openClient(flags, about);
      // Report errors of the bundle first, even if the daemon is unreachable.
      const upload = await prepareFromFlags(flags, bars);
      const pipeline = await pipelineOfToken(client, named);
      for (const warning of upload.warnings) output.warn(warning);
      const locate = locator(upload.directory);
      return await locateErrors(locate, async () => {
        if (dryRun) return await requestPlan(client, upload, { ...flags, pipeline }, output);
        const options = { ...pushOptions(flags, output, bars), ...limits };
        const outcome = await client.push(pipeline, upload, options);
        const code = printResult(outcome, { ...flags, pipeline }, output, locate);
        if (flags.open && outcome.run !== null)
          await openPublished(
            outcome.run.destinations.map(({ url }) => url),
            output,
            'no destination has a public_base_url',
          );
        return code;
      });
    } finally {
      bars.stop();
    }
  });
}

function pushOptions(
  { wait, resumable, whole, channel }: PushFlags,
  output: Output,
  bars: Bars,
): PushOptions {
  const note = (text: string): void => {
    bars.stop();
    output.note(text);
  };
  return {
    wait,
    resumable,
    whole,
    channel,
    onPart: ({ files, bytes, ofFiles }) =>
      note(
        `sending ${files} of ${plural(ofFiles, 'file')} (${formatSize(bytes)}): the daemon has the others`,
      ),
    onPlain: ({ message }) => note(`${message}; sending it in one request`),
    onRecord: retryNotes(output),
    onAccepted({ runId, isReplayed }) {
      bars.stop();
      if (wait)
        output.note(`${isReplayed ? 'accepted before' : 'accepted'} as ${runId}; waiting for the result`);
    },
  };
}

/** Throws `usage` if --open is given and the command ends before there is an address. */
function refuseOpening({ open, dryRun, wait }: PushFlags): void {
  if (!open || (wait && !dryRun)) return;
  const other = dryRun ? '--dry-run' : '--no-wait';
  throw new WaybillError('usage', `--open shows what was published, and ${other} ends before that`, {
    hint: 'leave out one of the two',
  });
}

async function prepareFromFlags(flags: PushFlags, bars: Bars): Promise<PreparedUpload> {
  const { bundle } = flags;
  const settings = packSettings(flags);
  const upload = await prepareUpload(bundle, {
    ...settings,
    ...(await withRevision(flags, settings)),
    ...defaultNameFor(bundle),
    ...(await signingOptions(flags)),
    salt: flags.again ? randomUUID() : undefined,
    onMeasured: bars.onBytes,
    onSent: bars.onBytes,
  }).catch((error: unknown) => {
    if (!(error instanceof WaybillError) || error.code !== 'malformed_archive') throw error;
    throw withDetails(error, {
      message: `"${bundle}": ${error.message}`,
      hint: 'name a directory, or an archive that waybill pack or tar made',
    });
  });
  return { ...upload, ...withBars(upload, bars) };
}

/** Adds the revision to the manifest's metadata. A manifest that already exists is left alone. */
async function withRevision(
  flags: PushFlags,
  { metadata, renew }: PackSettings,
): Promise<Pick<PackSettings, 'metadata'>> {
  const { bundle } = flags;
  const isDirectory = await stat(bundle).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const hasManifest = isDirectory && renew !== true && existsSync(path.join(bundle, manifestName));
  if (isDirectory && !hasManifest) {
    const found = await revisionMetadata(bundle, flags, process.env);
    const all = { ...found, ...metadata };
    return Object.keys(all).length === 0 ? {} : { metadata: all };
  }
  if (flags.message !== undefined)
    throw new WaybillError('usage', `--message cannot change the manifest of "${bundle}"`, {
      hint: hasManifest
        ? 'write "message" into the metadata of its manifest.json, or add --renew'
        : 'give waybill pack --metadata message=TEXT, or push the directory',
    });
  return {};
}

const minChunk = 64 << 10;
const maxChunk = 1 << 30;

/**
 * Returns the chunk size in bytes, or undefined to use the client's default. Throws a `usage` error if it is
 * invalid.
 */
function chunkBytesOf({ chunkSize }: PushFlags): number | undefined {
  if (chunkSize === undefined) return undefined;
  const bytes = parseSize(chunkSize);
  if (bytes !== undefined && bytes >= minChunk && bytes <= maxChunk) return bytes;
  throw new WaybillError('usage', `--chunk-size: "${chunkSize}" is not a size from 64KiB to 1GiB`, {
    hint: 'write it like 8MiB; a chunk is kept in memory',
  });
}

async function requestPlan(
  client: Client,
  upload: PreparedUpload,
  flags: PushFlags & { pipeline: string },
  output: Output,
): Promise<number> {
  const plan = await client.plan(flags.pipeline, upload, { channel: flags.channel });
  if (output.isJson) process.stdout.write(`${JSON.stringify(plan, null, 2)}\n`);
  else printPlan(plan, output);
  return hasPlanErrors(plan) ? 1 : 0;
}

function printResult(
  { runId, isReplayed, position, run }: PushOutcome,
  { pipeline, wait }: PushFlags & { pipeline: string },
  output: Output,
  locate: (finding: Finding) => Finding,
): number {
  output.result('push', { runId, pipelineId: pipeline, isReplayed, position, run }, () => {
    if (run === null) output.data(`${output.style.green('accepted')}  ${runId}`);
    else printRun(run, output, locate);
  });
  if (isReplayed && run?.status === 'succeeded')
    output.note(
      `the daemon accepted this bundle before (${run.accepted_at}) and did not publish it again; --again publishes it`,
    );
  return !wait || run?.status === 'succeeded' ? 0 : 1;
}

/** Returns a function that changes the paths in findings from files on the daemon to local files. */
function locator(directory: string | null): (finding: Finding) => Finding {
  return (finding) => {
    const { file } = finding;
    if (directory === null || file === null || path.isAbsolute(file) || file.startsWith('<')) return finding;
    const here = path.join(directory, file);
    return file === manifestName && !existsSync(here) ? finding : { ...finding, file: here };
  };
}

async function locateErrors<T>(locate: (finding: Finding) => Finding, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof WaybillError) || error.findings.length === 0) throw error;
    throw withDetails(error, { findings: error.findings.map(locate) });
  }
}

function printPlan(plan: Plan, output: Output): void {
  const { style } = output;
  for (const { destinations, error } of plan.pipelines) {
    if (error !== null) output.data(`${style.red('✗')} ${error.code}  ${error.message}`);
    for (const { destination_id: id, actions, error: failure } of destinations) {
      output.data(failure === null ? style.cyan(id) : `${style.red('✗')} ${style.cyan(id)}`);
      if (failure !== null) printReason(failure, output);
      const rows = actions.map(({ destination_path: target, action, changes, reason, error: wrong }) => [
        `${signOf(action, wrong, style)} target=${target}`,
        action,
        action === 'skip_same' ? '' : plural(changes.length, 'change'),
        style.dim(reasonText(reason, wrong)),
      ]);
      for (const line of columns(rows, '  ')) output.data(line);
      for (const { error: wrong } of actions) if (wrong !== null) printReason(wrong, output);
    }
  }
  output.data(`${countsText(plan)}; dry run, nothing was published (--format json lists each path)`);
}

function countsText({ pipelines }: Plan): string {
  const actions = pipelines.flatMap(({ destinations }) => destinations.flatMap((one) => one.actions));
  const failed = actions.filter(({ error }) => error !== null).length;
  const unchanged = actions.filter(({ action }) => action === 'skip_same').length;
  return `would publish ${actions.length - failed - unchanged}, unchanged ${unchanged}, failed ${failed}`;
}

/** Reports whether publishing would fail at one of the destinations. */
function hasPlanErrors({ pipelines }: Plan): boolean {
  return pipelines.some(({ status }) => status === 'failed');
}

function printReason(
  { code, message, hint, findings }: NonNullable<Plan['pipelines'][number]['error']>,
  output: Output,
): void {
  output.data(`   ${output.style.red(code)}  ${message}`);
  for (const finding of findings) output.data(`     ${describeFinding(finding)}`);
  if (hint !== null) output.data(`   ${output.style.cyan('next')}  ${hint}`);
}
