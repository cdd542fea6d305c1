import { isSameBytes, measureState } from '../store.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import { measure } from '../../storage/body.ts';
import type { Body, Storage } from '../../storage/storage.ts';

/**
 * Runs `replace`, which replaces or removes the state. If it fails, `isReplaced` reads back whether it took
 * effect, because only the response may have been lost. Returns if it did. Throws `commit_unknown` if the
 * outcome is unknown: the state cannot be read back, or `replace` failed with `storage_transient` and its
 * request may still arrive. Otherwise throws the error of `replace`.
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
      new WaybillError('commit_unknown', `${storage.label}: it is unknown whether the state was replaced`, {
        cause,
        hint: 'run again: the next run checks the state and finishes; nothing was deleted',
      });
    const wasReplaced = await isReplaced().catch((cause: unknown) => {
      throw unknown(cause);
    });
    if (wasReplaced) return;
    // A request that timed out may still arrive after this read.
    if (hasCode(failure, 'storage_transient')) throw unknown(failure);
    throw failure;
  }
}

/** Whether the state in storage has exactly these bytes. Throws the storage's error. */
export async function isStateOf(storage: Storage, body: Body): Promise<boolean> {
  const present = await measureState(storage);
  return present?.size === body.size && isSameBytes(present, await measure(body.open()));
}
