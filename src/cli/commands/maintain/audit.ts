import { type AuditFilter, readPage } from '../../../core/audit/read-trail.ts';
import { type Act, acts, type AuditRecord, type ChainEnd } from '../../../core/audit/record.ts';
import { listTrailFiles, readHead } from '../../../core/audit/trail-files.ts';
import { type TrailReport, verifyTrail } from '../../../core/audit/verify-trail.ts';
import { loadConfig } from '../../../core/config/load-config.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { describeFileError } from '../../../core/lib/system-errors.ts';
import { nearest, plural } from '../../../core/lib/text.ts';
import { columns, type Output } from '../../output/output.ts';
import { homeDirectory } from '../../process/home-directory.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { timeOf } from '../../setup/period.ts';
import type { showAuditCommand, verifyAuditCommand } from './commands.ts';

type ShowAuditOptions = OptionsFor<typeof showAuditCommand>;

/** Implements `waybill audit show`. Prints the newest matching records, in chronological order. */
export async function showAudit(options: ShowAuditOptions, { output }: Io): Promise<number> {
  const filter: AuditFilter = {
    since: timeOf('since', options.since),
    act: actOf(options.act),
    actor: options.actor ?? null,
    pipelines: options.pipeline ?? null,
  };
  const records = await newest(await trailOf(options), filter, options.limit);
  output.result('audit', { records }, () => {
    for (const line of columns(records.map((record) => rowOf(record, output)))) output.data(line);
    if (records.length === 0) output.note('no record matches');
  });
  return 0;
}

async function newest(directory: string, filter: AuditFilter, limit: number): Promise<AuditRecord[]> {
  const found: AuditRecord[] = [];
  let before: number | null = null;
  do {
    const { records, next }: Awaited<ReturnType<typeof readPage>> = await readPage(directory, {
      ...filter,
      limit: limit - found.length,
      before,
    });
    found.push(...records);
    before = next;
  } while (before !== null && found.length < limit);
  return found.reverse();
}

function rowOf(record: AuditRecord, { style }: Output): string[] {
  const { time, act, result, code, actor, address, pipeline_id, destination_id, run_id, detail } = record;
  const colour = { done: style.green, refused: style.yellow, failed: style.red }[result];
  const place = [pipeline_id, destination_id].filter((part) => part !== null).join('/');
  const facts = Object.entries(detail).map(([name, fact]) => `${name}=${String(fact)}`);
  return [
    time,
    act,
    colour(result),
    actor.id === null ? actor.type : `${actor.type} ${actor.id}`,
    address ?? '-',
    place === '' ? '-' : place,
    [code, run_id, ...facts].filter((part) => part !== null).join(' '),
  ];
}

/** Implements `waybill audit verify`. Checks the hash chain through all files. */
export async function verifyAudit(
  options: OptionsFor<typeof verifyAuditCommand>,
  { output }: Io,
): Promise<number> {
  const expected = options.contains === undefined ? null : recordOf(options.contains);
  const directory = await trailOf(options);
  const report = await verifyTrail(directory, { isPartial: options.partial, expected });
  const isWhole = report.problems.length === 0;
  output.result('audit-verify', { clean: isWhole, ...report }, () => printReport(report, output));
  return isWhole ? 0 : 1;
}

function printReport({ records, files, end, problems, interrupted }: TrailReport, output: Output): void {
  const { style, data } = output;
  for (const { fault, message } of problems) data(`${style.red(fault)}  ${message}`);
  for (const { file, line } of interrupted)
    data(`${style.dim('interrupted')}  ${file}:${line} is an interrupted write, not a change`);
  const amount = `${plural(records, 'record')} in ${plural(files, 'file')}`;
  const last = end.digest === null ? '' : `, the last is ${end.seq}:${end.digest}`;
  if (problems.length === 0) data(`${style.green('whole')}  ${amount}${last}`);
  else data(`${style.red('failed')}  ${amount}, ${plural(problems.length, 'problem')}`);
}

/**
 * Returns the trail's directory. Throws `usage` if it has no trail, because a missing one would look like one
 * without records and without problems.
 */
async function trailOf(options: Pick<ShowAuditOptions, 'config' | 'directory'>): Promise<string> {
  const directory = await directoryOf(options);
  try {
    if ((await listTrailFiles(directory)).length > 0 || (await readHead(directory)) !== null)
      return directory;
  } catch (error) {
    throw new WaybillError(
      'usage',
      `the audit trail "${directory}" cannot be read: ${describeFileError(error)}`,
      {
        hint: 'check the path and its permissions',
        cause: error,
      },
    );
  }
  throw new WaybillError('usage', `there is no audit trail in "${directory}"`, {
    hint: 'check the path; if it is right, no act has been recorded yet, or the records were removed',
  });
}

/**
 * Returns the trail's directory from the options or the configuration. Throws `usage` if neither of them has
 * it.
 */
async function directoryOf({
  config,
  directory,
}: Pick<ShowAuditOptions, 'config' | 'directory'>): Promise<string> {
  if (directory !== undefined) return directory;
  if (config === undefined)
    throw new WaybillError('usage', 'missing option: the audit trail to read', {
      hint: 'name it with --config <file> or --directory <directory>',
    });
  const loaded = await loadConfig(config, { home: homeDirectory() });
  if (loaded.config.audit !== null) return loaded.config.audit.directory;
  throw new WaybillError('usage', `${config} has no audit trail`, { hint: 'set `audit: {}`' });
}

function actOf(text: string | undefined): Act | null {
  if (text === undefined) return null;
  const act = acts.find((known) => known === text);
  if (act !== undefined) return act;
  const closest = nearest(text, acts);
  throw new WaybillError('usage', `there is no act "${text}"`, {
    hint: closest === undefined ? `known: ${acts.join(', ')}` : `did you mean "${closest}"?`,
  });
}

/** Parses a record as printed by `verify`: `SEQ:DIGEST`. Throws `usage`. */
function recordOf(text: string): ChainEnd {
  const [, seq, digest] = /^(\d{1,15}):(sha256:[0-9a-f]{64})$/.exec(text) ?? [];
  if (seq !== undefined && digest !== undefined) return { seq: Number(seq), digest };
  throw new WaybillError('usage', `--contains "${text}" is not a record`, {
    hint: 'name the last record as verify prints it: SEQ:sha256:DIGEST',
  });
}
