import type { RequestHandler } from 'express';
import { prefersPage } from '../http/answer/negotiate.ts';
import type { TaggedAnswer } from '../http/answer/send-with-etag.ts';
import { requestContext } from '../http/request/request-context.ts';
import { publicPage, sendPublic } from './send-page.ts';
import type { Site } from './site.ts';

/**
 * At the base path, for whoever takes HTML; for everybody else there is nothing there. It says what this is
 * and where to go, and nothing about this daemon that needs a token.
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
      view: {
        parts: site.nav.map(({ label, path, about }) => ({ label, about, href: `${site.basePath}${path}` })),
      },
    });
    sendPublic(req, res, answer).catch(next);
  };
}
