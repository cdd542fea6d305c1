import { hasCode, type WaybillError } from '../../core/errors.ts';
import type { Connection } from '../http/connection.ts';
import { acceptedRun, type AcceptedRun } from './accepted-run.ts';
import { missingPart, type MissingPart } from './missing-part.ts';
import { partialHeader } from './remote-upload.ts';
import { NotResumable, sendResumably } from './send-resumably.ts';
import type { Upload } from './upload.ts';

export interface UploadOptions {
  /**
   * Whether the archive is sent in several requests, which go on where they were after a lost connection:
   * `auto`, if it is large and the daemon does so.
   */
  resumable?: Resumable;
  /** Of an upload in several requests: what one of them may have, and as much memory. 8 MiB by default. */
  chunkBytes?: number;
  /** Publishes to this channel of the destinations that have it; without it, for everybody. */
  channel?: string;
  /** Sends every file, also those that the daemon has. */
  whole?: boolean;
  /** Called where only some of the files are sent. */
  onPart?: (part: MissingPart) => void;
  /** Called where `auto` sends in one request what it would have sent in several. */
  onPlain?: (reason: WaybillError) => void;
}

export type Resumable = 'auto' | 'always' | 'never';

/** What is larger `auto` sends in several requests. */
export const largeBytes = 16 << 20;
const defaultChunkBytes = 8 << 20;

/**
 * Uploads a bundle, tried until the daemon has taken it. Any number of tries makes one run, since all of them
 * have the key of the bundle; only if the run of that key has failed is there another one.
 */
export async function uploadBundle(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  options: UploadOptions = {},
): Promise<AcceptedRun> {
  if (options.whole !== true)
    for (let tries = 1; tries <= mostParts; tries += 1) {
      const part = await missingPart(connection, pipelineId, upload);
      if (part === null) break;
      try {
        options.onPart?.(part);
        return await sendArchive(connection, pipelineId, part.upload, options, part.manifest);
      } catch (error) {
        // What has come is kept; more went meanwhile, so it is asked again.
        if (!hasCode(error, 'files_missing')) throw error;
      }
    }
  return sendArchive(connection, pipelineId, upload, options, null);
}

/** Where what is kept goes again and again, the bundle is sent whole. */
const mostParts = 2;

/** @param partial Of the manifest of an archive that leaves files out; null: it is whole. */
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
        ...{ chunkBytes, isPatient, partial, channel },
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

/** Of an upload in one request, below the URL of the daemon. */
export function uploadPath(pipelineId: string): string {
  return `v1/pipelines/${encodeURIComponent(pipelineId)}/upload`;
}

/** Of an upload in one request. */
export function headersOf({ contentType, size }: Upload): Record<string, string> {
  return {
    'content-type': contentType,
    ...(size === undefined ? {} : { 'content-length': String(size) }),
  };
}
