import type { Plan } from '../../../client/client.ts';
import { describeFinding } from '../../../core/lib/errors.ts';
import { columns, plural, type Output } from '../../output/output.ts';
import { reasonText, signOf } from '../../output/action-text.ts';

/** A plan as people read it: what publishing an upload would do. */
export function printPlan(plan: Plan, output: Output): void {
  const { style } = output;
  for (const { destinations, error } of plan.pipelines) {
    if (error !== null) output.data(`${style.red('✗')} ${error.code}  ${error.message}`);
    for (const { destination_id: id, actions, error: failure } of destinations) {
      output.data(failure === null ? style.cyan(id) : `${style.red('✗')} ${style.cyan(id)}`);
      if (failure !== null) printReason(failure, output);
      const rows = actions.map(({ destination_path: target, action, changes, reason, error: wrong }) => [
        `${signOf(action, wrong, style)} target=${target}`,
        action,
        action === 'skip_same' ? '' : plural(changes.length, 'change'),
        style.dim(reasonText(reason, wrong)),
      ]);
      for (const line of columns(rows, '  ')) output.data(line);
      for (const { error: wrong } of actions) if (wrong !== null) printReason(wrong, output);
    }
  }
  output.data(`${countsText(plan)}; dry run, nothing was published (--format json lists each path)`);
}

function countsText({ pipelines }: Plan): string {
  const actions = pipelines.flatMap(({ destinations }) => destinations.flatMap((one) => one.actions));
  const failed = actions.filter(({ error }) => error !== null).length;
  const unchanged = actions.filter(({ action }) => action === 'skip_same').length;
  return `would publish ${actions.length - failed - unchanged}, unchanged ${unchanged}, failed ${failed}`;
}

/** Whether a publication would fail at any destination. */
export function planFails({ pipelines }: Plan): boolean {
  return pipelines.some(({ status }) => status === 'failed');
}

function printReason(
  { code, message, hint, findings }: NonNullable<Plan['pipelines'][number]['error']>,
  output: Output,
): void {
  output.data(`   ${output.style.red(code)}  ${message}`);
  for (const finding of findings) output.data(`     ${describeFinding(finding)}`);
  if (hint !== null) output.data(`   ${output.style.cyan('next')}  ${hint}`);
}
