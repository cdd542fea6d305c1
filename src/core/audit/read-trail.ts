import { open } from 'node:fs/promises';
import path from 'node:path';
import { type Act, type AuditRecord, parseLine } from './record.ts';
import { listTrailFiles, maxLineBytes } from './trail-files.ts';

/** Selects records. A field that is null or missing matches any record. */
export interface AuditFilter {
  since?: Date | null;
  until?: Date | null;
  act?: Act | null;
  actor?: string | null;
  /** Ids of pipelines. If this is set, records that have no pipeline do not match. */
  pipelines?: readonly string[] | null;
}

/** Reports whether the record matches, except that `since` is ignored. */
export function isSelected(record: AuditRecord, { until, act, actor, pipelines }: AuditFilter): boolean {
  if (until != null && new Date(record.time) > until) return false;
  if (act != null && record.act !== act) return false;
  if (actor != null && record.actor.id !== actor) return false;
  return pipelines == null || (record.pipeline_id !== null && pipelines.includes(record.pipeline_id));
}

export interface AuditPage {
  /** Newest first. */
  records: AuditRecord[];
  /** Pass this as `before` to get the next page; null if there are no more. */
  next: number | null;
}

/** How many records to look at for a single page. */
const maxExamined = 20_000;
/**
 * After this many records in a row that are older than `since`, there are no others. One is not enough: when
 * the clock is set back, or a process has to wait to write, a record is older than the one before it.
 */
const maxOlder = 1_000;

/**
 * Reads a page of records, newest first. If only a few records match, there can be fewer than `limit` on a
 * page even if it has a `next`. Lines that are not records are skipped.
 *
 * @param before Only return records with a lower `seq`; null to start with the newest one.
 */
export async function readPage(
  directory: string,
  { limit, before = null, ...filter }: AuditFilter & { limit: number; before?: number | null },
): Promise<AuditPage> {
  const records: AuditRecord[] = [];
  let examined = 0;
  let older = 0;
  let last = 0;
  for await (const record of newestFirst(directory, before)) {
    const isOlder = filter.since != null && new Date(record.time) < filter.since;
    older = isOlder ? older + 1 : 0;
    if (older > maxOlder) return { records, next: null };
    if (records.length === limit || examined === maxExamined) return { records, next: last };
    examined += 1;
    last = record.seq;
    if (!isOlder && isSelected(record, filter)) records.push(record);
  }
  return { records, next: null };
}

/** Yields the records whose `seq` is lower than `before`, starting with the newest. */
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

/** Yields the complete lines of a file, from the last to the first. */
async function* linesBackwards(file: string): AsyncGenerator<string> {
  const handle = await open(file, 'r');
  try {
    let { size: at } = await handle.stat();
    let rest = Buffer.alloc(0);
    // Whether the bytes after the last line feed are the rest of an interrupted write, or of a line that is
    // too long for a record.
    let isEndIgnored = true;
    while (at > 0) {
      const begin = Math.max(0, at - blockBytes);
      const block = Buffer.alloc(at - begin);
      await handle.read(block, 0, block.length, begin);
      at = begin;
      let bytes = Buffer.concat([block, rest]);
      if (isEndIgnored) bytes = bytes.subarray(0, bytes.lastIndexOf(0x0a) + 1);
      isEndIgnored &&= bytes.length === 0;
      const lines = bytes.toString('latin1').split('\n');
      const first = at === 0 ? '' : (lines.shift() ?? '');
      for (const line of lines.reverse()) if (line !== '') yield Buffer.from(line, 'latin1').toString();
      isEndIgnored ||= first.length > maxLineBytes;
      rest = Buffer.from(isEndIgnored ? '' : first, 'latin1');
    }
  } finally {
    await handle.close();
  }
}
