import type { Crumb } from '../pages/render-page.ts';
import { sendPage } from '../pages/send-page.ts';
import { flashOf, paths } from './paths.ts';
import type { Visitor } from './sessions.ts';
import type { Visit } from './visit.ts';

/** A console page's content. */
export interface ConsolePage {
  title: string;
  /** Path relative to `templates/console`. */
  template: string;
  view: Readonly<Record<string, unknown>>;
  /** Breadcrumbs after the overview, with paths relative to the base path. The last one is this page. */
  crumbs?: readonly { label: string; path?: string }[];
  /** The `console/events` query that the open page follows. Default: none. */
  follows?: Readonly<Record<string, string>>;
  /** Whether the page will change soon. If so, browsers without JavaScript reload it. */
  isMoving?: boolean;
  isWide?: boolean;
  /** The navigation entry. Default: `console`. */
  nav?: string;
  scripts?: readonly string[];
  status?: number;
  /** A message above the content. Replaces the message that the query names. */
  flash?: string;
}

/** Sends a page to the visitor in the shared layout. */
export function show<Params>(visit: Visit<Params>, page: ConsolePage): void {
  const { req, res, visitor, parts, refusal = null } = visit;
  const { site, clock, http } = parts;
  const { basePath } = http;
  const { title, template, view, crumbs = [], follows, isWide = false } = page;
  // After a refusal, the URL is the form's action, which cannot be reloaded.
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
      account: {
        name: nameOf(visitor),
        href: `${basePath}${paths.account()}`,
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

/** Returns the name in the header: a person's name with the highest role, or the token's id. */
function nameOf({ isAdmin, token: { id, person } }: Visitor): string {
  if (person === undefined) return isAdmin ? 'admin' : id;
  const roles = new Set(person.roles.values());
  const role = isAdmin ? 'admin' : roles.has('operator') ? 'operator' : 'viewer';
  return `${person.name} (${role})`;
}

function eventsPath(basePath: string, query: Readonly<Record<string, string>>): string {
  const search = new URLSearchParams(query).toString();
  return `${basePath}${paths.events()}${search === '' ? '' : `?${search}`}`;
}

/** Redirects to a console page, so that reloading it does not repeat the action. */
export function goTo<Params>({ res, parts }: Visit<Params>, path: string): void {
  res.redirect(303, `${parts.http.basePath}${path}`);
}
