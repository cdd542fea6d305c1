import { open } from 'node:fs/promises';
import path from 'node:path';
import { type Act, type AuditRecord, parseLine } from './record.ts';
import { listTrailFiles } from './trail-files.ts';

/** Selects records. Fields that are null or absent match every record. */
export interface AuditFilter {
  since?: Date | null;
  until?: Date | null;
  act?: Act | null;
  /** The actor's id. */
  actor?: string | null;
  /** Pipeline ids. If set, records that are not about a pipeline are excluded. */
  pipelines?: readonly string[] | null;
}

/** Reports whether the record matches the filter, ignoring `since`. */
export function isSelected(record: AuditRecord, { until, act, actor, pipelines }: AuditFilter): boolean {
  if (until != null && new Date(record.time) > until) return false;
  if (act != null && record.act !== act) return false;
  if (actor != null && record.actor.id !== actor) return false;
  return pipelines == null || (record.pipeline_id !== null && pipelines.includes(record.pipeline_id));
}

export interface AuditPage {
  /** Newest first. */
  records: AuditRecord[];
  /** Pass this as `before` to read the next page; null on the last page. */
  next: number | null;
}

/** The maximum number of records examined for one page. */
const maxExamined = 20_000;

/**
 * Reads one page of records, newest first. If few records match the filter, a page may be shorter than
 * `limit` and still have a `next`. Skips lines that are not records.
 *
 * @param before Return only records with a smaller `seq`; null to start with the newest.
 */
export async function readPage(
  directory: string,
  { limit, before = null, ...filter }: AuditFilter & { limit: number; before?: number | null },
): Promise<AuditPage> {
  const records: AuditRecord[] = [];
  let [examined, last] = [0, 0];
  for await (const record of newestFirst(directory, before)) {
    if (filter.since != null && new Date(record.time) < filter.since) return { records, next: null };
    if (records.length === limit || examined === maxExamined) return { records, next: last };
    examined += 1;
    last = record.seq;
    if (isSelected(record, filter)) records.push(record);
  }
  return { records, next: null };
}

/** Yields the records with a `seq` below `before`, from newest to oldest. */
export async function* newestFirst(directory: string, before: number | null): AsyncGenerator<AuditRecord> {
  const files = await listTrailFiles(directory);
  for (const { name, firstSeq } of files.reverse()) {
    if (before !== null && firstSeq >= before) continue;
    for await (const line of linesBackwards(path.join(directory, name))) {
      const record = parseLine(line);
      if (record !== null && (before === null || record.seq < before)) yield record;
    }
  }
}

const blockBytes = 64 * 1024;

/** Yields a file's complete lines, last one first. */
async function* linesBackwards(file: string): AsyncGenerator<string> {
  const handle = await open(file, 'r');
  try {
    let { size: at } = await handle.stat();
    let rest = Buffer.alloc(0);
    let isLast = true;
    while (at > 0) {
      const begin = Math.max(0, at - blockBytes);
      const block = Buffer.alloc(at - begin);
      await handle.read(block, 0, block.length, begin);
      at = begin;
      let bytes = Buffer.concat([block, rest]);
      // Ignore an interrupted write, which is not a complete line.
      if (isLast) bytes = bytes.subarray(0, bytes.lastIndexOf(0x0a) + 1);
      isLast = isLast && bytes.length === 0;
      const lines = bytes.toString('latin1').split('\n');
      const first = at === 0 ? '' : (lines.shift() ?? '');
      for (const line of lines.reverse()) if (line !== '') yield Buffer.from(line, 'latin1').toString();
      rest = Buffer.from(first, 'latin1');
    }
  } finally {
    await handle.close();
  }
}
