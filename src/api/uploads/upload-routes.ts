import { pipelineIdParameter, type Route } from '../http/route.ts';
import { acceptedResponse, idempotencyKeyParameter } from '../runs/accept-run.ts';
import { formArchive, formPart } from './form-archive.ts';
import { planResponse } from './staged-upload.ts';
import { partialParameter, takeUpload, type UploadForm, uploadProblems, uploadQuery } from './take-upload.ts';
import type { UploadPorts } from './upload-service.ts';

const raw: UploadForm = {
  mediaTypes: ['application/x-tar', 'application/gzip', 'application/x-gzip'],
  envelopeBytes: 0,
  archive: () => (body) => body,
};

export const uploadRoute: Route<UploadPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/upload',
  operationId: 'uploadBundle',
  tag: 'uploads',
  summary: 'Upload a bundle',
  description:
    'Takes a tar or tar.gz archive with `manifest.json` at its root and every file that it lists. The response is sent once the bundle is staged and valid. The publication continues afterwards.',
  access: 'token',
  scopes: ['upload'],
  isTraced: true,
  parameters: [pipelineIdParameter, ...uploadQuery.parameters, idempotencyKeyParameter, partialParameter],
  body: {
    description: 'The archive.',
    required: true,
    content: Object.fromEntries(raw.mediaTypes.map((type) => [type, {}])),
  },
  responses: { 200: planResponse, 202: acceptedResponse },
  problems: uploadProblems,
  audit: 'upload',
  handle: (ports) => takeUpload(ports, raw),
};

const form: UploadForm = {
  mediaTypes: ['multipart/form-data'],
  // Enough for two boundaries and the headers of one part.
  envelopeBytes: 64 * 1024,
  archive: ({ headers }) => formArchive(headers),
};

/** Accepts an upload as a form with a single file, which is what browsers send with `new FormData()`. */
export const uploadFormRoute: Route<UploadPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/upload/form',
  operationId: 'uploadBundleForm',
  tag: 'uploads',
  summary: 'Upload a bundle from a form',
  description: `Like the upload above, with the archive as the form file \`${formPart}\`, of any media type.`,
  access: 'token',
  scopes: ['upload'],
  isTraced: true,
  parameters: [pipelineIdParameter, ...uploadQuery.parameters, idempotencyKeyParameter, partialParameter],
  body: {
    description: 'The form.',
    required: true,
    content: {
      'multipart/form-data': {
        schema: {
          type: 'object',
          additionalProperties: false,
          required: [formPart],
          properties: { [formPart]: { type: 'string', contentMediaType: 'application/octet-stream' } },
        },
      },
    },
  },
  responses: { 200: planResponse, 202: acceptedResponse },
  problems: uploadProblems,
  audit: 'upload',
  handle: (ports) => takeUpload(ports, form),
};
