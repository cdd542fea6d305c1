import { createHash } from 'node:crypto';

/**
 * The acts that the audit trail records, each with one sentence for `docs/audit.md`. The list is closed: a
 * route or command names its act here.
 */
export const actTable = {
  upload: 'A bundle was uploaded: accepted as a run, or refused.',
  'upload.remove': 'A partial upload was removed by its client.',
  'run.start': 'A run was started by a request, a schedule, a watched source or `waybill run`.',
  'run.cancel': 'A run was cancelled.',
  'run.retry': 'A waiting run was tried before its time.',
  'run.rerun': 'A finished run was repeated.',
  'pipeline.pause': 'A pipeline was paused.',
  'pipeline.resume': 'A paused pipeline was resumed.',
  publish: 'A run published a bundle at a destination, or failed to.',
  unpublish: 'The outputs of a pipeline were removed from a bundle path.',
  prune: '`waybill prune` removed old outputs.',
  'release.activate': 'A release was made current.',
  'release.rollback': 'An earlier release was made current.',
  'release.resume': 'Releases that were rolled back may be published again.',
  'release.drop': 'A channel was removed.',
  'release.tidy': 'Expired channels and old releases were removed.',
  'catalog.reconcile': '`waybill reconcile-state` removed records from a catalog.',
  'catalog.repair': '`waybill verify --repair` wrote outputs again.',
  reload: 'The configuration was read again.',
  'events.redeliver': 'Undelivered events were sent again.',
  login: 'A login to the console.',
  logout: 'A logout from the console.',
  'token.exchange': 'An ID token of a trusted publisher was exchanged for an access token.',
  'token.use': 'A token was used from an address: the first time in an hour.',
  'audit.recover': 'An interrupted write of the trail was closed.',
  'audit.gap': 'Records were lost, because the trail could not be written for too long.',
} as const;
export type Act = keyof typeof actTable;
export const acts = Object.keys(actTable) as Act[];

/** `refused`: not allowed or not valid, nothing was changed. `failed`: tried, without success. */
export const actResults = ['done', 'refused', 'failed'] as const;
export type ActResult = (typeof actResults)[number];

/** A fact about an act or its actor. Never a secret, and no free text of a client. */
export type Fact = string | number | boolean | null;

/**
 * The subject of an act. `type` says what `id` names: `token`, `publisher`, `user`, `os_user`, `schedule`,
 * `watch`, `daemon` or `anonymous`. A publisher has the digest of its verified claims as `claims_digest`, and
 * a user its `issuer`.
 */
export interface Actor {
  type: string;
  /** null for `anonymous` and `daemon`. */
  id: string | null;
  [fact: string]: Fact;
}

/** One act, before it is part of a trail. */
export interface ActEntry {
  act: Act;
  result: ActResult;
  /** The error code of an act that was not done. */
  code?: string | null;
  actor: Actor;
  /** The client address, as the proxy settings determine it; null for acts on this machine. */
  address?: string | null;
  pipelineId?: string | null;
  destinationId?: string | null;
  runId?: string | null;
  requestId?: string | null;
  detail?: Readonly<Record<string, Fact>>;
}

/** One line of a trail. */
export interface AuditRecord {
  /** 1 for the first record of a host, and one more for each further record. */
  seq: number;
  /** RFC 3339, UTC. */
  time: string;
  host: string;
  act: Act;
  result: ActResult;
  code: string | null;
  actor: Actor;
  address: string | null;
  pipeline_id: string | null;
  destination_id: string | null;
  run_id: string | null;
  request_id: string | null;
  detail: Record<string, Fact>;
  /** `sha256:` and the digest of the line before, without its line feed; null in the first record. */
  prev: string | null;
}

/** The place in a chain after which the next record comes. */
export interface ChainEnd {
  /** 0 before the first record. */
  seq: number;
  /** Digest of the last line; null before the first record. */
  digest: string | null;
}

export const chainStart: ChainEnd = { seq: 0, digest: null };

/** Makes the record that follows `end`. */
export function recordAfter(
  end: ChainEnd,
  entry: ActEntry,
  place: { time: Date; host: string },
): AuditRecord {
  const { act, result, actor, detail = {} } = entry;
  return {
    seq: end.seq + 1,
    time: place.time.toISOString(),
    host: place.host,
    act,
    result,
    code: entry.code ?? null,
    actor: bounded(actor) as Actor,
    address: entry.address ?? null,
    pipeline_id: entry.pipelineId ?? null,
    destination_id: entry.destinationId ?? null,
    run_id: entry.runId ?? null,
    request_id: entry.requestId ?? null,
    detail: bounded(detail),
    prev: end.digest,
  };
}

const maxFactChars = 512;

/** Keeps a record far below the size of one read at the end of a file. */
function bounded(facts: Readonly<Record<string, Fact>>): Record<string, Fact> {
  return Object.fromEntries(
    Object.entries(facts).map(([name, fact]) => [
      name,
      typeof fact === 'string' ? fact.slice(0, maxFactChars) : fact,
    ]),
  );
}

/** Returns the line of a record, without line feed: canonical JSON by RFC 8785. */
export function lineOf(record: AuditRecord): string {
  return canonicalJson(record);
}

/** Canonical JSON by RFC 8785, of values without fractions: no spaces, and sorted names. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, inner]) => `${JSON.stringify(name)}:${canonicalJson(inner)}`).join(',')}}`;
}

/** Returns the digest that the next record has as `prev`. */
export function digestOfLine(line: string | Uint8Array): string {
  return `sha256:${createHash('sha256').update(line).digest('hex')}`;
}

/** Parses one line; null if it is not an audit record. */
export function parseLine(line: string): AuditRecord | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  return isRecord(value) ? value : null;
}

const texts = ['time', 'host', 'act', 'result'] as const;
const textsOrNull = [
  'code',
  'address',
  'pipeline_id',
  'destination_id',
  'run_id',
  'request_id',
  'prev',
] as const;

/**
 * Reports whether the value has each member of a record, so that readers of an edited trail can rely on them.
 */
function isRecord(value: unknown): value is AuditRecord {
  if (!isObject(value)) return false;
  const { seq, actor, detail } = value;
  return (
    Number.isSafeInteger(seq) &&
    texts.every((name) => typeof value[name] === 'string') &&
    textsOrNull.every((name) => value[name] === null || typeof value[name] === 'string') &&
    isObject(detail) &&
    isObject(actor) &&
    typeof actor['type'] === 'string' &&
    (actor['id'] === null || typeof actor['id'] === 'string')
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
