import type { Crumb } from '../pages/render-page.ts';
import { sendPage } from '../pages/send-page.ts';
import { flashOf, paths } from './paths.ts';
import type { Visit } from './visit.ts';

/** What a page of the console has of its own. */
export interface ConsolePage {
  title: string;
  /** Below `templates/console`. */
  template: string;
  view: Readonly<Record<string, unknown>>;
  /** After the overview; paths below the base path. The last one is this page. */
  crumbs?: readonly { label: string; path?: string }[];
  /** What is followed while the page is open: a query of `console/events`. Without it, nothing. */
  follows?: Readonly<Record<string, string>>;
  /** Whether the page changes by itself soon: without script it is loaded again. */
  isMoving?: boolean;
  isWide?: boolean;
  scripts?: readonly string[];
  status?: number;
  /** Shown above everything, instead of what the query tells. */
  flash?: string;
}

/** Answers with a page for the visitor, in the frame of all pages. */
export function show<Params>(visit: Visit<Params>, page: ConsolePage): void {
  const { req, res, visitor, parts, refusal = null } = visit;
  const { site, clock, http } = parts;
  const { basePath } = http;
  const { title, template, view, crumbs = [], follows, isWide = false } = page;
  // What was refused has the address of its form, from which nothing can be loaded again.
  const events = follows === undefined || refusal !== null ? null : eventsPath(basePath, follows);
  const isMoving = page.isMoving === true && refusal === null;
  sendPage(
    res,
    site,
    {
      title,
      template: `console/${template}`,
      nav: 'console',
      isWide,
      crumbs: crumbs.length === 0 ? [] : [{ label: 'Console', href: `${basePath}console` }, ...crumbsOf()],
      styles: ['console'],
      scripts: ['console', ...(page.scripts ?? [])],
      account: {
        name: visitor.isAdmin ? 'admin' : visitor.token.id,
        signOut: `${basePath}${paths.logout()}`,
        csrf: visitor.session.csrf,
      },
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

/** To a page of the console: what was done is not done again when the page is loaded again. */
export function goTo<Params>({ res, parts }: Visit<Params>, path: string): void {
  res.redirect(303, `${parts.http.basePath}${path}`);
}
