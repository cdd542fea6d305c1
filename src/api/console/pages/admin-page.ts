import type { Request, Response } from 'express';
import type { Undelivered } from '../../../core/notify/outbox.ts';
import type { CheckReport } from '../../daemon/readiness.ts';
import { subjectOf } from '../../daemon/undelivered-routes.ts';
import type { Handler } from '../../http/route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { type PipelineState, pipelineStates } from '../../pipelines/pipelines-route.ts';
import { paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { ageText, type Mark, type Moment, momentOf, plural, statusMark, triesText } from '../record-text.ts';
import { goTo, show } from '../show.ts';
import { placeText } from '../views/audit-view.ts';
import { sentence } from '../views/error-view.ts';
import { causeText, eventName, failureText, fixText, runName } from '../views/run-words.ts';
import { action, page, requireAdmin, seenBy, type Visit } from '../visit.ts';
import { pausedBy } from './pipeline-pages.ts';

const maxEvents = 50;

/** Shows the daemon as a whole: its health, queues and undelivered events. */
export const adminPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.admin()}`,
  handle: (parts) => page(parts, showAdmin),
};

async function showAdmin(visit: Visit<unknown>): Promise<void> {
  const { visitor, access, parts } = visit;
  requireAdmin(visitor, access);
  const { queue, notifier } = parts;
  const notifiers = await Promise.all(
    [...access.notifierIds].map(async (id) => {
      const events = (await notifier.undelivered(id)) ?? [];
      const place = access.notifierPlaces.get(id) ?? null;
      const fault = faultOf(id, events, place);
      // The heading has the cause already.
      const textOf = fault.isShared ? codedText : failureText;
      return {
        ...{ id, count: events.length, place, ...fault },
        events: await Promise.all(events.slice(0, maxEvents).map((one) => eventRow(one, textOf, queue))),
      };
    }),
  );
  const { checks } = await parts.health.readiness.look();
  const queues = await queuesOf(visit);
  show(visit, {
    title: 'Daemon',
    template: 'admin',
    nav: 'daemon',
    crumbs: [{ label: 'Daemon' }],
    view: {
      path: paths.admin(),
      auditPath: parts.audit == null ? null : paths.audit(),
      checks: checks.map(checkRow),
      problems: problemsOf(checks, notifiers),
      paused: pausedOf(queues),
      notifiers,
      queues,
      hasRunning: queues.some(({ running }) => running !== null),
      receiving: (await queue.depth()).reserved,
      kept: plural((await queue.bundleUsage()).bundles, 'bundle'),
    },
  });
}

/** Names the fault of a notifier if all of its events failed with the same one, and the next step. */
function faultOf(
  id: string,
  events: readonly Undelivered[],
  place: string | null,
): { fault: string; isShared: boolean; fix: string } {
  const [first, ...others] = [...new Set(events.map(({ reason }) => reason))];
  if (first === undefined || others.length > 0)
    return { fault: `Notifier ${id}`, isShared: false, fix: 'Fix the causes' };
  return { fault: `Notifier ${id}: ${causeText(first)}`, isShared: true, fix: fixText(first, place) };
}

const codedText = (reason: string): string => sentence(reason.replace(/\.?$/, '.'));

/** Describes an undelivered event, and names its run like the lists of runs. */
async function eventRow(
  { event, tries, reason, givenUpAt }: Undelivered,
  textOf: (reason: string) => string,
  queue: ConsoleParts['queue'],
): Promise<object> {
  const subject = subjectOf(event);
  const { run_id: id } = subject;
  const run = id === null ? undefined : await queue.find(id);
  return {
    ...{ name: eventName(event.type), place: placeText(subject), tries: triesText(tries) },
    ...{ reason: textOf(reason), givenUp: momentOf(givenUpAt) },
    run: id === null ? null : { name: run === undefined ? `Run ${id}` : runName(run), href: paths.run(id) },
  };
}

/** Counts the paused pipelines; null if there is none. A pause is no failure. */
function pausedOf(queues: readonly QueueRow[]): Mark | null {
  const count = queues.filter(({ pause }) => pause !== null).length;
  return count === 0 ? null : { ...pausedMark, label: `${plural(count, 'pipeline')} paused` };
}

/**
 * Names what fails, such as `1 check not ok, 1 undelivered event`, or the fault itself if it is the only one.
 * Null if nothing fails.
 */
function problemsOf(
  checks: readonly CheckReport[],
  notifiers: readonly { count: number; fault: string; isShared: boolean }[],
): (Mark & { isFault: boolean }) | null {
  const bad = checks.filter(({ state }) => state !== 'ok');
  const events = notifiers.reduce((sum, one) => sum + one.count, 0);
  const parts = [
    ...(bad.length === 0 ? [] : [`${plural(bad.length, 'check')} not ok`]),
    ...(events === 0 ? [] : [plural(events, 'undelivered event')]),
  ];
  if (parts.length === 0) return null;
  const isFailing = events > 0 || bad.some(({ state }) => state === 'failing');
  const look = isFailing ? checkMarks.failing : checkMarks.degraded;
  const [failing, ...others] = notifiers.filter(({ count }) => count > 0);
  const isFault = bad.length === 0 && others.length === 0 && failing?.isShared === true;
  return { ...look, isFault, label: isFault ? failing.fault : parts.join(', ') };
}

const checkNames: Readonly<Record<CheckReport['name'], string>> = {
  queue: 'Queue',
  staging: 'Staging directory',
  room: 'Disk space for uploads',
  shared_staging: 'Shared staging',
  audit: 'Audit trail',
  process: 'Process',
  weather: 'Weather database',
};

const checkMarks: Readonly<Record<CheckReport['state'], Mark>> = {
  ok: { label: 'ok', tone: 'success', symbol: '✓' },
  degraded: { label: 'degraded', tone: 'warning', symbol: '!' },
  failing: { label: 'failing', tone: 'failure', symbol: '✕' },
};

function checkRow({ name, state, since, detail, hint }: CheckReport): object {
  return {
    name: checkNames[name],
    isOk: state === 'ok',
    mark: checkMarks[state],
    since: momentOf(since),
    detail: detail ?? null,
    hint: hint ?? null,
  };
}

interface QueueRow {
  id: string;
  href: string;
  /** Whether runs can start. */
  state: Mark;
  /** null if there is none. */
  newestRun: (Mark & { href: string; age: string }) | null;
  /** null unless the pipeline is paused. */
  pause: { since: Moment & { age: string }; by: string | null; reason: string | null } | null;
  waiting: number;
  /** The age of the run that has been waiting longest, such as `3 min ago`; null if none is waiting. */
  since: string | null;
  running: { id: string; href: string } | null;
}

const pausedMark: Mark = { label: 'paused', tone: 'warning', symbol: '‖' };

/** Describes the queue of a pipeline, but not the results of its runs. */
function queueMark({ paused, running }: PipelineState): Mark {
  if (paused !== null) return pausedMark;
  if (running !== null) return { label: 'running', tone: 'running', symbol: '▸' };
  return { label: 'open', tone: 'neutral', symbol: '○' };
}

/** Counts each pipeline's waiting and running runs across all hosts. */
async function queuesOf(visit: Visit<unknown>): Promise<QueueRow[]> {
  const { visitor, access, parts } = visit;
  const { queue, clock } = parts;
  const states = await pipelineStates(seenBy(visitor, access), parts);
  const pauses = await queue.pauses();
  const since = await queue.waitingSince(states.map(({ pipeline_id: id }) => id));
  const pausers = await Promise.all(
    states.map(async ({ pipeline_id: id }) => (pauses.has(id) ? pausedBy(visit, id) : null)),
  );
  return states.map((state, index) => {
    const first = since[index] ?? null;
    const pause = pauses.get(state.pipeline_id);
    return {
      id: state.pipeline_id,
      href: paths.pipeline(state.pipeline_id),
      state: queueMark(state),
      newestRun:
        state.last_run === null
          ? null
          : {
              ...statusMark(state.last_run),
              href: paths.run(state.last_run.run_id),
              age: ageText(state.last_run.accepted_at, clock.now()),
            },
      pause:
        pause === undefined
          ? null
          : {
              since: { ...momentOf(pause.since), age: ageText(pause.since, clock.now()) },
              by: pausers[index] ?? null,
              reason: pause.reason === null ? null : sentence(pause.reason.replace(/\.?$/, '.')),
            },
      waiting: state.waiting,
      since: first === null ? null : ageText(first, clock.now()),
      running: state.running === null ? null : { id: state.running, href: paths.run(state.running) },
    };
  });
}

/** Redirects the URL of the old queue board, which the console replaced. */
export const formerBoard: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/admin/queues',
  handle: ({ http }) =>
    ((_req: Request, res: Response) => res.redirect(308, `${http.basePath}${paths.admin()}`)) as Handler,
};

export const reloadAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `/${paths.admin()}/reload`,
  audit: 'reload',
  handle: (parts) =>
    action(
      parts,
      async (visit) => {
        requireAdmin(visit.visitor, visit.access);
        await parts.reload();
        goTo(visit, withFlash(paths.admin(), 'reloaded'));
      },
      showAdmin,
    ),
};

export const redeliverAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `/${paths.admin()}/notifiers/{notifier_id}/redeliver`,
  audit: 'events.redeliver',
  handle: (parts) =>
    action<{ notifierId: string }>(
      parts,
      async (visit) => {
        requireAdmin(visit.visitor, visit.access);
        const { notifierId } = visit.req.params;
        const { delivered, left, ended } = await parts.notifier.redeliver(notifierId, parts.draining);
        parts.log.info({ notifier: notifierId, delivered, left, ended }, 'undelivered events sent again');
        goTo(visit, withFlash(paths.admin(), 'redelivered'));
      },
      showAdmin,
    ),
};
