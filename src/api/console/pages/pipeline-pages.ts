import { WaybillError } from '../../../core/lib/errors.ts';
import { startRun } from '../../../workers/queue/start-run.ts';
import { auditQuery, readAudit } from '../../daemon/audit-route.ts';
import { originOf, requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { pausePipeline, pauseReason, resumePipeline } from '../../pipelines/pause-routes.ts';
import { type PipelineState, pipelineStates } from '../../pipelines/pipelines-route.ts';
import { requireChannel } from '../../runs/accept-run.ts';
import { paths, withFlash, withQuery } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { tokenName } from '../record-text.ts';
import { goTo, show } from '../show.ts';
import { attentionOf, type UndeliveredItem } from '../views/attention-view.ts';
import { overviewView } from '../views/overview-view.ts';
import { gridRuns, pipelineView, runLines } from '../views/pipeline-view.ts';
import { failureText } from '../views/run-words.ts';
import { action, type Form, isAllowed, page, permit, placesFor, seenBy, type Visit } from '../visit.ts';

/** The number of runs in a pipeline's bar chart. */
const recentRuns = 30;

const recentActivity = 8;

/** Lists failures with suggested next steps, followed by the state of each pipeline the visitor can see. */
export const overviewPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.overview()}`,
  handle: (parts) =>
    page(parts, async (visit) => {
      const { visitor, access } = visit;
      const { queue, clock } = parts;
      const states = await pipelineStates(seenBy(visitor, access), parts);
      const pipelines = await Promise.all(
        states.map(async (state) => ({
          state,
          runs: (await queue.list([state.pipeline_id], { limit: recentRuns })).runs,
        })),
      );
      const now = clock.now();
      const seen = states.map(({ pipeline_id: id }) => id);
      const recent = await queue.list(seen, { limit: recentActivity });
      const attention = attentionOf(pipelines, now, await undeliveredFor(visit));
      const cards = overviewView(pipelines, now).map((card) => ({
        ...card,
        href: paths.pipeline(card.id),
      }));
      show(visit, {
        title: 'Overview',
        template: 'overview',
        view: {
          cards,
          attention: {
            ...attention,
            items: attention.items.map((item) => ({
              ...item,
              href: paths.pipeline(item.pipelineId),
              mayRerun: item.run.rerunnable && isAllowed(visitor, 'rerun', item.pipelineId),
            })),
            paused: await Promise.all(
              attention.paused.map(async (item) => ({
                ...item,
                by: await pausedBy(visit, item.pipelineId),
                href: paths.pipeline(item.pipelineId),
                mayResume: isAllowed(visitor, 'pause', item.pipelineId),
              })),
            ),
          },
          runs: runLines(recent.runs, now),
          runPath: paths.run,
          depth: await depthFor(visit, states),
          runsPath: paths.runs(),
          adminPath: paths.admin(),
        },
        follows: {},
        isMoving: states.some(({ running, waiting }) => running !== null || waiting > 0),
      });
    }),
};

/**
 * Counts running and queued runs. Admins see the totals for the whole daemon; everyone else sees only the
 * pipelines they have access to.
 */
async function depthFor(
  { visitor, parts }: Visit<unknown>,
  states: readonly PipelineState[],
): Promise<{ running: number; queued: number; reserved: number | null }> {
  if (visitor.isAdmin) return parts.queue.depth();
  return {
    running: states.filter(({ running }) => running !== null).length,
    queued: states.reduce((sum, { waiting }) => sum + waiting, 0),
    reserved: null,
  };
}

/** Counts the events that could not be delivered, by notifier, for admins. Empty for everyone else. */
async function undeliveredFor({ visitor, access, parts }: Visit<unknown>): Promise<UndeliveredItem[]> {
  const ids = visitor.isAdmin ? [...access.notifierIds] : [];
  const found = await Promise.all(
    ids.map(async (notifierId) => {
      const events = (await parts.notifier.undelivered(notifierId)) ?? [];
      const newest = events.at(-1);
      return newest === undefined
        ? []
        : [{ notifierId, count: events.length, reason: failureText(newest.reason) }];
    }),
  );
  return found.flat();
}

/** Shows a pipeline with its destinations, a grid of its runs, and the available actions. */
export const pipelinePage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}',
  handle: (parts) => page<PipelineParams>(parts, showPipeline),
};

async function showPipeline(visit: Visit<PipelineParams>): Promise<void> {
  const { req, res, visitor, access, parts } = visit;
  const summary = permit(res, visitor, 'read', req.params.pipelineId, access);
  const id = summary.pipeline_id;
  const [state] = (await pipelineStates([summary], parts)) as [PipelineState];
  const { runs } = await parts.queue.list([id], { limit: gridRuns });
  const view = pipelineView(state, runs, parts.clock.now(), placesFor(visitor, id, access));
  const takesUploads = access.uploadPipelines.has(id);
  const mayUpload = takesUploads && isAllowed(visitor, 'upload', id);
  show(visit, {
    title: id,
    template: 'pipeline',
    crumbs: [{ label: id }],
    view: {
      ...view,
      runPath: paths.run,
      destinationPath: (destination: string, at: string | null = null) =>
        withQuery(paths.destination(id, destination), { path: at }),
      path: paths.pipeline(id),
      trendsPath: paths.trends(id),
      runsPath: withQuery(paths.runs(), { pipeline: id }),
      waitingPath:
        view.waitingRun === null
          ? withQuery(paths.runs(), { pipeline: id, status: 'queued' })
          : paths.run(view.waitingRun),
      uploadPath: mayUpload ? paths.upload(id) : null,
      lacking: lackingFor(visit, id, takesUploads ? 'upload' : 'start'),
      pushCommand: pushCommand(visit, id),
      loginPath: withQuery(paths.login(), {
        switch: 'yes',
        next: `${parts.http.basePath}${paths.pipeline(id)}`,
      }),
      pausedBy: state.paused === null ? null : await pausedBy(visit, id),
      releasesPath: (destination: string) => paths.releases(id, destination),
      planPath: access.sourcePipelines.has(id) && isAllowed(visitor, 'plan', id) ? paths.plan(id) : null,
      mayStart: access.sourcePipelines.has(id) && isAllowed(visitor, 'start', id),
      channels: access.sourcePipelines.get(id) ?? [],
      mayPause: isAllowed(visitor, 'pause', id),
      isPaused: state.paused !== null,
    },
    follows: { pipeline: id },
    isMoving: state.running !== null || state.waiting > 0,
  });
}

interface Lacking {
  step: string;
  /** The kind and the name of the visitor's token or account. */
  owner: [string, string];
  /** What the owner may not do, such as `upload to`. */
  act: string;
  /** A sentence about what the operation needs. It ends with the name of a permission or a role. */
  needs: [string, string];
  setting: string;
  isAdmin: boolean;
  login: string;
}

/**
 * Returns the permission that the visitor lacks for the pipeline's first run, and who grants it. Returns null
 * if none is missing.
 */
function lackingFor(
  { visitor }: Visit<PipelineParams>,
  id: string,
  operation: 'upload' | 'start',
): Lacking | null {
  if (isAllowed(visitor, operation, id)) return null;
  const { id: tokenId, person } = visitor.token;
  const [act, name] = operation === 'upload' ? ['upload to', 'Uploads'] : ['start runs of', 'Runs'];
  const isToken = person === undefined;
  return {
    step: `Get the permission to ${operation === 'upload' ? 'upload' : 'start runs'}`,
    owner: isToken ? ['token', tokenName(tokenId)] : ['account', person.name],
    act,
    needs: isToken
      ? [`${name} need a token with the permission`, operation === 'upload' ? 'upload' : 'run']
      : [`${name} need the role`, 'operator'],
    setting: isToken ? 'upload_tokens' : 'server.console.login',
    isAdmin: visitor.isAdmin,
    login: `Log in with another ${isToken ? 'token' : 'account'}`,
  };
}

/** Returns the command that uploads a directory to this daemon. */
function pushCommand({ req, parts }: Visit<PipelineParams>, id: string): string {
  const { basePath } = parts.http;
  return `waybill push ./site --to ${req.protocol}://${req.host}${basePath.slice(0, -1)} --pipeline ${id}`;
}

/** Returns who paused a pipeline, from the audit trail, which only admins may read. null if not known. */
export async function pausedBy({ visitor, parts }: Visit<unknown>, id: string): Promise<string | null> {
  if (!visitor.isAdmin || parts.audit == null) return null;
  const query = auditQuery.read('?act=pipeline.pause&limit=1');
  const [record] = (await readAudit(parts.audit, query, [id])).records;
  return record?.result === 'done' ? tokenName(record.actor.id ?? record.actor.type) : null;
}

export const startAction = pipelineAction('start', 'run.start', async (visit, form) =>
  withFlash(paths.run(await startFrom(visit, form)), 'started'),
);

export const pauseAction = pipelineAction('pause', 'pipeline.pause', async (visit, form) => {
  const id = permitPause(visit);
  await pausePipeline(id, reasonOf(form), visit.parts);
  return withFlash(paths.pipeline(id), 'paused');
});

export const resumeAction = pipelineAction('resume', 'pipeline.resume', async (visit, form) => {
  const id = permitPause(visit);
  await resumePipeline(id, visit.parts);
  return withFlash(form.get('from') === 'daemon' ? paths.admin() : paths.pipeline(id), 'resumed');
});

/** Makes the route of an action on a pipeline. `act` returns the path of the page to show afterwards. */
function pipelineAction(
  name: string,
  audit: PageRoute<ConsoleParts>['audit'],
  act: (visit: Visit<PipelineParams>, form: Form) => Promise<string>,
): PageRoute<ConsoleParts> {
  return {
    method: 'post',
    path: `/console/pipelines/{pipeline_id}/${name}`,
    audit,
    handle: (parts) =>
      action<PipelineParams>(parts, async (visit, form) => goTo(visit, await act(visit, form)), showPipeline),
  };
}

function permitPause({ req, res, visitor, access }: Visit<PipelineParams>): string {
  return permit(res, visitor, 'pause', req.params.pipelineId, access).pipeline_id;
}

/** Returns the reason entered for a pause, or null if the field is empty. Throws `invalid_request`. */
function reasonOf(form: Form): string | null {
  const reason = form.get('reason')?.trim() ?? '';
  const { maxChars, pattern } = pauseReason;
  if (reason.length > maxChars || !new RegExp(pattern, 'u').test(reason))
    throw new WaybillError('invalid_request', `the reason is not one line of at most ${maxChars} characters`);
  return reason === '' ? null : reason;
}

export interface PipelineParams {
  pipelineId: string;
}

/** Starts a run of the pipeline and returns its id. Throws the same errors as `permit` and `startRun`. */
export async function startFrom(visit: Visit<PipelineParams>, form: Form): Promise<string> {
  const { req, res, visitor, access, parts } = visit;
  const { pipeline_id: pipelineId } = permit(res, visitor, 'start', req.params.pipelineId, access);
  const channels = access.sourcePipelines.get(pipelineId);
  if (channels === undefined)
    throw new WaybillError('pipeline_takes_uploads', `the pipeline "${pipelineId}" has no source to read`, {
      hint: 'upload a bundle to it',
    });
  const channel = channelOf(visit, form);
  const { record } = await startRun(parts, { pipelineId, channel }, originOf(req));
  Object.assign(requestContext(req).fields, { run_id: record.run_id, pipeline_id: pipelineId });
  return record.run_id;
}

/** Returns the channel chosen in the form, or null for the current release. Throws `channel_not_found`. */
export function channelOf({ req, access }: Visit<PipelineParams>, form: Form): string | null {
  const { pipelineId: id } = req.params;
  const asked = form.get('channel') ?? '';
  if (asked === '') return null;
  requireChannel({ id, channels: access.sourcePipelines.get(id) ?? [] }, asked);
  return asked;
}
