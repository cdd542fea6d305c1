import { createHash } from 'node:crypto';
import { isRecord } from '../lib/json-document.ts';

/**
 * All acts that can be in the trail, with a sentence about each for `docs/audit.md`. To audit a new route or
 * command, add its act here.
 */
const actTable = {
  upload: 'A bundle was uploaded: accepted as a run, or refused.',
  'upload.remove': 'A partial upload was removed by its client.',
  'run.start':
    'A run was started by a request, a schedule, a watched source, `waybill run` or `waybill promote`.',
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

/**
 * A `refused` act was not permitted or not valid, and changed nothing. A `failed` act was attempted without
 * success.
 */
export const actResults = ['done', 'refused', 'failed'] as const;
type ActResult = (typeof actResults)[number];

/**
 * A detail about an act or its actor. Secrets, and text that clients can choose freely, are never included.
 */
export type Fact = string | number | boolean | null;

/**
 * The person or program behind an act. `type` says what the `id` is: `token`, `publisher`, `user`, `os_user`,
 * `schedule`, `watch`, `daemon` or `anonymous`. A publisher also has a digest of its verified claims
 * (`claims_digest`), and a user has an `issuer`.
 */
export interface Actor {
  type: string;
  /** null if the type is `anonymous` or `daemon`. */
  id: string | null;
  [fact: string]: Fact;
}

/** An act that is not in a trail yet. */
export interface ActEntry {
  act: Act;
  result: ActResult;
  /** The error code, if the act was refused or failed. */
  code?: string | null;
  actor: Actor;
  /** The address of the client, taking proxies into account; null if the act was local. */
  address?: string | null;
  pipelineId?: string | null;
  destinationId?: string | null;
  runId?: string | null;
  requestId?: string | null;
  detail?: Readonly<Record<string, Fact>>;
}

/** One line of a trail. */
export interface AuditRecord {
  /** The number of the record. Each host starts with 1. */
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

/** The end of a chain. The next record goes after it. */
export interface ChainEnd {
  /** 0 if there are no records. */
  seq: number;
  /** The digest of the last line; null if there are no records. */
  digest: string | null;
}

export const chainStart: ChainEnd = { seq: 0, digest: null };

/** Returns a new record that goes after `end`. */
export function nextRecord(end: ChainEnd, entry: ActEntry, place: { time: Date; host: string }): AuditRecord {
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

/** Cuts off long details, so that a record is much smaller than what we read at the end of a file. */
function bounded(facts: Readonly<Record<string, Fact>>): Record<string, Fact> {
  return Object.fromEntries(
    Object.entries(facts).map(([name, fact]) => [
      name,
      typeof fact === 'string' ? fact.slice(0, maxFactChars) : fact,
    ]),
  );
}

/** Returns the line for a record, as canonical JSON (RFC 8785) and without a line feed. */
export function lineOf(record: AuditRecord): string {
  return canonicalJson(record);
}

/**
 * Returns a value as canonical JSON (RFC 8785), with sorted names and no spaces. Fractions are not supported.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, inner]) => `${JSON.stringify(name)}:${canonicalJson(inner)}`).join(',')}}`;
}

/** Returns the digest of a line, which becomes `prev` in the next record. */
export function digestOfLine(line: string | Uint8Array): string {
  return `sha256:${createHash('sha256').update(line).digest('hex')}`;
}

/** Parses a line. Returns null if it is not an audit record. */
export function parseLine(line: string): AuditRecord | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  return isAuditRecord(value) ? value : null;
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
 * Reports whether the value has every field of a record. Readers must not assume that it does, because the
 * trail may have been edited.
 */
function isAuditRecord(value: unknown): value is AuditRecord {
  if (!isRecord(value)) return false;
  const { seq, actor, detail } = value;
  return (
    Number.isSafeInteger(seq) &&
    texts.every((name) => typeof value[name] === 'string') &&
    textsOrNull.every((name) => value[name] === null || typeof value[name] === 'string') &&
    isRecord(detail) &&
    isRecord(actor) &&
    typeof actor['type'] === 'string' &&
    (actor['id'] === null || typeof actor['id'] === 'string')
  );
}
