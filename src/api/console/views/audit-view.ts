import type { Act, AuditRecord } from '../../../core/audit/record.ts';
import type { Pause } from '../../../workers/queue/job-queue.ts';
import { paths } from '../paths.ts';
import {
  actionMark,
  isAction,
  type Mark,
  momentOf,
  permissionNames,
  plural,
  tokenName,
} from '../record-text.ts';

/* Shows records of the audit trail in words. */

/** The names of acts, which the records have as codes. */
export const actNames: Readonly<Record<Act, string>> = {
  upload: 'Upload',
  'upload.remove': 'Remove partial upload',
  'run.start': 'Start run',
  'run.cancel': 'Cancel run',
  'run.retry': 'Try run now',
  'run.rerun': 'Run again',
  'pipeline.pause': 'Pause pipeline',
  'pipeline.resume': 'Resume pipeline',
  publish: 'Publish',
  unpublish: 'Remove bundle',
  prune: 'Prune',
  'release.activate': 'Promote release',
  'release.rollback': 'Roll back',
  'release.resume': 'Allow rolled back releases',
  'release.drop': 'Remove channel',
  'release.tidy': 'Remove old releases',
  'catalog.reconcile': 'Reconcile catalog',
  'catalog.repair': 'Repair files',
  reload: 'Reload configuration',
  'events.redeliver': 'Send events again',
  login: 'Log in',
  logout: 'Log out',
  'token.exchange': 'Exchange token',
  'token.use': 'Use token',
  'audit.recover': 'Recover audit trail',
  'audit.gap': 'Lose audit records',
};

/** The records of a day in UTC. */
interface AuditDay {
  date: { iso: string; text: string };
  /** Such as `3 records`. */
  count: string;
  records: AuditRow[];
}

interface AuditRow {
  /** Whether a user or a token did it, and not the daemon. */
  isByUser: boolean;
  name: string;
  time: { iso: string; text: string };
  /** The pipeline and the destination; empty if it is not about one. */
  place: string;
  /** null if it was done. */
  result: Mark | null;
  actor: string;
  /** The token or the event that started the run of this record; null if the actor is not the daemon. */
  starter: string | null;
  /** null if it was done on this host. */
  address: string | null;
  facts: string;
  /** The name of the run that this act created; null if it created none. */
  run: string | null;
  /** The exact values, which the page shows on request. */
  details: Detail[];
}

interface Detail {
  name: string;
  value: string;
  /** The page that it leads to. */
  href?: string;
  isCode?: boolean;
}

const marks: Readonly<Record<AuditRecord['result'], Mark | null>> = {
  done: null,
  refused: { label: 'refused', tone: 'warning', symbol: '!' },
  failed: { label: 'failed', tone: 'failure', symbol: '✕' },
};

/** Facts that are not part of the trail. */
export interface AuditContext {
  /** The current pauses with their reasons, by pipeline. */
  pauses: ReadonlyMap<string, Pause>;
  /** The names of runs and the tokens and events that started them, by the id of the run, as far as known. */
  runs: ReadonlyMap<string, { name: string; starter: string }>;
}

/** Groups records by day. They are sorted, the newest first. */
export function auditDays(records: readonly AuditRecord[], context: AuditContext): AuditDay[] {
  const days = new Map<string, AuditRecord[]>();
  for (const record of causesLast(records)) {
    const day = record.time.slice(0, 10);
    days.set(day, [...(days.get(day) ?? []), record]);
  }
  return [...days].map(([iso, ofDay]) => ({
    date: { iso, text: momentOf(iso).text.split(',')[0] ?? iso },
    count: plural(ofDay.length, 'record'),
    records: ofDay.map((record) => rowOf(record, context)),
  }));
}

/**
 * The first use of a token is recorded after the request that it was used for. If both have the same second,
 * this puts it before the request, which is below it.
 */
function causesLast(records: readonly AuditRecord[]): AuditRecord[] {
  const sorted = [...records];
  for (const [index, after] of sorted.entries()) {
    const before = sorted[index + 1];
    if (after.act !== 'token.use' || before?.request_id !== after.request_id) continue;
    if (before.time.slice(0, 19) === after.time.slice(0, 19)) sorted.splice(index, 2, before, after);
  }
  return sorted;
}

/** The acts that create a run. */
const runActs: ReadonlySet<Act> = new Set<Act>(['upload', 'run.start', 'run.rerun']);

function rowOf(record: AuditRecord, { pauses, runs }: AuditContext): AuditRow {
  const { time, act, result, actor, run_id: id } = record;
  const run = id === null ? undefined : runs.get(id);
  return {
    name: actNames[act],
    time: { iso: time, text: time.slice(11, 19) },
    place: placeText(record),
    result: marks[result],
    isByUser: actor.type !== 'daemon',
    actor: tokenName(actor.id ?? actor.type),
    starter: actor.type === 'daemon' ? (run?.starter ?? null) : null,
    address: record.address,
    facts: factsText(record, pauses) || codeText(record),
    run: id === null || !runActs.has(act) ? null : (run?.name ?? id),
    details: detailsOf(record),
  };
}

function detailsOf(record: AuditRecord): Detail[] {
  const { act, time, actor, address, code, request_id: request, run_id: run, detail } = record;
  const by = [actor.type.replaceAll('_', ' '), ...(actor.id === null ? [] : [tokenName(actor.id)])].join(' ');
  const codes: [string, unknown][] = [
    ['Release', detail['release']],
    ['Error code', code],
    ['Action code', act],
    ['Request id', request],
  ];
  return [
    { name: 'Time', value: momentOf(time).text },
    { name: 'By', value: address === null ? by : `${by}, from ${address}` },
    ...(run === null ? [] : [{ name: 'Run', value: run, href: paths.run(run) }]),
    ...codes.flatMap(([name, value]) => (typeof value === 'string' ? [{ name, value, isCode: true }] : [])),
  ];
}

/** Names the pipeline and the destination of a record or an event; empty if it is not about one. */
export function placeText({
  pipeline_id: pipeline,
  destination_id: destination,
}: Pick<AuditRecord, 'pipeline_id' | 'destination_id'>): string {
  return [pipeline, destination].filter((part) => part !== null).join(' → ');
}

/** A pause and its record are written one after the other. */
const maxPauseGapMs = 5_000;

function factsText(
  { act, time, result, pipeline_id: id, detail }: AuditRecord,
  pauses: ReadonlyMap<string, Pause>,
): string {
  const facts = Object.entries(detail).filter(
    ([name, fact]) =>
      fact !== null && fact !== 0 && name !== 'release' && !(name === 'action' && isImplied(fact, result)),
  );
  const order = (name: string): number => (name === 'action' ? 0 : name === 'path' ? 1 : 2);
  const sorted = facts.sort(([a], [b]) => order(a) - order(b));
  const [action, path] = sorted.map(([name]) => name);
  // Reads like "updated at session-1", not like a list.
  const glue = action === 'action' && path === 'path' ? ' ' : ', ';
  const [first = '', second, ...others] = sorted.map(([name, fact]) => factText(name, fact));
  const text = second === undefined ? first : [`${first}${glue}${second}`, ...others].join(', ');
  const pause = act === 'pipeline.pause' && id !== null ? pauses.get(id) : undefined;
  if (pause?.reason == null || Math.abs(Date.parse(pause.since) - Date.parse(time)) > maxPauseGapMs)
    return text;
  return [text, `reason: ${pause.reason}`].filter((part) => part !== '').join(', ');
}

/** The permissions that acts need. */
const permissions: Readonly<Record<string, keyof typeof permissionNames>> = {
  ...{ upload: 'publish', 'run.start': 'publish', 'run.rerun': 'rerun', 'run.retry': 'rerun' },
  ...{ 'run.cancel': 'cancel', 'pipeline.pause': 'cancel', 'pipeline.resume': 'cancel' },
  ...{ 'release.activate': 'releases', 'release.rollback': 'releases' },
  ...{ 'release.resume': 'releases', 'release.drop': 'releases' },
};

/**
 * The missing permission, or the error code in words, such as `unmanaged content`; empty if there is no code.
 */
function codeText({ act, code }: AuditRecord): string {
  const permission = code === 'insufficient_scope' ? permissions[act] : undefined;
  if (permission !== undefined) return `needs the permission “${permissionNames[permission]}”`;
  return code?.replaceAll('_', ' ') ?? '';
}

type Fact = AuditRecord['detail'][string];

/** Reports whether the record says as much without this action, or the action did not happen. */
function isImplied(action: Fact, result: AuditRecord['result']): boolean {
  if (!isAction(action)) return false;
  return (
    action === 'publish_new' || (result !== 'done' && actionMark({ action, error: null }).tone !== 'failure')
  );
}

function factText(name: string, fact: Fact): string {
  if (name === 'path') return fact === '.' ? 'at the root' : `at ${String(fact)}`;
  if (name === 'action' && isAction(fact)) return actionMark({ action: fact, error: null }).label;
  const [noun, verb] = name.split('_');
  if (noun === 'outputs' && verb !== undefined && typeof fact === 'number')
    return `${plural(fact, 'file')} ${verb}`;
  return `${name.replaceAll('_', ' ')} ${String(fact)}`;
}
