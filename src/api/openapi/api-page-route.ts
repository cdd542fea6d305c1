import type { Route } from '../http/route.ts';
import type { TaggedAnswer } from '../http/answer/send-with-etag.ts';
import { publicPage, sendPublic } from '../pages/send-page.ts';
import { siteOf } from '../site-of.ts';
import { apiPage } from './api-page.ts';
import { openApiDocument } from './document.ts';

/** The OpenAPI document for people. */
export const apiPageRoute: Route<Parameters<typeof siteOf>[0]> = {
  method: 'get',
  path: '/docs',
  operationId: 'getApiPage',
  tag: 'daemon',
  summary: 'This document as a page',
  description: 'HTML with nothing from outside, of use without script. Needs no token.',
  access: 'open',
  responses: {
    200: {
      description: 'The page.',
      headers: { ETag: { description: 'Of the page.', required: true, schema: { type: 'string' } } },
      content: { 'text/html': { schema: { type: 'string' } } },
    },
    304: { description: 'The page is as it was.' },
  },
  problems: [],
  handle: (ports, served) => {
    let answer: TaggedAnswer | undefined;
    return (req, res) => {
      const page = (): TaggedAnswer =>
        publicPage(siteOf(ports), apiPage(openApiDocument(served, ports.http.basePath)));
      return sendPublic(req, res, (answer ??= page()));
    };
  },
};
