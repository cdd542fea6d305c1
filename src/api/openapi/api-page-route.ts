import { createHash } from 'node:crypto';
import { renderApiPage } from './api-page.ts';
import { openApiDocument } from './document.ts';
import type { HttpPorts } from '../http/app.ts';
import type { Route } from '../http/route.ts';
import { sendWithEtag, taggedAnswer, type TaggedAnswer } from '../http/answer/send-with-etag.ts';

/** The OpenAPI document for people. */
export const apiPageRoute: Route<Pick<HttpPorts, 'http'>> = {
  method: 'get',
  path: '/docs',
  operationId: 'getApiPage',
  tag: 'daemon',
  summary: 'This document as a page',
  description: 'HTML without script and without anything from outside. Needs no token.',
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
  handle: ({ http }, served) => {
    let answer: TaggedAnswer | undefined;
    return (req, res) => {
      answer ??= pageAnswer(renderApiPage(openApiDocument(served, http.basePath)));
      sendWithEtag(req, res, answer);
    };
  },
};

/** Its policy: nothing but the page's own style may load, and no other site may frame it. */
function pageAnswer({ html, style }: { html: string; style: string }): TaggedAnswer {
  const hash = createHash('sha256').update(style).digest('base64');
  return taggedAnswer('text/html; charset=utf-8', html, {
    headers: {
      'Cache-Control': 'no-cache',
      'Content-Security-Policy': `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    },
  });
}
