import type { Clock } from '../lib/clock.ts';
import type { Finding } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { OpenNotifier } from './lane.ts';
import { type NotifierConfig, sinkKindOf } from './sink-kinds.ts';

/**
 * Opens the sinks of the configured notifiers, without connecting. Loads the code of a sink only if it is
 * configured, because most runs need none. Throws `secrets_invalid` if a secret is missing or malformed.
 */
export async function openNotifiers(
  configs: readonly NotifierConfig[],
  context: { secrets: Secrets; log: Log; clock: Clock },
): Promise<{ notifiers: OpenNotifier[]; warnings: Finding[] }> {
  const warnings: Finding[] = [];
  const warn = (warning: Finding): void => void warnings.push(warning);
  const notifiers: OpenNotifier[] = [];
  for (const config of configs) {
    const neededBy = `notifier "${config.id}"`;
    notifiers.push({ config, sink: await sinkKindOf(config).open(config, { ...context, neededBy, warn }) });
  }
  return { notifiers, warnings };
}
