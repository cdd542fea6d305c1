import { WaybillError } from '../errors.ts';
import { finding, type Finding } from '../finding.ts';
import { differenceOf, placeOf, type DecisionRecord, type Decisions } from './decision-record.ts';

/** So many differences are named. */
const maxFindings = 20;

export function planStale(reason: string, findings: readonly Finding[] = []): WaybillError {
  return new WaybillError('plan_stale', `the plan no longer holds: ${reason}`, {
    hint: 'make a new one with waybill run --dry-run --out FILE, and have it approved',
    findings: findings.slice(0, maxFindings),
  });
}

/**
 * Throws `plan_stale` unless the decisions that were made now are those that were written down. With
 * `isPartial` some could not be made at all, and those do not count. Pure.
 */
export function refuseStalePlan(
  written: readonly DecisionRecord[],
  made: Decisions,
  { isPartial }: { isPartial: boolean },
): void {
  const findings: Finding[] = [];
  const known = new Set(written.map(placeOf));
  for (const record of written) {
    const now = made.get(record);
    if (now === undefined && isPartial) continue;
    const difference = differenceOf(record, now);
    if (difference !== null) findings.push(different(record, difference));
  }
  for (const record of made.all())
    if (!known.has(placeOf(record))) findings.push(different(record, 'it is not in the plan'));
  const [first] = findings;
  if (first === undefined) return;
  const others = findings.length === 1 ? '' : `, and ${findings.length - 1} more`;
  throw planStale(`${first.file ?? ''}: ${first.message}${others}; nothing was changed`, findings);
}

/** Throws `plan_stale` if this is not the decision that was written down for its place. Pure. */
export function refuseOtherDecision(
  written: ReadonlyMap<string, DecisionRecord>,
  made: DecisionRecord,
): void {
  const place = placeOf(made);
  const difference = differenceOf(written.get(place), made);
  if (difference !== null) throw planStale(`${place}: ${difference} while the plan was carried out`);
}

function different(record: DecisionRecord, difference: string): Finding {
  return finding('error', 'plan_stale', difference, { file: placeOf(record) });
}
