import { type RequestHandler, Router } from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import { prefersPage } from '../http/answer/negotiate.ts';
import { sendCompressed } from '../http/answer/send-compressed.ts';
import { sendWithEtag, type TaggedAnswer, taggedAnswer } from '../http/answer/send-with-etag.ts';
import type { HttpPorts } from '../http/http-app.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { Handler, Route } from '../http/route.ts';
import { createRouter } from '../http/router.ts';
import { type Asset, assetOfFile } from './assets.ts';
import { publicPage } from './send-page.ts';
import type { Site } from './site.ts';

/**
 * A route that people open in a browser. It is not part of the OpenAPI document. If it fails, clients that
 * prefer HTML get an error page.
 */
export interface PageRoute<Ports> extends Pick<
  Route<Ports>,
  'method' | 'path' | 'isPresent' | 'isProbe' | 'audit'
> {
  /** Creates the handlers. Called once. */
  handle: (ports: Ports) => Handler | readonly Handler[];
}

/** Serves the pages below the base path. Methods that a page does not support get a 405. */
export function servePages<Ports extends HttpPorts>(
  pages: readonly PageRoute<Ports>[],
  ports: Ports,
): RequestHandler {
  return Router({ caseSensitive: true }).use(ports.http.basePath, createRouter(pages, ports, 'console'));
}

const answers = new WeakMap<Asset, TaggedAnswer>();

/** Serves stylesheets, scripts and fonts. Their file names contain a hash of the content. */
export const assetsPage: PageRoute<HttpPorts> = {
  method: 'get',
  path: '/assets/{asset}',
  isProbe: true,
  handle: () => (req: Parameters<typeof sendCompressed>[0] & { params: { asset: string } }, res) => {
    const asset = assetOfFile(req.params.asset);
    if (asset === undefined)
      throw new WaybillError('not_found', 'there is no such stylesheet, script or font', {
        hint: 'load the page again: it may be of another version of waybill',
      });
    const answer = answerOf(asset);
    if (asset.mediaType !== 'font/woff2') return sendCompressed(req, res, answer);
    // WOFF2 is compressed already.
    sendWithEtag(req, res, answer);
    return undefined;
  },
};

function answerOf(asset: Asset): TaggedAnswer {
  let answer = answers.get(asset);
  if (answer === undefined) {
    answer = taggedAnswer(asset.mediaType, asset.body, {
      headers: { 'Cache-Control': 'public, max-age=31536000, immutable' },
      vary: 'Accept-Encoding',
    });
    answers.set(asset, answer);
  }
  return answer;
}

/**
 * Serves the landing page at the base path to clients that prefer HTML; all others get a 404. The page links
 * to the parts of the site, and contains nothing that requires a token.
 */
export function landingPage(site: Site): RequestHandler {
  let answer: TaggedAnswer | undefined;
  return (req, res, next) => {
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    if (!isRead || req.path !== site.basePath || !prefersPage(req.headers.accept)) {
      next();
      return;
    }
    Object.assign(requestContext(req), { route: '/' });
    answer ??= publicPage(site, {
      title: 'Start',
      template: 'pages/landing',
      styles: ['landing'],
      scripts: ['landing'],
      ...(site.nav.some(({ id }) => id === 'console') ? { login: `${site.basePath}console/login` } : {}),
      view: {
        parts: site.nav
          .filter(({ about }) => about !== undefined)
          .map(({ label, path, about }) => ({ label, about, href: `${site.basePath}${path}` })),
      },
    });
    sendCompressed(req, res, answer).catch(next);
  };
}
