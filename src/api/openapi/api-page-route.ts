import { createHash } from 'node:crypto';
import { renderApiPage } from './api-page.ts';
import type { Route } from '../http/route.ts';
import { sendWithEtag } from '../http/send-with-etag.ts';

/** The OpenAPI document for people. */
export const apiPageRoute: Route = {
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
  handle: (_ports, document) => {
    let page: { html: string; policy: string } | undefined;
    return (_req, res) => {
      page ??= withPolicy(renderApiPage(document()));
      res.set({ 'Cache-Control': 'no-cache', 'Content-Security-Policy': page.policy });
      sendWithEtag(res, 'text/html; charset=utf-8', page.html);
    };
  },
};

/** Nothing but the page's own style may load, and no other site may frame it. */
function withPolicy({ html, style }: { html: string; style: string }): { html: string; policy: string } {
  const hash = createHash('sha256').update(style).digest('base64');
  return {
    html,
    policy: `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}
