import { hasCode } from '../../../core/lib/errors.ts';
import type { ChangePage, RunChange, RunWatch } from '../../queue/run-changes.ts';
import { away, type Shards } from './shards.ts';

/** A character that no queue's cursor contains. */
const separator = '.';
/** Replaces the cursor of a Redis that was unreachable when the reader began. */
const unknown = '0';

/**
 * The changes of all shards. A cursor joins the cursors of all shards, in the order of their names. For an
 * unreachable shard the cursor stays unchanged, and reading continues once the shard is back. If a shard was
 * unreachable from the beginning, its first answer is a gap.
 */
export function mergedWatch(shards: Shards, onChange: () => void): RunWatch {
  const watches: (RunWatch | undefined)[] = shards.map.names.map(() => undefined);
  let isClosed = false;
  /**
   * The shard that comes first on the next page. It rotates, so that a busy shard does not starve the others.
   */
  let turn = 0;
  shards.onOpen((queue, shard) => {
    if (isClosed) return;
    watches[shard] = queue.watch(onChange);
    onChange();
  });

  const after: RunWatch['after'] = async (cursor, { most, wants }) => {
    const parts = cursor.split(separator);
    if (parts.length !== watches.length) return null;
    const changes: RunChange[] = [];
    let more = false;
    turn = (turn + 1) % watches.length;
    for (let index = 0; index < watches.length; index += 1) {
      const shard = (turn + index) % watches.length;
      if (changes.length === most) {
        more = true;
        break;
      }
      const query = { most: most - changes.length, wants };
      const page = await pageOf(watches[shard], parts[shard] ?? '', query);
      if (page === 'gap') return null;
      if (page === 'away') continue;
      for (const change of page.changes) {
        parts[shard] = change.cursor;
        changes.push({ ...change, cursor: parts.join(separator) });
      }
      parts[shard] = page.cursor;
      more ||= page.more;
    }
    return { changes, cursor: parts.join(separator), more };
  };
  return {
    after,
    cursor: async () => {
      const parts = await Promise.all(
        watches.map(async (watch) => (await answered(watch?.cursor())) ?? unknown),
      );
      if (parts.every((part) => part === unknown)) throw away(shards.map.names);
      return parts.join(separator);
    },
    close: () => {
      isClosed = true;
      for (const watch of watches) watch?.close();
    },
  };
}

async function pageOf(
  watch: RunWatch | undefined,
  cursor: string,
  query: Parameters<RunWatch['after']>[1],
): Promise<ChangePage | 'away' | 'gap'> {
  if (watch === undefined) return 'away';
  const page = await answered(
    cursor === unknown ? watch.cursor().then(() => null) : watch.after(cursor, query),
  );
  return page === undefined ? 'away' : (page ?? 'gap');
}

/** undefined while the Redis is unreachable. */
async function answered<T>(asked: Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (hasCode(error, 'queue_unavailable')) return undefined;
    throw error;
  }
}
