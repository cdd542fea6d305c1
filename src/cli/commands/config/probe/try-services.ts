import type { CoreContext } from '../../../../core/context.ts';
import { WaybillError } from '../../../../core/lib/errors.ts';
import { silentLog } from '../../../../core/lib/log.ts';
import { sinkKindOf, type NotifierConfig } from '../../../../core/notify/sink-kinds.ts';
import { reachServer } from '../../../../core/lib/reach-server.ts';
import type { DatabaseConfig } from '../../../../core/config/weather/databases.ts';
import { tryReadableDirectory } from './try-directory.ts';

/** Of a server that is up and near, with much to spare. */
const answerWithinMs = 5_000;

/** A weather database: opened and asked one question. An embedded one is opened by one process at a time. */
export async function tryDatabase({ secrets }: CoreContext, database: DatabaseConfig): Promise<string> {
  if (database.driver === 'pglite') return tryReadableDirectory(database.directory);
  const { openDatabase } = await import('../../../../weather/database/open-database.ts');
  const opened = await openDatabase(database, { secrets, deadlineMs: answerWithinMs });
  try {
    await opened.probe();
  } finally {
    await opened.close();
  }
  return 'reached, logged in to, and asked';
}

/** Where a notifier sends: connected to, and nothing is sent. */
export async function tryNotifier(
  { clock, secrets }: CoreContext,
  notifier: NotifierConfig,
  signal: AbortSignal,
): Promise<string> {
  const warnings: string[] = [];
  const found = await sinkKindOf(notifier).reach(notifier, {
    ...{ clock, secrets, log: silentLog },
    neededBy: `notifier "${notifier.id}"`,
    warn: ({ message }) => void warnings.push(message),
    signal,
  });
  return [found, ...warnings].join('; ');
}

/** The collector of spans: connected to, and nothing is sent. */
export async function tryCollector(endpoint: string, signal: AbortSignal): Promise<string> {
  try {
    await reachServer(new URL(endpoint), { signal });
    return 'connected to';
  } catch (cause) {
    signal.throwIfAborted();
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'no connection';
    throw new WaybillError('unreachable', `the collector ${endpoint} cannot be reached (${code})`, {
      hint: 'start it, or correct tracing.endpoint',
      cause,
    });
  }
}
