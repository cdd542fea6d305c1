import { idempotencyKeyParameter } from '../runs/idempotency-key.ts';
import { acceptedResponse } from '../runs/accepted-response.ts';
import { pipelineIdParameter } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';
import type { UploadPorts } from './ports.ts';
import { partialParameter } from './partial-header.ts';
import { planResponse } from './plan-upload.ts';
import { takeUpload, uploadProblems, uploadQuery, type UploadForm } from './take-upload.ts';

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
  summary: 'Upload one bundle',
  description:
    'A tar or tar.gz archive with one `manifest.json` at its root and every file that it lists. Answered once the bundle is staged and found valid; publishing goes on after it.',
  access: 'token',
  isTraced: true,
  parameters: [pipelineIdParameter, ...uploadQuery.parameters, idempotencyKeyParameter, partialParameter],
  body: {
    description: 'The archive, as it is.',
    required: true,
    content: Object.fromEntries(raw.mediaTypes.map((type) => [type, {}])),
  },
  responses: { 200: planResponse, 202: acceptedResponse },
  problems: uploadProblems,
  handle: (ports) => takeUpload(ports, raw),
};
