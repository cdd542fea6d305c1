import { hasCode, type WaybillError } from '../../core/lib/errors.ts';
import type { Connection } from '../http/connection.ts';
import { acceptedRun, type AcceptedRun } from './accepted-run.ts';
import { missingPart, type MissingPart } from './missing-part.ts';
import { partialHeader } from './remote-upload.ts';
import { NotResumable, sendResumably } from './send-resumably.ts';
import type { Upload } from './upload.ts';

export interface UploadOptions {
  /**
   * Whether to send the archive in several requests, which can be resumed after a lost connection. `auto`,
   * the default, does so for large archives if the daemon supports it.
   */
  resumable?: Resumable;
  /** The maximum size of a request of a resumable upload, which is also its memory use. Default: 8 MiB. */
  chunkBytes?: number;
  /** Publishes to this channel, at the destinations that have it. Default: publishes the current release. */
  channel?: string;
  /** Sends all files, even those that the daemon has. */
  whole?: boolean;
  /** Called if only a part of the files is sent. */
  onPart?: (part: MissingPart) => void;
  /** Called if `auto` falls back from a resumable upload to a single request. */
  onPlain?: (reason: WaybillError) => void;
}

export type Resumable = 'auto' | 'always' | 'never';

/** `auto` sends larger archives in several requests. */
export const largeBytes = 16 << 20;
const defaultChunkBytes = 8 << 20;

/**
 * Uploads a bundle and retries until the daemon has accepted it. All tries have the key of the bundle and
 * make one run. Only if that run has failed is a new one started.
 */
export async function uploadBundle(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  options: UploadOptions = {},
): Promise<AcceptedRun> {
  if (options.whole !== true)
    for (let tries = 1; tries <= maxPartTries; tries += 1) {
      const part = await missingPart(connection, pipelineId, upload);
      if (part === null) break;
      try {
        options.onPart?.(part);
        return await sendArchive(connection, pipelineId, part.upload, options, part.manifest);
      } catch (error) {
        // The daemon kept the sent files but removed others in the meantime, so the list is requested again.
        if (!hasCode(error, 'files_missing')) throw error;
      }
    }
  return sendArchive(connection, pipelineId, upload, options, null);
}

/** If the daemon keeps removing files, the whole bundle is sent. */
const maxPartTries = 2;

/** @param partial The digest of the manifest, for an archive without all files; null for a complete one. */
async function sendArchive(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  { resumable = 'auto', chunkBytes = defaultChunkBytes, channel, onPlain }: UploadOptions,
  partial: string | null,
): Promise<AcceptedRun> {
  const isLarge = (upload.size ?? upload.pieces?.readBytes ?? 0) > largeBytes;
  const isPatient = resumable === 'always';
  if (isPatient || (resumable === 'auto' && isLarge)) {
    try {
      return await sendResumably(connection, pipelineId, upload, {
        chunkBytes,
        isPatient,
        partial,
        channel,
      });
    } catch (error) {
      if (!(error instanceof NotResumable)) throw error;
      if (isPatient) throw error.reason;
      onPlain?.(error.reason);
    }
  }
  const answer = await connection.askJson({
    method: 'POST',
    path: uploadPath(pipelineId),
    query: { rerun_failed: 'true', ...(channel === undefined ? {} : { channel }) },
    headers: {
      ...headersOf(upload),
      'idempotency-key': upload.idempotencyKey,
      ...partialHeader(partial),
    },
    body: upload.open,
  });
  return acceptedRun(answer);
}

/** The path for an upload in one request, relative to the URL of the daemon. */
export function uploadPath(pipelineId: string): string {
  return `v1/pipelines/${encodeURIComponent(pipelineId)}/upload`;
}

/** The headers of an upload in one request. */
export function headersOf({ contentType, size }: Upload): Record<string, string> {
  return {
    'content-type': contentType,
    ...(size === undefined ? {} : { 'content-length': String(size) }),
  };
}
