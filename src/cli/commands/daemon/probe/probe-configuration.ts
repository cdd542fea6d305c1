import { currentUserName } from '../../../../core/lib/unsafe-path.ts';
import type { Loaded } from '../../../../core/config/accepted-config.ts';
import { systemClock } from '../../../../core/lib/clock.ts';
import type { CoreContext } from '../../../../core/context.ts';
import { silentLog } from '../../../../core/lib/log.ts';
import type { Secrets } from '../../../../core/lib/secrets.ts';
import { storageOpener } from '../../../../core/storage/open-storage.ts';
import { columns, plural, type Output } from '../../../output/output.ts';
import { trialsOf } from './trials-of.ts';
import { tryAll, type Tried } from './trial.ts';

/** A person waits: what fails once is told, and not tried again. */
const noRetries = { retries: 0, baseMs: 1, capMs: 1 };

/** Tries everything that the configuration names. Leaves nothing behind. */
export async function probeConfiguration({ config, locate }: Loaded, secrets: Secrets): Promise<Tried[]> {
  const log = silentLog;
  const context: CoreContext = {
    clock: systemClock,
    log,
    secrets,
    openStorage: storageOpener(
      { clock: systemClock, log, secrets },
      { opening: noRetries, calls: noRetries },
    ),
  };
  return tryAll(trialsOf(config, context), { clock: systemClock, locate });
}

/** A line for each, and below those that failed where that stands, what happened, and what to do. */
export function printTried(tried: readonly Tried[], file: string, output: Output): void {
  const { style } = output;
  const failed = tried.filter(({ error }) => error !== null).length;
  const summary = failed === 0 ? style.green('all well') : style.red(`${failed} of them failed`);
  output.data(`probe  as ${currentUserName()}  ${plural(tried.length, 'place')}, ${summary}`);
  const rows = tried.map(({ pointer, subject, found }) => [
    found === null ? style.red('✗') : style.green('✓'),
    pointer,
    style.cyan(subject),
    found ?? '',
  ]);
  const lines = columns(rows, '  ');
  for (const [index, { line, column, error }] of tried.entries()) {
    output.data(lines[index] ?? '');
    if (error === null) continue;
    output.data(`    ${file}:${line}:${column}: ${error.message}`);
    if (error.hint !== null) output.data(`    ${style.cyan('next')}  ${error.hint}`);
  }
}
