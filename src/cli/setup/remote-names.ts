import { connect } from '../../client/client.ts';
import type { RemoteFlags } from './command-options.ts';
import { isId, type Names } from './completion-names.ts';
import { tokenOf } from './remote-client.ts';

/** The longest that a shell waits for completions. */
const patienceMs = 2_000;

/**
 * Lists the ids of the pipelines and destinations of a daemon, for shell completion. Sends one request,
 * without the identity of a CI job. Throws if there is no token, or no answer in time.
 */
export async function remoteNames(flags: RemoteFlags): Promise<Names> {
  const token = await tokenOf(flags);
  if (token === undefined) throw new Error('there is no token');
  const client = connect({
    url: flags.to,
    token,
    signal: AbortSignal.timeout(patienceMs),
    patience: { tries: 1, forMs: -1 },
  });
  const pipelines = (await client.pipelines()).map(({ pipeline_id: id, destinations }) => ({
    id,
    destinations: destinations.map(({ destination_id }) => destination_id).filter(isId),
  }));
  return { pipelines: pipelines.filter(({ id }) => isId(id)), notifiers: [] };
}
