import { hasCode, WaybillError } from '../core/lib/errors.ts';
import { partialUpload, requireShape, runRecord, unexpectedAnswer, uploadList } from './answers.ts';
import type { Upload } from './archive.ts';
import type { ApiRequest, RequestSender } from './connection.ts';
import type { PartialUpload } from './generated/api-types.ts';
import type { AcceptedRun } from './runs.ts';

/*
 * The requests used for resumable uploads: tus 1.0 plus extensions. They all include the bundle's key, so
 * that a load balancer can send them to the same daemon.
 */

const version = { 'tus-resumable': '1.0.0' };
/** The key for the archive's fingerprint in `Upload-Metadata`. */
const fingerprintName = 'archive';

/** Identifies the uploads of a bundle. */
export interface UploadKey {
  pipelineId: string;
  key: string;
}

/** An upload that the daemon has received part of. */
export interface RemoteUpload {
  id: string;
  /** The offset at which to continue. */
  offset: number;
  /** The archive's length. null if it is not sent until the last byte. */
  length: number | null;
}

/**
 * Looks for an upload of this archive that was started by an earlier process, or whose response got lost. If
 * there is one, returns the upload so that it can be resumed, or its run if it is complete. Returns null if
 * there is not one, or if its run has failed or is unknown.
 */
export async function findUpload(
  requests: RequestSender,
  place: UploadKey,
  fingerprint: string,
): Promise<RemoteUpload | AcceptedRun | null> {
  const query = { idempotency_key: place.key };
  const answer = await requests.requestJson({ ...uploadRequest(place), query });
  for (const upload of requireShape(answer, uploadList).uploads) {
    if (upload.metadata?.[fingerprintName] !== fingerprint) continue;
    if (upload.run_id === null) return toRemoteUpload(upload);
    if (await hasNotFailed(requests, upload.run_id))
      return { runId: upload.run_id, position: upload.position, isReplayed: true };
  }
  return null;
}

/**
 * Returns the header for an archive from which files have been left out. `partial` is the digest of its
 * manifest.
 */
export function partialHeader(partial: string | null | undefined): Record<string, string> {
  return partial == null ? {} : { 'waybill-partial': partial };
}

async function hasNotFailed(requests: RequestSender, runId: string): Promise<boolean> {
  try {
    const answer = await requests.requestJson({ path: `runs/${encodeURIComponent(runId)}` });
    return requireShape(answer, runRecord).status !== 'failed';
  } catch (error) {
    if (hasCode(error, 'run_not_found')) return false;
    throw error;
  }
}

export async function createUpload(
  requests: RequestSender,
  place: UploadKey,
  {
    size,
    fingerprint,
    partial = null,
    channel,
  }: Pick<Upload, 'size'> & {
    fingerprint: string | null;
    partial?: string | null;
    channel?: string | undefined;
  },
): Promise<RemoteUpload> {
  const metadata = (value: string): string =>
    `${fingerprintName} ${Buffer.from(value, 'utf8').toString('base64')}`;
  const ask = uploadRequest(place);
  const answer = await requests.request({
    ...ask,
    method: 'POST',
    query: { rerun_failed: 'true', channel },
    headers: {
      ...ask.headers,
      ...(size === undefined ? { 'upload-defer-length': '1' } : { 'upload-length': String(size) }),
      ...(fingerprint === null ? {} : { 'upload-metadata': metadata(fingerprint) }),
      ...partialHeader(partial),
    },
  });
  answer.close();
  // Only use the id, because if there is a proxy, the daemon may be at a different path.
  const id = answer.headers.location?.split('/').at(-1);
  if (id === undefined || id === '') throw unexpectedAnswer(answer.url, 'has no Location of the upload');
  return { id, offset: 0, length: size ?? null };
}

/**
 * Returns the progress of an upload, or its run. The HEAD request makes the daemon abort any other request
 * still sending this upload. Throws `upload_locked` while the daemon is processing the upload.
 */
export async function claimUpload(
  requests: RequestSender,
  place: UploadKey,
  id: string,
): Promise<RemoteUpload | AcceptedRun> {
  const ask = uploadRequest(place, id);
  let isFree = true;
  try {
    (await requests.request({ ...ask, method: 'HEAD' })).close();
  } catch (error) {
    // There are no details in the response to HEAD. GET has them, and no side effects.
    if (!hasCode(error, 'unexpected_answer')) throw error;
    isFree = false;
  }
  const upload = await fetchUpload(requests, place, id);
  if ('runId' in upload || isFree) return upload;
  throw new WaybillError('upload_locked', 'the daemon is still processing this upload');
}

/** Like `claimUpload`, but does not interfere with a request that is sending this upload. */
export async function fetchUpload(
  requests: RequestSender,
  place: UploadKey,
  id: string,
): Promise<RemoteUpload | AcceptedRun> {
  const answer = await requests.requestJson(uploadRequest(place, id));
  const upload: PartialUpload = requireShape(answer, partialUpload);
  if (upload.run_id === null) return toRemoteUpload(upload);
  return { runId: upload.run_id, position: upload.position, isReplayed: upload.replayed };
}

/** A range of the archive's bytes. */
interface UploadPatch {
  offset: number;
  bytes: number;
  body: () => AsyncIterable<Uint8Array>;
  /** The length of the archive. Set in the last portion, unless the daemon already knows the length. */
  length: number | null;
}

/** Sends part of an upload. After the last part, returns the run, and until then null. */
export async function patchUpload(
  requests: RequestSender,
  place: UploadKey,
  id: string,
  { offset, bytes, body, length }: UploadPatch,
): Promise<AcceptedRun | null> {
  const ask = uploadRequest(place, id);
  const answer = await requests.request({
    ...ask,
    method: 'PATCH',
    headers: {
      ...ask.headers,
      'content-type': 'application/offset+octet-stream',
      'content-length': String(bytes),
      'upload-offset': String(offset),
      ...(length === null ? {} : { 'upload-length': String(length) }),
    },
    body,
    // The daemon keeps the bytes that arrived before a token expired, so that the offset is another one.
    isRepeatable: false,
  });
  answer.close();
  const run = answer.headers.location?.split('/').at(-1);
  if (run === undefined) return null;
  const isReplayed = answer.headers['idempotency-replayed'] === 'true';
  return { runId: decodeURIComponent(run), position: await fetchPosition(requests, ask), isReplayed };
}

/** Returns the position in the queue. It is just for information, so returns null if the request fails. */
async function fetchPosition(requests: RequestSender, ask: ApiRequest): Promise<number | null> {
  try {
    return requireShape(await requests.requestJson(ask), partialUpload).position;
  } catch (error) {
    if (error instanceof WaybillError) return null;
    throw error;
  }
}

function uploadRequest({ pipelineId, key }: UploadKey, id?: string): ApiRequest {
  const uploads = `v1/pipelines/${encodeURIComponent(pipelineId)}/uploads`;
  return {
    path: id === undefined ? uploads : `${uploads}/${encodeURIComponent(id)}`,
    headers: { ...version, 'idempotency-key': key },
  };
}

function toRemoteUpload({ upload_id: id, offset, length }: PartialUpload): RemoteUpload {
  return { id, offset, length };
}
