import type { Request, Response } from 'express';
import { freeText } from '../../../core/lib/parameters.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import type { Handler } from '../../http/route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { pipelinesParameter } from '../../runs/list-runs.ts';
import { type RunSubscription, streamRuns } from '../../runs/run-stream.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { permit, requireVisitor, seenBy } from '../visit.ts';

const query = queryParameters({
  pipeline: pipelinesParameter,
  run: freeText(255, { description: 'Only this run.' }),
});

/**
 * Streams an event whenever runs change, to make open pages reload. Works like `GET /v1/events`, but is tied
 * to a session instead of a token and closes when the session ends.
 */
export const eventsPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.events()}`,
  handle: (parts) =>
    (async (req: Request, res: Response) => {
      const visitor = await requireVisitor(req, parts);
      const access = parts.configured.get();
      const { pipeline, run } = query.read(req.url);
      for (const id of pipeline) permit(res, visitor, 'read', id, access);
      const wanted = new Set(
        pipeline.length > 0 ? pipeline : seenBy(visitor, access).map(({ pipeline_id: id }) => id),
      );
      const followed: RunSubscription = {
        wants: ({ pipeline_id: id, run_id: runId }) => wanted.has(id) && (run === null || run === runId),
        // The page has just been rendered, so it needs no snapshot.
        snapshot: async () => ({ runs: [], next: null }),
        isLast: () => false,
        isOver: false,
        refusal: () => {
          const current = parts.sessions.current(visitor);
          if (current === null) return parts.sessions.refusalOf(visitor) ?? 'token_revoked';
          const seen = new Set(seenBy(current, parts.configured.get()).map(({ pipeline_id: id }) => id));
          return [...wanted].every((id) => seen.has(id)) ? null : 'token_revoked';
        },
      };
      await streamRuns(req, res, followed, parts);
    }) as Handler,
};
