import { hasCode, WaybillError } from '../../core/errors.ts';
import type { PartialUpload, RunRecord } from '../generated/api-types.ts';
import type { Ask, Requests } from '../http/connection.ts';
import type { AcceptedRun } from './accepted-run.ts';
import type { Upload } from './upload.ts';

/*
 * The requests of tus 1.0, and what the daemon has beside it. Each names the key of the bundle, so that a
 * balancer can keep them together.
 */

const version = { 'tus-resumable': '1.0.0' };
/** The name in `Upload-Metadata` under which an archive says which one it is. */
const fingerprintName = 'archive';

/** Where the uploads of a bundle are. */
export interface UploadPlace {
  pipelineId: string;
  key: string;
}

/** An upload that the daemon has. */
export interface RemoteUpload {
  id: string;
  /** Where to go on. */
  offset: number;
  /** Null: it is told with the last byte. */
  length: number | null;
}

/**
 * What the daemon has of this very archive, from an earlier process or a lost answer: an upload to go on
 * with, or the run that it has become. A run that has failed, or is forgotten, is none.
 */
export async function findUpload(
  requests: Requests,
  place: UploadPlace,
  fingerprint: string,
): Promise<RemoteUpload | AcceptedRun | null> {
  const query = { idempotency_key: place.key };
  const { body } = await requests.askJson({ ...askOf(place), query });
  for (const upload of (body as { uploads: PartialUpload[] }).uploads) {
    if (upload.metadata?.[fingerprintName] !== fingerprint) continue;
    if (upload.run_id === null) return remoteOf(upload);
    if (await isAlive(requests, upload.run_id))
      return { runId: upload.run_id, position: upload.position, isReplayed: true };
  }
  return null;
}

/** What tells that an archive leaves files out; `partial`: the digest of its manifest. */
export function partialHeader(partial: string | null | undefined): Record<string, string> {
  return partial == null ? {} : { 'waybill-partial': partial };
}

async function isAlive(requests: Requests, runId: string): Promise<boolean> {
  try {
    const { body } = await requests.askJson({ path: `runs/${encodeURIComponent(runId)}` });
    return (body as RunRecord).status !== 'failed';
  } catch (error) {
    if (hasCode(error, 'run_not_found')) return false;
    throw error;
  }
}

/** Begins an upload. */
export async function createUpload(
  requests: Requests,
  place: UploadPlace,
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
  const ask = askOf(place);
  const answer = await requests.ask({
    ...ask,
    method: 'POST',
    query: { rerun_failed: 'true', ...(channel === undefined ? {} : { channel }) },
    headers: {
      ...ask.headers,
      ...(size === undefined ? { 'upload-defer-length': '1' } : { 'upload-length': String(size) }),
      ...(fingerprint === null ? {} : { 'upload-metadata': metadata(fingerprint) }),
      ...partialHeader(partial),
    },
  });
  answer.close();
  // Its path is built anew: a proxy may have another prefix than the daemon knows of.
  const id = answer.headers.location?.split('/').at(-1);
  if (id === undefined || id === '')
    throw new WaybillError('unexpected_answer', 'the daemon began an upload and does not say where');
  return { id, offset: 0, length: size ?? null };
}

/**
 * Where an upload stands, once a request that may still be sending it has ended; or the run that it has
 * become. Throws `upload_locked` while it is handed to the queue.
 */
export async function standingOf(
  requests: Requests,
  place: UploadPlace,
  id: string,
): Promise<RemoteUpload | AcceptedRun> {
  const ask = askOf(place, id);
  let isFree = true;
  try {
    (await requests.ask({ ...ask, method: 'HEAD' })).close();
  } catch (error) {
    // An answer without a body says too little: GET, which disturbs nothing, says the rest.
    if (!hasCode(error, 'unexpected_answer')) throw error;
    isFree = false;
  }
  const upload = await lookAt(requests, place, id);
  if ('runId' in upload || isFree) return upload;
  throw new WaybillError('upload_locked', 'the daemon is still busy with what it has got');
}

/** The same, and disturbs nobody: whoever sends it may go on. */
export async function lookAt(
  requests: Requests,
  place: UploadPlace,
  id: string,
): Promise<RemoteUpload | AcceptedRun> {
  const upload = (await requests.askJson(askOf(place, id))).body as PartialUpload;
  if (upload.run_id === null) return remoteOf(upload);
  return { runId: upload.run_id, position: upload.position, isReplayed: upload.replayed };
}

/** Bytes of an archive, and where they belong. */
export interface Portion {
  offset: number;
  bytes: number;
  body: () => AsyncIterable<Uint8Array>;
  /** Of the archive, with its last portion, if that is not known yet. */
  length: number | null;
}

/** Sends more of an upload; its run, where that was the last of it. */
export async function sendPortion(
  requests: Requests,
  place: UploadPlace,
  id: string,
  { offset, bytes, body, length }: Portion,
): Promise<AcceptedRun | null> {
  const ask = askOf(place, id);
  const answer = await requests.ask({
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
  });
  answer.close();
  const run = answer.headers.location?.split('/').at(-1);
  if (run === undefined) return null;
  const isReplayed = answer.headers['idempotency-replayed'] === 'true';
  return { runId: decodeURIComponent(run), position: await positionOf(requests, ask), isReplayed };
}

/** Nobody fails for it. */
async function positionOf(requests: Requests, ask: Ask): Promise<number | null> {
  try {
    return ((await requests.askJson(ask)).body as PartialUpload).position;
  } catch (error) {
    if (error instanceof WaybillError) return null;
    throw error;
  }
}

function askOf({ pipelineId, key }: UploadPlace, id?: string): Ask {
  const uploads = `v1/pipelines/${encodeURIComponent(pipelineId)}/uploads`;
  return {
    path: id === undefined ? uploads : `${uploads}/${encodeURIComponent(id)}`,
    headers: { ...version, 'idempotency-key': key },
  };
}

function remoteOf({ upload_id: id, offset, length }: PartialUpload): RemoteUpload {
  return { id, offset, length };
}
