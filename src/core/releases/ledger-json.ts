import { asArrayOf, asInstant, asInteger, asObject, asString, Malformed } from '../catalog/parse-fields.ts';
import { WaybillError } from '../errors.ts';
import { emptyLedger, type Ledger, type Releases } from './ledger.ts';
import { parseReleaseId, releaseAt, releaseKey, type ReleaseId } from './release.ts';

export const ledgerVersion = 1;
export const maxLedgerBytes = 16 << 20;

/**
 * The document that remembers the releases of a bundle path. `current` is in it where the document is the
 * pointer, too: readers need that key alone. Pure.
 */
export function serialiseReleases(
  ledger: Ledger,
  { updatedAt, current }: { updatedAt: string; current?: ReleaseId | null },
): Buffer {
  const document = {
    schema_version: ledgerVersion,
    ...(current === undefined ? {} : { current: current === null ? null : releaseKey(current) }),
    updated_at: updatedAt,
    history: ledger.history.map(({ id, activatedAt, leftAt }) => ({
      ...{ id, activated_at: activatedAt, left_at: leftAt },
    })),
    rollbacks: ledger.rollbacks.map(({ to, from }) => ({ to, from: [...from] })),
    removing: [...ledger.removing],
  };
  return Buffer.from(`${JSON.stringify(document, null, 2)}\n`);
}

/**
 * Parses what `serialiseReleases` wrote. `place` names it in errors. Throws `state_conflict` if it is
 * anything else, or of a newer version. Pure.
 */
export function parseReleases(bytes: Uint8Array, place: string): Releases {
  try {
    const document = asObject(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)), '');
    const version = asInteger(document['schema_version'], 'schema_version');
    if (version !== ledgerVersion)
      throw new Malformed('schema_version', `is ${version}, and this version knows ${ledgerVersion}`);
    const target = document['current'] ?? null;
    const pointer = target === null ? null : asString(target, 'current');
    const current = pointer === null ? null : releaseAt(pointer);
    return { ledger: parseLedger(document), current, foreignTarget: current === null ? pointer : null };
  } catch (error) {
    const why = error instanceof Malformed || error instanceof SyntaxError ? error.message : 'is not UTF-8';
    throw new WaybillError('state_conflict', `${place} ${why}`, {
      cause: error,
      hint: 'was it edited, or written by a newer version? what is published is not in it and stays as it is',
    });
  }
}

function parseLedger(document: Record<string, unknown>): Ledger {
  return {
    ...emptyLedger,
    history: asArrayOf(document['history'], 'history', (item) => {
      const activation = asObject(item, '');
      const left = activation['left_at'];
      return {
        id: asReleaseId(activation['id'], 'id'),
        activatedAt: asInstant(activation['activated_at'], 'activated_at'),
        leftAt: left === null ? null : asInstant(left, 'left_at'),
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
  };
}

function asReleaseId(value: unknown, at: string): ReleaseId {
  const id = parseReleaseId(asString(value, at));
  if (id === undefined) throw new Malformed(at, 'is not the id of a release');
  return id;
}
