import type { ErrorCode } from '../core/lib/error-codes.ts';
import { hasCode, type WaybillError } from '../core/lib/errors.ts';
import { missingFiles, requireShape } from './answers.ts';
import type { Parts, Upload } from './archive.ts';
import { type Connection, isRefusedToken } from './connection.ts';
import type { MissingFiles } from './generated/api-types.ts';
import { partialHeader } from './remote-upload.ts';
import { type AcceptedRun, acceptedRun } from './runs.ts';
import { NotResumableError, sendResumably } from './send-resumably.ts';

export interface UploadOptions {
  /**
   * Whether to send the archive in several requests, so that the upload can be resumed if the connection
   * breaks. By default (`auto`), that is done for large archives, if the daemon supports it.
   */
  resumable?: Resumable;
  /** The largest request in a resumable upload. An upload uses as much memory. Default: 8 MiB. */
  chunkBytes?: number;
  /**
   * The channel to publish to, at destinations that have it. By default, the current release is published.
   */
  channel?: string;
  /** Send all files, even if the daemon already has some of them. */
  whole?: boolean;
  /** Called if some of the files do not have to be sent. */
  onPart?: (part: MissingPart) => void;
  /** Called if `auto` falls back to sending everything in a single request. */
  onPlain?: (reason: WaybillError) => void;
}

export type Resumable = 'auto' | 'always' | 'never';

/** Above this size, `auto` sends the archive in several requests. */
const largeBytes = 16 << 20;
const defaultChunkBytes = 8 << 20;

/**
 * Uploads a bundle, and retries until the daemon has accepted it. All attempts use the bundle's key, so there
 * is only one run. If that run has failed, a new one is started.
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
        // The daemon has the files that we sent, but has deleted others in the meantime. Ask again what is
        // missing.
        if (!hasCode(error, 'files_missing')) throw error;
      }
    }
  return sendArchive(connection, pipelineId, upload, options, null);
}

/** If the daemon keeps deleting files, send the whole bundle. */
const maxPartTries = 2;

/**
 * @param partial The manifest's digest if files have been left out of the archive. null if it is complete.
 */
async function sendArchive(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  { resumable = 'auto', chunkBytes = defaultChunkBytes, channel, onPlain }: UploadOptions,
  partial: string | null,
): Promise<AcceptedRun> {
  const inOneRequest = async (isRepeatable: boolean): Promise<AcceptedRun> => {
    const answer = await connection.requestJson({
      method: 'POST',
      path: uploadPath(pipelineId),
      query: { rerun_failed: 'true', channel },
      headers: {
        ...bodyHeaders(upload),
        'idempotency-key': upload.idempotencyKey,
        ...partialHeader(partial),
      },
      body: upload.open,
      isRepeatable,
    });
    return acceptedRun(answer);
  };
  const isLarge = (upload.size ?? upload.pieces?.readBytes ?? 0) > largeBytes;
  const waitsForSlot = resumable === 'always';
  if (resumable === 'auto' && !isLarge && connection.canRenew) {
    try {
      return await inOneRequest(false);
    } catch (error) {
      // On a slow connection, the token can expire during a single long request. With several requests, each
      // one gets a new token.
      if (!isRefusedToken(error)) throw error;
    }
  }
  if (waitsForSlot || (resumable === 'auto' && (isLarge || connection.canRenew))) {
    try {
      return await sendResumably(connection, pipelineId, upload, {
        chunkBytes,
        waitsForSlot,
        partial,
        channel,
      });
    } catch (error) {
      if (!(error instanceof NotResumableError)) throw error;
      if (waitsForSlot) throw error.reason;
      onPlain?.(error.reason);
    }
  }
  return inOneRequest(true);
}

/** Returns the path for an upload in a single request, relative to the daemon's URL. */
export function uploadPath(pipelineId: string): string {
  return `v1/pipelines/${encodeURIComponent(pipelineId)}/upload`;
}

export function bodyHeaders({ contentType, size }: Upload): Record<string, string> {
  return {
    'content-type': contentType,
    ...(size === undefined ? {} : { 'content-length': String(size) }),
  };
}

/* Sends only the files that the daemon does not already have. */

/** An archive that does not contain the files that the daemon already has. */
export interface MissingPart {
  upload: Upload;
  /** The digest of the manifest. */
  manifest: string;
  /** The number and total size of the files to be sent. */
  files: number;
  bytes: number;
  /** The number and total size of all files in the bundle. */
  ofFiles: number;
  ofBytes: number;
}

/** If the bundle is smaller than this, the additional request is not worth it. */
const minBytes = 64 << 10;

/**
 * Errors from a daemon that is too old for this or does not keep files. The last one comes from a proxy that
 * thinks that the manifest is too large.
 */
const unsupportedCodes: readonly ErrorCode[] = [
  'not_found',
  'method_not_allowed',
  'unexpected_answer',
  'upload_too_large',
];

/** Returns the part of a bundle that the daemon does not have, or null if the whole bundle should be sent. */
async function missingPart(
  connection: Connection,
  pipelineId: string,
  { parts }: Pick<Upload, 'parts'>,
): Promise<MissingPart | null> {
  if (parts === undefined || !isWorthAsking(parts)) return null;
  const { missing, manifest } = await requestMissing(connection, pipelineId, parts);
  if (missing === null) return null;
  const upload = parts.only(new Set(missing));
  const { files, bytes } = upload;
  if (files === parts.files) return null;
  return { upload, manifest, files, bytes, ofFiles: parts.files, ofBytes: parts.bytes };
}

function isWorthAsking({ bytes, manifest }: Parts): boolean {
  return bytes >= minBytes && bytes > 2 * manifest.byteLength;
}

async function requestMissing(
  connection: Connection,
  pipelineId: string,
  { manifest }: Parts,
): Promise<MissingFiles | { missing: null; manifest: '' }> {
  try {
    const answer = await connection.requestJson({
      method: 'POST',
      path: `v1/pipelines/${encodeURIComponent(pipelineId)}/missing`,
      headers: { 'content-type': 'application/json', 'content-length': String(manifest.byteLength) },
      body: async function* () {
        yield manifest;
      },
    });
    return requireShape(answer, missingFiles);
  } catch (error) {
    if (unsupportedCodes.some((code) => hasCode(error, code))) return { missing: null, manifest: '' };
    throw error;
  }
}
