import type { PageRoute } from '../../pages/page-routes.ts';
import { paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { ageText, momentOf } from '../record-text.ts';
import { show } from '../show.ts';
import { action, isAllowed, page, type PipelineOperation, seenBy, type Visit } from '../visit.ts';

/** Shows which pipelines the visitor may use and for what, with a button that ends all their sessions. */
export const accountPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.account()}`,
  handle: (parts) =>
    page(parts, (visit) => {
      const { session, token } = visit.visitor;
      const { person = null } = token;
      const expires = new Date(session.expiresMs).toISOString();
      show(visit, {
        title: 'Account',
        template: 'account',
        crumbs: [{ label: 'Account' }],
        view: {
          person,
          tokenId: token.id,
          groups: groupsOf(visit),
          expires: { ...momentOf(expires), age: ageText(expires, visit.parts.clock.now()) },
          logoutPath: paths.logout(),
        },
      });
    }),
};

const rights: readonly [operation: PipelineOperation, text: string][] = [
  ['read', 'see runs and files'],
  ['upload', 'upload bundles'],
  ['start', 'start runs'],
  ['rerun', 'repeat and verify runs'],
  ['cancel', 'cancel and pause'],
  ['releases', 'switch releases'],
];

interface RightsGroup {
  pipelines: { id: string; href: string }[];
  /** null for tokens, which have no role. */
  role: string | null;
  rights: string;
}

/** Groups the pipelines that the visitor may see by what they may do with them. */
function groupsOf(visit: Visit<unknown>): RightsGroup[] {
  const { visitor, access } = visit;
  const groups = new Map<string, RightsGroup>();
  for (const { pipeline_id: id } of seenBy(visitor, access)) {
    const role = visitor.token.person?.roles.get(id) ?? null;
    const rights = rightsText(visit, id);
    const key = JSON.stringify([role, rights]);
    const group = groups.get(key) ?? { pipelines: [], role, rights };
    group.pipelines.push({ id, href: paths.pipeline(id) });
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Lists what the visitor may do with a pipeline, in words. */
function rightsText({ visitor }: Visit<unknown>, id: string): string {
  const allowed = rights.filter(([operation]) => isAllowed(visitor, operation, id));
  const text = allowed.map(([, words]) => words).join(', ');
  return text.charAt(0).toUpperCase() + text.slice(1);
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
