import type { ReloadReport } from '../../../core/config/reload.ts';
import { columns, makeOutput, type Output } from '../../output/output.ts';
import type { ConfiguredOptions } from '../../setup/command-options.ts';
import { isObject, openOperator } from '../../setup/operator.ts';

export interface ReloadOptions extends Pick<ConfiguredOptions, 'config' | 'format' | 'color'> {
  /** `--url` */
  url?: string;
}

const patienceMs = 60_000;

/**
 * `waybill reload`. Exit code 0 if the daemon has activated the file. Exit code 2 if the file or a secret
 * is invalid (here or there), or no daemon answers. Exit code 1 if the daemon rejects the token.
 */
export async function reloadDaemon(options: ReloadOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  const { url, ask } = await openOperator(options, {
    command: 'waybill reload',
    without: 'send SIGHUP to its process: systemctl reload waybill',
  });
  const { restart_needed: restartNeeded, ...report } = await ask(
    { method: 'POST', route: 'v1/reload', patienceMs },
    isReport,
  );
  print(output, url, { ...report, restartNeeded });
  return 0;
}

type Report = Omit<ReloadReport, 'restartNeeded'> & { restart_needed: string[] };

function isReport(body: unknown): body is Report {
  const lists = ['added', 'changed', 'removed', 'restart_needed', 'warnings'];
  return isObject(body) && lists.every((name) => Array.isArray(body[name]));
}

function print(
  output: Output,
  url: string,
  { added, changed, removed, restartNeeded, warnings }: ReloadReport,
): void {
  const changes = { added, changed, removed };
  if (output.isJson) {
    output.json('reload', { url, ...changes, restartNeeded, warnings });
    return;
  }
  for (const warning of warnings) output.warn(warning);
  const { green, yellow } = output.style;
  output.data(`${green('reloaded')}  ${url}`);
  const rows = Object.entries(changes).flatMap(([how, names]) => names.map((name) => [how, name]));
  for (const row of columns(rows, '  ')) output.data(row);
  if (restartNeeded.length > 0) output.data(`${yellow('restart needed')}  ${restartNeeded.join(', ')}`);
}
