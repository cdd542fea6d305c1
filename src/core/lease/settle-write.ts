import { isSameBytes, measureState } from '../catalog/store.ts';
import { hasCode, WaybillError } from '../errors.ts';
import { measure } from '../storage/body.ts';
import type { Body, Storage } from '../storage/storage.ts';

/**
 * Replaces the state by `replace`, or removes it. If that fails, `isReplaced` reads back whether the state
 * was replaced after all: a lost answer is not a failure. Returns if it was. Throws `commit_unknown` if it
 * cannot be known whether it was or will be: the state cannot be read back, or `replace` failed with
 * `storage_transient`, so that its request may still arrive. Throws the failure of `replace` otherwise.
 */
export async function settleWrite(
  storage: Pick<Storage, 'label'>,
  replace: () => Promise<void>,
  isReplaced: () => Promise<boolean>,
): Promise<void> {
  try {
    await replace();
  } catch (failure) {
    const unknown = (cause: unknown): WaybillError =>
      new WaybillError('commit_unknown', `${storage.label}: it is not known whether the state was replaced`, {
        cause,
        hint: 'nothing was deleted; run again, and the next run finds out and finishes',
      });
    const wasReplaced = await isReplaced().catch((cause: unknown) => {
      throw unknown(cause);
    });
    if (wasReplaced) return;
    // A request that timed out may still be on its way, and arrive after this reading.
    if (hasCode(failure, 'storage_transient')) throw unknown(failure);
    throw failure;
  }
}

/** Whether the state in storage is this very one. Throws the storage's own error. */
export async function isStateOf(storage: Storage, body: Body): Promise<boolean> {
  const present = await measureState(storage);
  return present?.size === body.size && isSameBytes(present, await measure(body.open()));
}
