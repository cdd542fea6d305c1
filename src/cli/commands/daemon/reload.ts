import type { ReloadReport } from '../../../core/config/config-changes.ts';
import { isRecord } from '../../../core/lib/json-document.ts';
import { columns } from '../../output/output.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { openOperator } from '../../setup/operator.ts';
import type { reloadCommand } from './commands.ts';

type ReloadOptions = OptionsFor<typeof reloadCommand>;

const timeoutMs = 60_000;

/**
 * Implements `waybill reload`. The exit code is 0 if the daemon now uses the file. It is 2 if the file or a
 * secret is invalid, here or on the daemon's side, if the daemon does not respond, or if it rejects the
 * token.
 */
export async function reloadDaemon(options: ReloadOptions, { output }: Pick<Io, 'output'>): Promise<number> {
  const { url, ask } = await openOperator(options, {
    command: 'waybill reload',
    without: 'send SIGHUP to its process: systemctl reload waybill',
  });
  const request = { method: 'POST', route: 'v1/reload', timeoutMs } as const;
  const { added, changed, removed, restart_needed: restartNeeded, warnings } = await ask(request, isReport);
  const changes = { added, changed, removed };
  output.result('reload', { url, ...changes, restartNeeded, warnings }, () => {
    const { green, yellow } = output.style;
    output.data(`${green('reloaded')}  ${url}`);
    const rows = Object.entries(changes).flatMap(([how, names]) => names.map((name) => [how, name]));
    for (const row of columns(rows, '  ')) output.data(row);
    if (restartNeeded.length > 0) output.data(`${yellow('restart needed')}  ${restartNeeded.join(', ')}`);
  });
  return 0;
}

type ReloadAnswer = Omit<ReloadReport, 'restartNeeded'> & { restart_needed: string[] };

function isReport(body: unknown): body is ReloadAnswer {
  const lists = ['added', 'changed', 'removed', 'restart_needed', 'warnings'];
  return isRecord(body) && lists.every((name) => Array.isArray(body[name]));
}
