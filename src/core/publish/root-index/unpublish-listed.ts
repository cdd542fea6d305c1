import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import type { Finding } from '../../lib/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { unpublish } from '../unpublish/unpublish.ts';
import type { UnpublishReport, UnpublishRequest } from '../unpublish/unpublish-request.ts';
import { refreshPaths, withdraw } from './root-index.ts';

/**
 * Like `unpublish`, for a destination that may have a root index. Removes the bundle path from the index
 * first, so that the index never links to removed files. Adds it again if the bundle remains, because
 * unpublishing failed or another layout of it is still published.
 */
export async function unpublishListed(
  context: CoreContext,
  root: Storage,
  destination: DestinationConfig,
  request: UnpublishRequest,
  warn: (warning: Finding) => void = () => undefined,
): Promise<UnpublishReport> {
  const { dryRun, destinationPath, owner, leaseTimes } = request;
  // The bundle path `.` is the index itself, if there is one.
  if (!destination.rootIndex || dryRun || destinationPath === '.') return unpublish(context, root, request);
  const index = { owner, destination };
  // Check for refusals before the index changes. A bundle that is already removed leaves the index
  // afterwards.
  const isRefused = await unpublish({ ...context, notify: () => undefined }, root, {
    ...request,
    dryRun: true,
  }).then(
    () => false,
    () => true,
  );
  const options = { leaseTimes };
  const warning = isRefused ? null : await withdraw(context, root, index, destinationPath, options);
  if (warning !== null) warn(warning);
  const refresh = async (): Promise<void> => {
    if (warning === null) await refreshPaths(context, root, index, [destinationPath], options);
  };
  const report = await unpublish(context, root, request).catch(async (error: unknown) => {
    await refresh().catch((failure: unknown) =>
      context.log.warn({ err: failure, destinationPath }, 'the root index may lack this bundle'),
    );
    throw error;
  });
  await refresh();
  return report;
}
