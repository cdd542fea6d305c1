import { jsonContent } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';
import { sendWithEtag } from '../http/send-with-etag.ts';

/** The document that is made of the routes themselves. */
export const openApiRoute: Route = {
  method: 'get',
  path: '/openapi.json',
  operationId: 'getOpenApi',
  tag: 'daemon',
  summary: 'This document',
  description: 'OpenAPI 3.1 with the base path under which this daemon answers. Needs no token.',
  access: 'open',
  responses: {
    200: {
      description: 'The document.',
      headers: { ETag: { description: 'Of the document.', required: true, schema: { type: 'string' } } },
      content: jsonContent({ type: 'object', required: ['openapi', 'info', 'paths'] }),
    },
    304: { description: 'The document is as it was.' },
  },
  problems: [],
  handle: (_ports, document) => (_req, res) => {
    res.setHeader('Cache-Control', 'no-cache');
    sendWithEtag(res, 'application/json; charset=utf-8', JSON.stringify(document()));
  },
};
