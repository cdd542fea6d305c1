import { hasCode } from '../../core/lib/errors.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { MissingFiles } from '../generated/api-types.ts';
import type { Connection } from '../http/connection.ts';
import type { Parts, Upload } from './upload.ts';

/*
 * Sends only the files that the daemon does not have.
 */

/** An archive without the files that the daemon has. */
export interface MissingPart {
  upload: Upload;
  /** Digest of its manifest. */
  manifest: string;
  /** The number and total size of the files to send. */
  files: number;
  bytes: number;
  /** The number and total size of all files of the bundle. */
  ofFiles: number;
  ofBytes: number;
}

/** For smaller bundles, the additional request costs as much as it saves. */
const minBytes = 64 << 10;

/**
 * Errors of a daemon that is older or keeps no files, and of a proxy that rejects a manifest of this size.
 */
const refusals: readonly ErrorCode[] = [
  'not_found',
  'method_not_allowed',
  'unexpected_answer',
  'upload_too_large',
];

/** The part of a bundle that the daemon does not have; null if the whole bundle should be sent. */
export async function missingPart(
  connection: Connection,
  pipelineId: string,
  { parts }: Pick<Upload, 'parts'>,
): Promise<MissingPart | null> {
  if (parts === undefined || !isWorthAsking(parts)) return null;
  const { missing, manifest } = await ask(connection, pipelineId, parts);
  if (missing === null) return null;
  const upload = parts.only(new Set(missing));
  const { files, bytes } = upload;
  if (files === parts.files) return null;
  return { upload, manifest, files, bytes, ofFiles: parts.files, ofBytes: parts.bytes };
}

function isWorthAsking({ bytes, manifest }: Parts): boolean {
  return bytes >= minBytes && bytes > 2 * manifest.byteLength;
}

async function ask(
  connection: Connection,
  pipelineId: string,
  { manifest }: Parts,
): Promise<MissingFiles | { missing: null; manifest: '' }> {
  try {
    const { body } = await connection.askJson({
      method: 'POST',
      path: `v1/pipelines/${encodeURIComponent(pipelineId)}/missing`,
      headers: { 'content-type': 'application/json', 'content-length': String(manifest.byteLength) },
      body: async function* () {
        yield manifest;
      },
    });
    return body as MissingFiles;
  } catch (error) {
    if (refusals.some((code) => hasCode(error, code))) return { missing: null, manifest: '' };
    throw error;
  }
}
