import type { RequestHandler } from 'express';
import { manifestName, parseManifest } from '../../core/bundle/manifest.ts';
import { invalidBundle } from '../../core/bundle/source-bundle.ts';
import { digestOf } from '../../core/lib/digest.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { type MemoryBodyPorts, readBody } from '../http/request/request-body.ts';
import { jsonContent, pipelineIdParameter, type Route } from '../http/route.ts';
import { pipelineAccessProblems } from '../pipelines/pipeline-access.ts';
import { authorizeUpload, checkMediaType } from './take-upload.ts';
import type { UploadPorts } from './upload-service.ts';

export type MissingPorts = Pick<UploadPorts, 'configured' | 'uploads' | keyof MemoryBodyPorts>;

/**
 * In bytes. The limit is lower than for a manifest in an archive, because this body is held in memory. A
 * manifest with 50,000 files takes up about 10 MiB.
 */
export const maxMissingBytes = 16 * 1024 * 1024;

const mediaTypes = ['application/json'];

const problems: readonly ErrorCode[] = [
  ...pipelineAccessProblems,
  'unsupported_media_type',
  'upload_too_large',
  'too_many_files',
  'invalid_bundle',
  'server_busy',
];

export const missingRoute: Route<MissingPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/missing',
  operationId: 'findMissing',
  tag: 'uploads',
  summary: 'List missing files',
  description:
    'Takes a manifest and returns the digests of files that the daemon does not keep from earlier uploads to this pipeline. An upload with `Waybill-Partial` can omit all other files. The route does not exist if the daemon keeps no files (`server.staging.keep.size: 0`).',
  access: 'token',
  scopes: ['upload'],
  parameters: [pipelineIdParameter],
  body: {
    description: '`manifest.json` of the bundle, byte for byte.',
    required: true,
    content: Object.fromEntries(mediaTypes.map((type) => [type, {}])),
  },
  responses: {
    200: {
      description: 'Digests of the files to send.',
      content: jsonContent('MissingFiles'),
    },
  },
  problems,
  isPresent: ({ uploads }) => uploads.content.isEnabled,
  audit: { none: 'it reads only' },
  handle: (ports) => sendMissing(ports),
};

function sendMissing(ports: MissingPorts): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipeline } = authorizeUpload(req, res, ports);
    checkMediaType(mediaTypes, req, res);
    const bytes = await readBody(req, res, ports, { maxBytes: maxMissingBytes, tooLong });
    const { manifest, findings } = parseManifest(bytes, manifestName, pipeline.maxFiles);
    if (manifest === null) throw invalidBundle('the manifest', findings);
    if (manifest.files.length > pipeline.maxFiles) throw tooMany(manifest.files.length, pipeline.maxFiles);
    const digests = new Set(manifest.files.flatMap(({ digest }) => digest ?? []));
    res.json({
      manifest: digestOf(bytes),
      missing: ports.uploads.content.missing(pipeline.id, [...digests]),
    });
  };
}

function tooLong(): WaybillError {
  return new WaybillError(
    'upload_too_large',
    `a manifest of at most ${maxMissingBytes} bytes is compared here`,
    {
      hint: 'upload the bundle as a whole',
    },
  );
}

function tooMany(count: number, maximum: number): WaybillError {
  return new WaybillError(
    'too_many_files',
    `the manifest lists ${count} files, and this pipeline accepts ${maximum}`,
    {
      hint: 'split the bundle, or ask the administrator to raise max_files',
    },
  );
}
