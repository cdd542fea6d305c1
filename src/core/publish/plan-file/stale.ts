import { WaybillError, finding, type Finding } from '../../lib/errors.ts';
import { differenceOf, placeOf, type DecisionRecord, type Decisions } from './decision-record.ts';

const maxFindings = 20;

export function planStale(reason: string, findings: readonly Finding[] = []): WaybillError {
  return new WaybillError('plan_stale', `the plan is out of date: ${reason}`, {
    hint: 'make a new plan with waybill run --dry-run --out FILE and have it approved',
    findings: findings.slice(0, maxFindings),
  });
}

/**
 * Throws `plan_stale` unless the current decisions equal the planned ones. With `isPartial`, some decisions
 * could not be made, and a missing one is not a difference. Pure.
 */
export function refuseStalePlan(
  planned: readonly DecisionRecord[],
  current: Decisions,
  { isPartial }: { isPartial: boolean },
): void {
  const findings: Finding[] = [];
  const known = new Set(planned.map(placeOf));
  for (const record of planned) {
    const now = current.get(record);
    if (now === undefined && isPartial) continue;
    const difference = differenceOf(record, now);
    if (difference !== null) findings.push(differenceFinding(record, difference));
  }
  for (const record of current.all())
    if (!known.has(placeOf(record))) findings.push(differenceFinding(record, 'it is not in the plan'));
  const [first] = findings;
  if (first === undefined) return;
  const others = findings.length === 1 ? '' : `, and ${findings.length - 1} more`;
  throw planStale(`${first.file ?? ''}: ${first.message}${others}; nothing was changed`, findings);
}

/** Throws `plan_stale` unless `current` equals the planned decision for its place. Pure. */
export function refuseOtherDecision(
  planned: ReadonlyMap<string, DecisionRecord>,
  current: DecisionRecord,
): void {
  const place = placeOf(current);
  const difference = differenceOf(planned.get(place), current);
  if (difference !== null) throw planStale(`${place}: ${difference} while the plan was being applied`);
}

function differenceFinding(record: DecisionRecord, difference: string): Finding {
  return finding('error', 'plan_stale', difference, { file: placeOf(record) });
}
