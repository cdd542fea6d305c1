import { WaybillError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { S3Wire, Upload } from './wire.ts';

/** Multipart uploads that a killed publisher left behind: invisible, and paid for. */
export interface UnfinishedUploads {
  /**
   * Aborts those of this key. Whoever calls it holds the lease, so nobody lives who could still want them.
   */
  abort(key: string): Promise<void>;
}

/**
 * Looks once for all of a prefix, when the first key is about to be changed: an upload that was begun before,
 * for a key that this publisher changes under its lease, is one that nobody completes any more. Rights to
 * look are not needed: without them a lifecycle rule has to do it.
 */
export function unfinishedUploads(wire: S3Wire, prefix: string, log: Log, label: string): UnfinishedUploads {
  let looked: Promise<Map<string, Upload[]>> | undefined;
  return {
    async abort(key) {
      looked ??= look();
      const byKey = await looked;
      const uploads = byKey.get(key);
      if (uploads === undefined) return;
      for (const upload of uploads) await wire.abortUpload(upload);
      byKey.delete(key);
      log.info({ storage: label, key, uploads: uploads.length }, 'unfinished multipart uploads were aborted');
    },
  };

  async function look(): Promise<Map<string, Upload[]>> {
    const byKey = new Map<string, Upload[]>();
    try {
      for (const upload of await wire.unfinishedUploads(prefix))
        byKey.set(upload.key, [...(byKey.get(upload.key) ?? []), upload]);
    } catch (error) {
      if (error instanceof WaybillError && error.retryable) {
        looked = undefined;
        throw error;
      }
      log.debug({ storage: label, err: error }, 'unfinished multipart uploads cannot be listed');
    }
    return byKey;
  }
}
