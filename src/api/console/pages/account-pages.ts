import type { PageRoute } from '../../pages/page-routes.ts';
import { paths, withFlash, withQuery } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { ageText, momentOf, permissionNames, tokenName } from '../record-text.ts';
import { type Right, sharedRights } from '../rights.ts';
import { show } from '../show.ts';
import { action, isAllowed, page, seenBy, type Visit } from '../visit.ts';

/** Shows which pipelines the visitor may use and for what, with a button that ends all their sessions. */
export const accountPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.account()}`,
  handle: (parts) =>
    page(parts, (visit) => {
      const { session, token } = visit.visitor;
      const { person = null } = token;
      const pipelines = pipelineRights(visit);
      const expires = new Date(session.expiresMs).toISOString();
      show(visit, {
        title: 'Account',
        template: 'account',
        nav: 'account',
        crumbs: [{ label: 'Account' }],
        view: {
          person,
          tokenId: tokenName(token.id),
          pipelines,
          shared: sharedRights(pipelines),
          expires: { ...momentOf(expires), age: ageText(expires, visit.parts.clock.now()) },
          logoutPath: paths.logout(),
          loginPath: withQuery(paths.login(), { switch: 'yes' }),
          adminPath: paths.admin(),
        },
      });
    }),
};

const rights: readonly [operation: keyof typeof permissionNames, about: string][] = [
  ['read', 'runs, published files, releases and trends'],
  ['publish', 'upload a bundle, or start a run'],
  ['rerun', 'run again, try now, plan, and verify published files'],
  ['cancel', 'cancel a run, pause and resume the pipeline'],
  ['releases', 'promote a release, or roll back'],
];

interface PipelineRights {
  id: string;
  href: string;
  /** null for tokens, which have no role. */
  role: string | null;
  rights: Right[];
}

/** Returns what the visitor may do with each pipeline that they may see. */
function pipelineRights({ visitor, access }: Visit<unknown>): PipelineRights[] {
  return seenBy(visitor, access).map(({ pipeline_id: id }) => {
    const publish = access.uploadPipelines.has(id) ? 'upload' : 'start';
    return {
      id,
      href: paths.pipeline(id),
      role: visitor.token.person?.roles.get(id) ?? null,
      rights: rights.map(([operation, about]) => ({
        ...{ label: permissionNames[operation], about },
        isGranted: isAllowed(visitor, operation === 'publish' ? publish : operation, id),
      })),
    };
  });
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
