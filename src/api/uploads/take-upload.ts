import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { type Digest, parseDigest } from '../../core/lib/digest.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import { flag } from '../../core/lib/parameters.ts';
import type { RunResult } from '../../core/publish/results/result.ts';
import type { Admission } from '../../workers/queue/job-queue.ts';
import { stagingFailure } from '../../workers/staging/staging-check.ts';
import type { Token } from '../http/auth.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { continueIfExpected } from '../http/request/client-connection.ts';
import { withBody } from '../http/request/request-body.ts';
import { keepAuthorized, originOf, requestContext } from '../http/request/request-context.ts';
import { mediaTypeOf } from '../http/request/request-head.ts';
import { takeShare } from '../http/request/shares.ts';
import type { OpenApiParameter } from '../http/route.ts';
import {
  authenticateCaller,
  permitPipeline,
  pipelineAccessProblems,
  requirePipeline,
} from '../pipelines/pipeline-access.ts';
import {
  channelQuery,
  idempotencyOf,
  requireChannel,
  rerunFailed,
  sendAccepted,
} from '../runs/accept-run.ts';
import {
  accept,
  type AcceptedUpload,
  planUpload,
  sendPlan,
  stageFor,
  withStagingDirectory,
} from './staged-upload.ts';
import type { StagedUpload, UploadPipeline, UploadPorts } from './upload-service.ts';

/** How the archive is sent in the request. */
export interface UploadForm {
  mediaTypes: readonly string[];
  /** The number of bytes that multipart headers may add to the archive. */
  envelopeBytes: number;
  /**
   * Returns a function that extracts the archive from the body. If the headers already show that there is
   * none, throws `unsupported_media_type` before anything is read.
   */
  archive: (req: IncomingMessage) => (body: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
  /** Authorizes the request. The default checks the token. */
  authorize?: typeof authorizeUpload;
  /** Sends the response if a run was accepted. The default is JSON. */
  sendAccepted?: typeof sendAccepted;
  /** Sends the response to a dry run. The default is JSON. */
  sendPlan?: (res: ServerResponse, plan: RunResult, req: IncomingMessage) => void | Promise<void>;
}

export const uploadQuery = queryParameters({
  dry_run: flag(false, {
    description:
      'Receives and validates the upload, and returns the plan of its publication. Nothing is published or kept, no run is created, and the Idempotency-Key is not used.',
  }),
  rerun_failed: rerunFailed,
  channel: channelQuery,
});

/** The error codes of an archive that cannot be accepted. */
export const bundleProblems = [
  'malformed_archive',
  'too_many_files',
  'archive_bomb',
  'unsafe_archive_entry',
  'invalid_bundle',
  'signature_missing',
  'signature_invalid',
  'signing_key_untrusted',
  'files_missing',
] as const satisfies readonly ErrorCode[];

/** The error codes that all kinds of uploads have in common. */
export const uploadProblems: readonly ErrorCode[] = [
  ...pipelineAccessProblems,
  'channel_not_found',
  'invalid_request',
  'invalid_idempotency_key',
  'unsupported_media_type',
  'quota_exceeded',
  'queue_full',
  'pipeline_full',
  'queue_unavailable',
  'upload_too_large',
  'idempotency_in_progress',
  ...bundleProblems,
  'idempotency_conflict',
  'insufficient_storage',
  'staging_unavailable',
];

/**
 * Handles the upload of a bundle. Everything that can be checked in the request head is checked before the
 * body is read, in the order documented in docs/http-api.md. The run gets its id only once the bundle has
 * been staged and validated.
 */
export function takeUpload(ports: UploadPorts, form: UploadForm): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipeline, admission, isDryRun, channel, ...body } = await admit(ports, form, req, res);
    try {
      const outcome = await withStagingDirectory<UploadOutcome>(ports, async (directory) => {
        continueIfExpected(req, res);
        const staged = await receive(ports, pipeline, directory, {
          req,
          ...body,
          channel,
          keeps: !isDryRun,
        });
        if (!isDryRun) return accept(ports, pipeline, admission, staged, channel, originOf(req));
        return { isKept: false, plan: await planUpload(req, res, ports, { pipeline, staged, channel }) };
      });
      if ('plan' in outcome) await (form.sendPlan ?? sendPlan)(res, outcome.plan, req);
      else (form.sendAccepted ?? sendAccepted)(req, res, ports.http.basePath, outcome.accepted);
    } catch (error) {
      throw stagingFailure(error);
    } finally {
      await admission.release();
    }
  };
}

interface Admitted {
  pipeline: UploadPipeline;
  admission: Admission;
  archive: ReturnType<UploadForm['archive']>;
  partial: Digest | null;
  isDryRun: boolean;
  channel: string | null;
}

/** Makes all checks that do not need the body, and then reserves a place in the queue. */
async function admit(
  ports: UploadPorts,
  form: UploadForm,
  req: IncomingMessage & { params: { pipelineId: string } },
  res: ServerResponse,
): Promise<Admitted> {
  const { token, pipeline } = (form.authorize ?? authorizeUpload)(req, res, ports);
  const query = uploadQuery.read(req.url ?? '');
  const { dry_run: isDryRun, channel } = query;
  if (channel !== null) requireChannel(pipeline, channel);
  if (isDryRun) Object.assign(requestContext(req), { act: null }).fields['dry_run'] = true;
  const asked = idempotencyOf(req, { caller: token.id, rerunFailed: query.rerun_failed });
  const partial = partialOf(req);
  const archive = openArchive(form, req, res);
  try {
    takeShare(req, res, ports.uploads.archives, 'uploads');
    const admission = await ports.queue.reserve({ pipelineId: pipeline.id, ...(isDryRun ? {} : asked) });
    try {
      checkLength(form, req, pipeline);
    } catch (error) {
      await admission.release();
      throw error;
    }
    return { pipeline, admission, archive, partial, isDryRun, channel };
  } catch (error) {
    // According to the docs, the length is checked between these two, but the queue checks both in a single
    // step.
    if (hasCode(error, 'idempotency_in_progress')) checkLength(form, req, pipeline);
    throw error;
  }
}

function openArchive(
  { mediaTypes, archive }: UploadForm,
  req: IncomingMessage,
  res: ServerResponse,
): ReturnType<UploadForm['archive']> {
  checkMediaType(mediaTypes, req, res);
  try {
    return archive(req);
  } catch (error) {
    res.setHeader('Accept-Post', mediaTypes.join(', '));
    throw error;
  }
}

/**
 * Throws `unsupported_media_type` if the Content-Type is not one of these, or if there is a Content-Encoding.
 */
export function checkMediaType(
  mediaTypes: readonly string[],
  req: IncomingMessage,
  res: ServerResponse,
): void {
  const type = mediaTypeOf(req);
  const isTaken = mediaTypes.includes(type);
  if (isTaken && req.headers['content-encoding'] === undefined) return;
  res.setHeader('Accept-Post', mediaTypes.join(', '));
  if (!isTaken)
    throw new WaybillError(
      'unsupported_media_type',
      type === '' ? 'the request has no Content-Type' : `"${type}" is not a supported type`,
      { hint: `send ${mediaTypes.join(' or ')}` },
    );
  throw new WaybillError('unsupported_media_type', 'a Content-Encoding is not supported', {
    hint: 'send the archive as it is; a .tar.gz is application/gzip',
  });
}

function checkLength({ envelopeBytes }: UploadForm, req: IncomingMessage, pipeline: UploadPipeline): void {
  const length = Number(req.headers['content-length'] ?? 0);
  if (length <= pipeline.maxUploadSize + envelopeBytes) return;
  throw new WaybillError(
    'upload_too_large',
    `the body has ${length} bytes, and this pipeline accepts at most ${pipeline.maxUploadSize}`,
    {
      hint: 'split the bundle, or ask the administrator to raise max_upload_size',
    },
  );
}

function receive(
  ports: UploadPorts,
  pipeline: UploadPipeline,
  directory: string,
  {
    req,
    archive,
    channel,
    ...asked
  }: Pick<Admitted, 'archive' | 'partial' | 'channel'> & { req: IncomingMessage; keeps: boolean },
): Promise<StagedUpload> {
  return withBody(req, ports, ({ chunks, signal }) =>
    stageFor(ports.uploads, pipeline, channel, { input: archive(chunks), directory, signal, ...asked }),
  );
}

type UploadOutcome = AcceptedUpload | { isKept: false; plan: RunResult };

/**
 * Authorizes an upload to the pipeline in the path, whether it is plain or resumable. Throws the same errors
 * as `authorizeConfigured`.
 */
export function authorizeUpload(
  req: IncomingMessage & { params: { pipelineId: string } },
  res: ServerResponse,
  { configured, clock }: Pick<UploadPorts, 'configured' | 'clock'>,
): { token: Token; pipeline: UploadPipeline } {
  return keepAuthorized(req, () => {
    const { pipelineId: id } = req.params;
    const access = configured.get();
    const token = authenticateCaller(req, res, access, clock);
    const found = access.uploadPipelines.get(id);
    const pipeline = requirePipeline(found, 'there is no such pipeline, or it accepts no uploads');
    requestContext(req).fields['pipeline_id'] = id;
    permitPipeline(res, token, { id, scope: 'upload', adminToken: null });
    return { token, pipeline };
  });
}

export const partialParameter: OpenApiParameter = {
  name: 'Waybill-Partial',
  in: 'header',
  description:
    'SHA-256 of the exact bytes of `manifest.json` in the archive. The archive can then omit files that the manifest declares with a digest and that the daemon keeps from earlier uploads to the pipeline. `POST …/missing` lists the files that the daemon does not keep.',
  schema: {
    description: '`sha256:` and 64 hexadecimal digits.',
    type: 'string',
    pattern: '^sha256:[0-9a-f]{64}$',
  },
};

/**
 * Returns the digest of the manifest if the archive is partial, or null if it is complete. Throws
 * `invalid_request` if the header is invalid.
 */
export function partialOf(req: IncomingMessage): Digest | null {
  const values = req.headersDistinct['waybill-partial'];
  if (values === undefined) return null;
  const [value = ''] = values;
  const digest = values.length === 1 ? parseDigest(value) : undefined;
  if (digest !== undefined) return digest;
  throw new WaybillError('invalid_request', 'Waybill-Partial must be the digest of one manifest', {
    hint: 'send sha256: and the 64 hexadecimal digits of the SHA-256 of manifest.json',
  });
}
