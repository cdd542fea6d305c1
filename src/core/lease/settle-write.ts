import { hasCode, WaybillError } from '../errors.ts';
import type { Storage } from '../storage/storage.ts';

/**
 * Replaces the state by `replace` and, where that fails, finds out whether it was replaced after all: a lost
 * answer is no failure, and a failure is not known to be one until the state was read back.
 */
export async function settleWrite(
  storage: Pick<Storage, 'label'>,
  bytes: Buffer,
  replace: () => Promise<void>,
  readBack: () => Promise<Buffer | null>,
): Promise<void> {
  try {
    await replace();
  } catch (failure) {
    const unknown = (cause: unknown): WaybillError =>
      new WaybillError('commit_unknown', `${storage.label}: it is not known whether the state was replaced`, {
        cause,
        hint: 'nothing was deleted; run again, and the next run finds out and finishes',
      });
    const present = await readBack().catch((cause: unknown) => {
      throw unknown(cause);
    });
    if (present?.equals(bytes) === true) return;
    // A request that timed out may still be on its way, and arrive after this reading.
    if (hasCode(failure, 'storage_transient')) throw unknown(failure);
    throw failure;
  }
}
