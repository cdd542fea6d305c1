import { asArrayOf, asInstant, asInteger, asObject, asString, Malformed } from '../catalog/parse-fields.ts';
import { WaybillError } from '../lib/errors.ts';
import { compareCodeUnits, isChannelName } from '../lib/paths.ts';
import { type Channel, emptyLedger, type Ledger, type Releases } from './ledger.ts';
import { parsePointerTarget, parseReleaseId, type ReleaseId, releaseKey } from './release.ts';

/*
 * Reads and writes the ledger in its JSON form. On an object store, the same document is the pointer, too.
 */

const ledgerVersion = 1;
export const maxLedgerBytes = 16 << 20;

/**
 * Returns the JSON of a bundle path's ledger. If the document is also the pointer, pass `current`, the only
 * field that readers care about.
 */
export function serialiseReleases(
  ledger: Ledger,
  { updatedAt, current }: { updatedAt: string; current?: ReleaseId | null },
): Buffer {
  const document = {
    schema_version: ledgerVersion,
    current: current == null ? current : releaseKey(current),
    updated_at: updatedAt,
    history: ledger.history.map(({ id, activatedAt, leftAt, wasRolledBack }) => ({
      id,
      activated_at: activatedAt,
      left_at: leftAt,
      rolled_back: wasRolledBack ? true : undefined,
    })),
    rollbacks: ledger.rollbacks.map(({ to, from }) => ({ to, from: [...from] })),
    removing: [...ledger.removing],
    channels: Object.fromEntries(
      ledger.channels.map(({ name, id, setAt, expiresAt }) => [
        name,
        { release: releaseKey(id), set_at: setAt, expires_at: expiresAt },
      ]),
    ),
    left_by_channels: ledger.leftByChannels.map(({ id, leftAt }) => ({ id, left_at: leftAt })),
  };
  return Buffer.from(`${JSON.stringify(document, null, 2)}\n`);
}

/**
 * Parses a document from `serialiseReleases`. Errors refer to it as `place`. Throws `state_conflict` if it is
 * malformed or from a newer version. The channels in the result are the ones in the ledger.
 */
export function parseReleases(bytes: Uint8Array, place: string): Releases {
  try {
    const document = asObject(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)), '');
    const version = asInteger(document['schema_version'], 'schema_version');
    if (version !== ledgerVersion)
      throw new Malformed('schema_version', `is ${version}, but this version supports ${ledgerVersion}`);
    const target = document['current'] ?? null;
    const pointer = target === null ? null : asString(target, 'current');
    const current = pointer === null ? null : parsePointerTarget(pointer);
    const ledger = parseLedger(document);
    const channels = new Map(ledger.channels.map(({ name, id }) => [name, id]));
    return { ledger, current, foreignTarget: current === null ? pointer : null, channels };
  } catch (error) {
    throw new WaybillError('state_conflict', `${place} ${faultOf(error)}`, {
      cause: error,
      hint: 'restore it from a backup, or use a newer waybill if one wrote it; the published files are unchanged',
    });
  }
}

function faultOf(error: unknown): string {
  if (error instanceof Malformed) return error.message;
  return error instanceof SyntaxError ? `is not JSON: ${error.message}` : 'is not UTF-8';
}

function parseLedger(document: Record<string, unknown>): Ledger {
  return {
    ...emptyLedger,
    history: asArrayOf(document['history'], 'history', (item) => {
      const activation = asObject(item, '');
      const leftAtValue = activation['left_at'];
      return {
        id: asReleaseId(activation['id'], 'id'),
        activatedAt: asInstant(activation['activated_at'], 'activated_at'),
        leftAt: leftAtValue === null ? null : asInstant(leftAtValue, 'left_at'),
        wasRolledBack: activation['rolled_back'] === true,
      };
    }),
    rollbacks: asArrayOf(document['rollbacks'], 'rollbacks', (item) => {
      const rollback = asObject(item, '');
      return {
        to: asReleaseId(rollback['to'], 'to'),
        from: asArrayOf(rollback['from'], 'from', (id) => asReleaseId(id, '')),
      };
    }),
    removing: asArrayOf(document['removing'], 'removing', (id) => asReleaseId(id, '')),
    channels: parseChannels(asObject(document['channels'] ?? {}, 'channels')),
    leftByChannels: asArrayOf(document['left_by_channels'] ?? [], 'left_by_channels', (item) => {
      const entry = asObject(item, '');
      return { id: asReleaseId(entry['id'], 'id'), leftAt: asInstant(entry['left_at'], 'left_at') };
    }),
  };
}

function parseChannels(channels: Record<string, unknown>): Channel[] {
  return Object.entries(channels)
    .map(([name, value]) => {
      const at = `channels.${name}`;
      if (!isChannelName(name)) throw new Malformed(at, 'is not the name of a channel');
      const channel = asObject(value, at);
      const id = parsePointerTarget(asString(channel['release'], `${at}.release`));
      if (id === null) throw new Malformed(`${at}.release`, 'is not a release');
      const setAt = asInstant(channel['set_at'], `${at}.set_at`);
      return { name, id, setAt, expiresAt: asInstant(channel['expires_at'], `${at}.expires_at`) };
    })
    .sort((a, b) => compareCodeUnits(a.name, b.name));
}

function asReleaseId(value: unknown, at: string): ReleaseId {
  const id = parseReleaseId(asString(value, at));
  if (id === undefined) throw new Malformed(at, 'is not the id of a release');
  return id;
}
