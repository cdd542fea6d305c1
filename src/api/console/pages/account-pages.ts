import type { PageRoute } from '../../pages/page-routes.ts';
import { paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { ageText, momentOf } from '../record-text.ts';
import { show } from '../show.ts';
import { action, page, seenBy, type Visit } from '../visit.ts';

/** Shows which pipelines the visitor may use and for what, with a button that ends all their sessions. */
export const accountPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.account()}`,
  handle: (parts) =>
    page(parts, (visit) => {
      const { session, token } = visit.visitor;
      const { person = null, scopes } = token;
      const expires = new Date(session.expiresMs).toISOString();
      show(visit, {
        title: 'Account',
        template: 'account',
        crumbs: [{ label: 'Account' }],
        view: {
          person,
          tokenId: token.id,
          pipelines: seenBy(visit.visitor, visit.access).map(({ pipeline_id: id }) => ({
            id,
            href: paths.pipeline(id),
            rights: person?.roles.get(id) ?? rightsText(visit, id, [...scopes]),
          })),
          expires: { ...momentOf(expires), age: ageText(expires, visit.parts.clock.now()) },
          logoutPath: paths.logout(),
        },
      });
    }),
};

/** Formats a token's scopes. The admin token can control every pipeline, including ones it does not list. */
function rightsText({ visitor }: Visit<unknown>, id: string, scopes: readonly string[]): string {
  return visitor.isAdmin && !visitor.token.pipelines.has(id) ? 'admin' : scopes.join(', ');
}

export const logoutAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `/${paths.logout()}`,
  audit: 'logout',
  handle: (parts) =>
    action(parts, async ({ req, res, visitor }, form) => {
      const isEverywhere = form.get('everywhere') !== null;
      if (isEverywhere) await parts.sessions.endAll(req, res, visitor);
      else await parts.sessions.end(req, res, visitor);
      const flash = isEverywhere ? 'logged_out_everywhere' : 'logged_out';
      res.redirect(303, withFlash(`${parts.http.basePath}${paths.login()}`, flash));
    }),
};
