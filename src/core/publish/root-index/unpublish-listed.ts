import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import type { Finding } from '../../finding.ts';
import type { Storage } from '../../storage/storage.ts';
import { unpublish } from '../unpublish/unpublish.ts';
import type { UnpublishReport, UnpublishRequest } from '../unpublish/unpublish-request.ts';
import { refreshPaths, withdraw } from './root-index.ts';

/**
 * As `unpublish`; where the destination has an index at its root, the bundle path is taken out of it first,
 * so that no reader is led to what is gone, and put back if it stays after all: because something failed, or
 * because there are two layouts of it.
 */
export async function unpublishListed(
  context: CoreContext,
  root: Storage,
  destination: DestinationConfig,
  request: UnpublishRequest,
  warn: (warning: Finding) => void = () => undefined,
): Promise<UnpublishReport> {
  const { dryRun, destinationPath, owner, leaseTimes } = request;
  // What is at the root itself is the index, if there is one.
  if (!destination.rootIndex || dryRun || destinationPath === '.') return unpublish(context, root, request);
  const index = { owner, destination };
  // What is refused is refused before the index changes; and what is gone already is taken out afterwards.
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
  const asItIs = async (): Promise<void> => {
    if (warning === null) await refreshPaths(context, root, index, [destinationPath], options);
  };
  const report = await unpublish(context, root, request).catch(async (error: unknown) => {
    await asItIs().catch((failure: unknown) =>
      context.log.warn({ err: failure, destinationPath }, 'the index of the root may say less than there is'),
    );
    throw error;
  });
  await asItIs();
  return report;
}
