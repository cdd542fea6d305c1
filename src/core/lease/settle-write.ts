import { hasCode, WaybillError } from '../errors.ts';
import type { Storage } from '../storage/storage.ts';

/**
 * Replaces the state by `replace`. If that fails, `readBack` decides whether the state was replaced after
 * all: a lost answer is not a failure. Returns if the state holds `bytes`. Throws `commit_unknown` if it
 * cannot be known whether it does or will: the state cannot be read back, or `replace` failed with
 * `storage_transient`, so that its request may still arrive. Throws the failure of `replace` otherwise.
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
