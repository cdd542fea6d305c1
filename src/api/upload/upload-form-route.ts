import { formArchive, formPart } from './form-archive.ts';
import { idempotencyKeyParameter } from '../runs/idempotency-key.ts';
import { acceptedResponse } from '../runs/accepted-response.ts';
import { pipelineIdParameter } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';
import type { UploadPorts } from './ports.ts';
import { partialParameter } from './partial-header.ts';
import { planResponse } from './plan-upload.ts';
import { takeUpload, uploadProblems, uploadQuery, type UploadForm } from './take-upload.ts';

const form: UploadForm = {
  mediaTypes: ['multipart/form-data'],
  // Two boundaries and the headers of one part.
  envelopeBytes: 64 * 1024,
  archive: ({ headers }) => formArchive(headers),
};

/** The same for what browsers can send: `new FormData()` with one file. */
export const uploadFormRoute: Route<UploadPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/upload/form',
  operationId: 'uploadBundleForm',
  tag: 'uploads',
  summary: 'Upload one bundle from a browser',
  description: `A form with one file, named \`${formPart}\`: the archive of the operation above, whatever type the browser gives it. All else is as there.`,
  access: 'token',
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
  handle: (ports) => takeUpload(ports, form),
};
