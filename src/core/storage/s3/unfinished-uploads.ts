import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { S3Wire, Upload } from './wire.ts';

/** Multipart uploads left behind by a killed publisher. They are invisible, but cost money. */
export interface UnfinishedUploads {
  /** Aborts those of this object key. The caller must hold the lease. */
  abort(key: string): Promise<void>;
}

/**
 * Lists the uploads of a prefix once, when the first object is about to be changed. The publisher changes
 * that object under its lease, so nobody else can still complete an upload of it that was begun before. The
 * right to list uploads is optional: without it, removing them is left to a lifecycle rule of the bucket.
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
