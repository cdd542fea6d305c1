import type { ServerResponse } from 'node:http';
import { describeFinding } from '../../core/lib/errors.ts';
import type { ProblemPage } from '../http/answer/problem.ts';
import { type TaggedAnswer, taggedAnswer } from '../http/answer/send-with-etag.ts';
import { parameterProblems } from './parameter-problems.ts';
import { consolePlaceOf, hasOwnWords, namedWordsOf, refusalOf } from './problem-words.ts';
import { type Crumb, type Page, renderPage } from './render-page.ts';
import type { Site } from './site.ts';

/** Pages may only load resources from their own host, and use no inline scripts or styles. */
const policy = [
  "default-src 'none'",
  "style-src 'self'",
  "script-src 'self'",
  "font-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

/** Browser features that the pages do not need. */
const permissions = ['camera', 'display-capture', 'geolocation', 'microphone', 'payment', 'serial', 'usb']
  .map((feature) => `${feature}=()`)
  .join(', ');

/** The headers for every page, apart from the ones for caching. */
const pageHeaders: Readonly<Record<string, string>> = {
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': permissions,
  // URLs can contain the names of runs and bundles, which may be private, so do not send them to other hosts.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
};

/**
 * Sends a page that must not be cached, because it belongs to a session or a moment in time. It is not
 * compressed either: since pages may contain text chosen by an attacker, their compressed size could leak
 * secrets.
 */
export function sendPage(res: ServerResponse, site: Site, page: Page, { status = 200 } = {}): void {
  const body = Buffer.from(renderPage(site, page));
  res.statusCode = status;
  for (const [name, value] of Object.entries(pageHeaders)) res.setHeader(name, value);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('Content-Type', 'text/html; charset=utf-8');
  res.setHeader('Content-Length', body.length);
  res.end(body);
}

/**
 * Renders a page that clients may cache and revalidate. If `vary` is given, the page depends on that request
 * header and on nothing else about the client.
 */
export function publicPage(
  site: Site,
  page: Page,
  { vary, headers = {} }: { vary?: string; headers?: Readonly<Record<string, string>> } = {},
): TaggedAnswer {
  return taggedAnswer('text/html; charset=utf-8', renderPage(site, page), {
    headers: { ...pageHeaders, 'Cache-Control': 'no-cache', ...headers },
    vary: ['Accept', 'Accept-Encoding', ...(vary === undefined ? [] : [vary])].join(', '),
  });
}

/**
 * Renders an error as an HTML page. The page has the same code, status, hint and request id as the JSON
 * document.
 */
export function problemPage(site: Site): ProblemPage {
  return ({ title, status, code, detail, hint, instance, retryable, findings = [] }, request, account) => {
    const { path } = request;
    // `detail` already ends with the hint, but the page shows it separately.
    const message = hint === undefined ? detail : detail.slice(0, -`; ${hint}`.length);
    const words = namedWordsOf({ code, status, title }, path);
    const isMissing = message === 'there is nothing under this path';
    const isRefused = status === 403 && account !== undefined && !hasOwnWords(code);
    const place = isRefused ? consolePlaceOf(path) : null;
    const heading = place === null ? words.heading : refusalOf(place);
    const parameters = parameterProblems(findings, request);
    const html = renderPage(site, {
      title: heading,
      template: isRefused ? 'pages/denied' : 'pages/problem',
      scripts: ['copy'],
      ...(isRefused ? { styles: ['console'], crumbs: crumbsTo(site, place ?? words.heading) } : {}),
      ...(code === 'station_not_found' ? { styles: ['weather'], nav: 'weather' } : {}),
      ...(account === undefined ? {} : { account, nav: 'console' }),
      view: {
        ...words,
        heading,
        ...parameters,
        next: site.nav.find(({ id }) => id === words.next) ?? site.nav[0] ?? null,
        hasSearch: code === 'station_not_found',
        // The login page returns to this address, but a form's address cannot be opened.
        login: isRefused ? loginPath(site, path) : null,
        account: account ?? null,
        title,
        status,
        code,
        path,
        retryable,
        message: asSentence(message),
        hint: hint === undefined ? null : asSentence(hint),
        // The message for programs is the reason, unless it only repeats the heading.
        isReason: status < 500 && !hasOwnWords(code) && !isMissing && parameters === null,
        // A sentence does not repeat a very long address. The details have all of it.
        isMissing: isMissing && path.length <= 200,
        requestId: instance.replace(/^urn:uuid:/, ''),
        findings: parameters === null ? findings.map(describeFinding) : [],
      },
    });
    return { html, headers: pageHeaders };
  };
}

function loginPath({ basePath }: Site, next: string): string {
  return `${basePath}console/login?${new URLSearchParams({ switch: 'yes', next }).toString()}`;
}

function crumbsTo({ basePath }: Site, label: string): Crumb[] {
  return [{ label: 'Console', href: `${basePath}console` }, { label }];
}

function asSentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, '')}.`;
}
