import { instant } from '../instant.ts';
import type { Reading } from '../family.ts';
import type { AnswerMeta, RejectedFields } from '../render/meta.ts';
import type { Rejection } from '../rows/rejections.ts';

/** Milliseconds since the epoch from which data is stale; null where there is none. Pure. */
export function isStale(staleAt: number | null, now: Date): boolean {
  return staleAt !== null && now.getTime() >= staleAt;
}

/** `meta` of an answer; null if there is nothing to report. Pure. */
export function asOfMeta(reading: Reading<object>, stale: boolean): AnswerMeta | null {
  const { asOf, rejected = [], resolved, unknown = [], otherIssues = [], newerIssuedAt } = reading;
  const meta: AnswerMeta = {
    ...(stale ? { stale } : {}),
    ...(stale && asOf !== undefined ? { asOf: instant(asOf) } : {}),
    ...(resolved === undefined ? {} : { resolved }),
    ...(unknown.length === 0 ? {} : { unknown }),
    ...(otherIssues.length === 0 ? {} : { otherIssues }),
    ...(newerIssuedAt === undefined ? {} : { newerIssuedAt }),
    ...(rejected.length === 0 ? {} : { rejected: counted(rejected) }),
  };
  return Object.keys(meta).length === 0 ? null : meta;
}

function counted(rejected: readonly Rejection[]): RejectedFields[] {
  const counts = new Map<string, RejectedFields>();
  for (const { field, reason } of rejected) {
    const name = `${field} ${reason}`;
    const count = (counts.get(name)?.count ?? 0) + 1;
    counts.set(name, { field, reason, count });
  }
  return [...counts.keys()].sort().flatMap((name) => counts.get(name) ?? []);
}
