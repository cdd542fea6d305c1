import { sendCompressed } from '../http/answer/send-compressed.ts';
import { type TaggedAnswer, taggedAnswer } from '../http/answer/send-with-etag.ts';
import type { HttpPorts } from '../http/http-app.ts';
import { jsonContent, type Route } from '../http/route.ts';
import { publicPage } from '../pages/send-page.ts';
import { siteOf } from '../pages/site.ts';
import { apiPage } from './api-page.ts';
import { openApiDocument } from './document.ts';

export const openApiRoute: Route<Pick<HttpPorts, 'http'>> = {
  method: 'get',
  path: '/openapi.json',
  operationId: 'getOpenApi',
  tag: 'daemon',
  summary: 'Get the OpenAPI document',
  description: 'OpenAPI 3.1, with the base path of this daemon. Needs no token.',
  access: 'open',
  responses: {
    200: {
      description: 'The document.',
      headers: {
        ETag: { description: 'Entity tag of the document.', required: true, schema: { type: 'string' } },
      },
      content: jsonContent({ type: 'object', required: ['openapi', 'info', 'paths'] }),
    },
    304: { description: 'The document has not changed.' },
  },
  problems: [],
  handle: ({ http }, served) => {
    let answer: TaggedAnswer | undefined;
    return (req, res) => {
      const text = (): string => JSON.stringify(openApiDocument(served, http.basePath));
      answer ??= taggedAnswer('application/json; charset=utf-8', text(), {
        headers: { 'Cache-Control': 'no-cache' },
        vary: 'Accept-Encoding',
      });
      return sendCompressed(req, res, answer);
    };
  },
};

export const apiPageRoute: Route<Parameters<typeof siteOf>[0]> = {
  method: 'get',
  path: '/docs',
  operationId: 'getApiPage',
  tag: 'daemon',
  summary: 'Get the API reference page',
  description: 'HTML without external resources. Works without JavaScript. Needs no token.',
  access: 'open',
  responses: {
    200: {
      description: 'The page.',
      headers: {
        ETag: { description: 'Entity tag of the page.', required: true, schema: { type: 'string' } },
      },
      content: { 'text/html': { schema: { type: 'string' } } },
    },
    304: { description: 'The page has not changed.' },
  },
  problems: [],
  handle: (ports, served) => {
    let answer: TaggedAnswer | undefined;
    return (req, res) => {
      const page = (): TaggedAnswer =>
        publicPage(siteOf(ports), apiPage(openApiDocument(served, ports.http.basePath)));
      return sendCompressed(req, res, (answer ??= page()));
    };
  },
};
