import type { PageRoute } from '../../pages/page-route.ts';
import { requireAdminToken } from '../../runs/pipeline-access.ts';
import { goTo } from '../actions/run-actions.ts';
import { withFlash } from '../flash.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { show } from '../show.ts';
import { action, page } from '../visit.ts';
import { momentOf } from '../words.ts';

const mostEvents = 50;

/** What concerns the daemon as a whole: its configuration, what is paused, and events that were given up. */
export const adminPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.admin()}`,
  handle: (parts) =>
    page(parts, async (visit) => {
      const { visitor, access } = visit;
      requireAdminToken(visitor.token, access);
      const { queue, notifier, hasBoard } = parts;
      const notifiers = await Promise.all(
        [...access.notifierIds].map(async (id) => {
          const events = (await notifier.undelivered(id)) ?? [];
          return {
            id,
            count: events.length,
            events: events.slice(0, mostEvents).map(({ event, tries, reason, givenUpAt }) => ({
              ...{ type: event.type, tries, reason, givenUp: momentOf(givenUpAt) },
            })),
          };
        }),
      );
      const pauses = [...(await queue.pauses())].map(([id, { since, reason }]) => ({
        ...{ id, reason, since: momentOf(since), href: paths.pipeline(id) },
      }));
      show(visit, {
        title: 'Daemon',
        template: 'admin',
        crumbs: [{ label: 'Daemon' }],
        view: {
          path: paths.admin(),
          notifiers,
          pauses,
          hasBoard,
          depth: await queue.depth(),
          kept: await queue.kept(),
        },
      });
    }),
};

export const reloadAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `/${paths.admin()}/reload`,
  handle: (parts) =>
    action(parts, async (visit) => {
      requireAdminToken(visit.visitor.token, visit.access);
      await parts.reload();
      goTo(visit, withFlash(paths.admin(), 'reloaded'));
    }),
};

export const redeliverAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `/${paths.admin()}/notifiers/{notifier_id}/redeliver`,
  handle: (parts) =>
    action<{ notifierId: string }>(parts, async (visit) => {
      requireAdminToken(visit.visitor.token, visit.access);
      const { notifierId } = visit.req.params;
      const { delivered, left, ended } = await parts.notifier.redeliver(notifierId, parts.draining);
      parts.log.info({ notifier: notifierId, delivered, left, ended }, 'undelivered events sent again');
      goTo(visit, withFlash(paths.admin(), 'redelivered'));
    }),
};
