import type { Client, ReleasePlace } from '../../../../client/client.ts';
import { WaybillError } from '../../../../core/lib/errors.ts';
import type { Io } from '../../../setup/command.ts';
import { type RemoteFlags, urlVariable } from '../../../setup/command-options.ts';
import { openClient, withRemedies } from '../../../setup/remote-client.ts';
import { destinationWithReleases, pipelineOfToken } from '../../../setup/remote-place.ts';
import { bundlePathArgument } from '../../../setup/set-up.ts';
import type { EitherFlags } from './commands.ts';

/*
 * The commands about releases either read a configuration file, or ask a daemon. The options say which.
 */

type DaemonFlags = EitherFlags & RemoteFlags;

/**
 * Returns the options with the URL of the daemon to ask, or null if the configuration is to be read. The
 * variable `WAYBILL_URL` is only used without `--config`. Throws `usage` if both are given.
 */
export function daemonOf<T extends EitherFlags>(flags: T): (T & RemoteFlags) | null {
  const { config, to } = flags;
  if (config !== undefined && to !== undefined)
    throw new WaybillError('usage', '--config and --to cannot be combined', {
      hint: 'leave out --config to ask the daemon, or --to to read the configuration here',
    });
  const variable = process.env[urlVariable] ?? '';
  const url = to ?? (config === undefined && variable !== '' ? variable : undefined);
  return url === undefined ? null : { ...flags, to: url };
}

type LocalFlags = EitherFlags & { config: string };

/** Returns the options of a command that reads a configuration. Throws `usage` if one is missing. */
export function localFlags<T extends EitherFlags>(flags: T): T & LocalFlags {
  const { config } = flags;
  if (config === undefined)
    throw new WaybillError('usage', 'missing option --config <file> or --to <url>', {
      hint: `name the configuration file, or the URL of a daemon (also in the variable ${urlVariable})`,
    });
  return { ...flags, config };
}

/** A destination with releases, at a daemon. */
export interface DaemonPlace {
  client: Client;
  place: ReleasePlace;
}

/** Runs `work` with a client, and the destination that the options select or that is the only one. */
export async function atDaemon(
  flags: DaemonFlags,
  io: Io,
  work: (at: DaemonPlace) => Promise<number>,
): Promise<number> {
  const path = flags.path === undefined ? undefined : bundlePathArgument(flags.path);
  return withRemedies(flags, async () => {
    const { pipeline: named } = flags;
    const client = await openClient(flags, { ...io, pipeline: named });
    const pipeline = await pipelineOfToken(client, named);
    const destination = await destinationWithReleases(client, pipeline, flags.destination);
    return work({ client, place: { pipeline, destination, path } });
  });
}
