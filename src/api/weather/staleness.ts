import { instant } from '../../core/weather/instant.ts';
import type { ResolvedPlace } from '../../core/weather/family.ts';
import type { AnswerMeta, RejectedFields } from '../../core/weather/render/meta.ts';
import type { Rejection } from '../../core/weather/rows/rejections.ts';

/** Milliseconds since the epoch from which data is stale; null where there is none. Pure. */
export function isStale(staleAt: number | null, now: Date): boolean {
  return staleAt !== null && now.getTime() >= staleAt;
}

/** What is to be said beside the data; null if nothing is. Pure. */
export function asOfMeta(about: {
  stale: boolean;
  asOf: Date | undefined;
  rejected: readonly Rejection[];
  resolved?: ResolvedPlace | undefined;
}): AnswerMeta | null {
  const { stale, asOf, rejected, resolved } = about;
  const meta: AnswerMeta = {
    ...(stale ? { stale } : {}),
    ...(stale && asOf !== undefined ? { asOf: instant(asOf) } : {}),
    ...(resolved === undefined ? {} : { resolved }),
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
