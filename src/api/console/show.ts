import type { Crumb } from '../pages/render-page.ts';
import { sendPage } from '../pages/send-page.ts';
import { flashOf, paths } from './paths.ts';
import { accountOf, type Visit } from './visit.ts';

/** The content of a console page. */
export interface ConsolePage {
  title: string;
  /** Path relative to `templates/console`. */
  template: string;
  view: Readonly<Record<string, unknown>>;
  /** The breadcrumbs that follow the overview, ending with this page. Paths are relative to the base path. */
  crumbs?: readonly { label: string; path?: string }[];
  /** The query for `console/events`, if the page should reload when runs change. Default: none. */
  follows?: Readonly<Record<string, string>>;
  /** True if the page is about to change. Browsers without JavaScript then reload it periodically. */
  isMoving?: boolean;
  isWide?: boolean;
  /** The navigation entry to highlight. Default: `console`. */
  nav?: string;
  scripts?: readonly string[];
  status?: number;
  /** A message to show above the content, instead of the one from the URL's query. */
  flash?: string;
}

/** Renders a page in the console's layout and sends it to the visitor. */
export function show<Params>(visit: Visit<Params>, page: ConsolePage): void {
  const { req, res, visitor, parts, refusal = null } = visit;
  const { site, clock, http } = parts;
  const { basePath } = http;
  const { title, template, view, crumbs = [], follows, isWide = false } = page;
  // If a form was rejected, the URL is the form's action, which cannot be reloaded.
  const events = follows === undefined || refusal !== null ? null : eventsPath(basePath, follows);
  const isMoving = page.isMoving === true && refusal === null;
  sendPage(
    res,
    site,
    {
      title,
      template: `console/${template}`,
      nav: page.nav ?? 'console',
      isWide,
      crumbs: crumbs.length === 0 ? [] : [{ label: 'Console', href: `${basePath}console` }, ...crumbsOf()],
      styles: ['console'],
      scripts: ['console', ...(page.scripts ?? [])],
      account: accountOf(visitor, basePath),
      madeAt: clock.now().toISOString(),
      isMoving,
      view: {
        ...view,
        title,
        csrf: visitor.session.csrf,
        flash: page.flash ?? flashOf(req.originalUrl),
        events,
        refusal,
        isAdmin: visitor.isAdmin,
        isPerson: visitor.token.person !== undefined,
      },
    },
    { status: refusal?.status ?? page.status ?? 200 },
  );

  function crumbsOf(): Crumb[] {
    return crumbs.map(({ label, path }) => ({
      label,
      ...(path === undefined ? {} : { href: `${basePath}${path}` }),
    }));
  }
}

function eventsPath(basePath: string, query: Readonly<Record<string, string>>): string {
  const search = new URLSearchParams(query).toString();
  return `${basePath}${paths.events()}${search === '' ? '' : `?${search}`}`;
}

/** Redirects to a console page after an action, so that reloading does not repeat the action. */
export function goTo<Params>({ res, parts }: Visit<Params>, path: string): void {
  res.redirect(303, `${parts.http.basePath}${path}`);
}
