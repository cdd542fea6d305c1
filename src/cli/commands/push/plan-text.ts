import type { Plan } from '../../../client/client.ts';
import { describeFinding } from '../../../core/finding.ts';
import { columns, plural, type Output } from '../../output.ts';

/** What publishing an upload would do, as people read it. */
export function printPlan(plan: Plan, output: Output): void {
  const { style } = output;
  for (const { destinations, error } of plan.pipelines) {
    if (error !== null) output.data(`${style.red('✗')}  ${error.code}  ${error.message}`);
    for (const { destination_id: id, actions, error: failure } of destinations) {
      const mark = failure === null ? style.green('✓') : style.red('✗');
      output.data(`${mark}  ${style.cyan(id)}`);
      if (failure !== null) printReason(failure, output);
      const rows = actions.map(({ destination_path: target, action, changes, reason }) => [
        `target=${target}`,
        action,
        plural(changes.length, 'change'),
        style.dim(reason?.message ?? ''),
      ]);
      for (const line of columns(rows, '   ')) output.data(line);
      for (const { error: wrong } of actions) if (wrong !== null) printReason(wrong, output);
    }
  }
  output.data(style.dim('nothing was published; --format json has the fate of each path'));
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
