import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { consoleRoutes } from '../../../src/api/console/console.ts';
import type { ActionResult, RunResult } from '../../../src/core/publish/results/result.ts';
import type { DeliveryNote } from '../../../src/workers/queue/run-record.ts';
import { runResult } from '../../contract/queue.ts';
import { type ReplacedServices, startApi, tokens } from '../harness.ts';

const never = new AbortController().signal;

/** Text that would be parsed as markup if it were not escaped, in text and in attributes. */
const markup = fc.constantFrom(
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onfocus='alert(1)",
  '</title></textarea><svg onload=alert(1)>',
  '<%= 1 %><!--',
  '&lt;b&gt;&#60;i&#62;',
);
const hostile = fc.tuple(fc.string({ unit: 'binary', maxLength: 12 }), markup).map((parts) => parts.join(''));

/** A result in which every text that a bundle, a manifest or a storage controls is hostile. */
function resultOf(text: string): RunResult {
  const { run } = runResult('ok');
  const error = {
    code: 'unmanaged_content' as const,
    message: text,
    hint: text,
    retryable: false,
    findings: [],
  };
  const finding = { severity: 'warning' as const, code: 'x', message: text, file: text, pointer: text };
  const warnings = [{ ...finding, line: 1, column: 1 }];
  const change = { path: text, fate: 'add' as const, why: 'not_recorded' as const };
  return {
    ...run,
    pipelines: run.pipelines.map((pipeline) => ({
      ...pipeline,
      status: 'failed',
      warnings,
      destinations: pipeline.destinations.map((destination) => ({
        ...destination,
        warnings,
        actions: destination.actions.map((action): ActionResult => ({
          ...action,
          ...{ bundle: text, destinationPath: text, release: text, changes: [change], error },
          reason: { code: 'outputs_differ', message: text },
        })),
      })),
    })),
  };
}

/** The error of a failed delivery. */
function noteOf(text: string): DeliveryNote {
  return {
    ...{ notifierId: 'hook', eventId: 'msg_1', eventType: text, status: 'retrying', tries: 1 },
    ...{ isMore: false, reason: text, nextTryAt: null, at: new Date(0) },
  };
}

function portsOf(text: () => string): ReplacedServices {
  const output = (): object => ({
    ...{ path: text(), kind: text(), digest: text(), size: 1, url: `javascript:${text()}` },
    ...{ updatedAt: '2026-11-20T01:02:03Z', owner: text() },
  });
  return {
    runs: {
      lines: {
        linesOf: () => [
          { at: '2026-11-20T01:02:03Z', level: 'warn', message: text(), destinationId: text() },
        ],
      },
    },
    threads: {
      plan: async () => resultOf(text()),
      inspect: async ({ kind }) => {
        const [one] = [text()];
        if (kind === 'compare')
          return {
            ...{ kind, omitted: 1, same: 1 },
            added: [{ path: one, before: null, after: 1 }],
            changed: [{ path: one, before: 1, after: 2 }],
            removed: [{ path: one, before: 1, after: null }],
          };
        const differing = [{ path: one, problem: one, expected: one, found: one }];
        const error = { code: one, message: one, hint: one, retryable: true, findings: [] };
        const counts = { verified: 1, skipped: 1, bytes: 1, interrupted: true };
        if (kind === 'verify')
          return { kind, reports: [{ destinationPath: one, ...counts, differing, error }] } as never;
        return {
          ...{ kind: 'catalog', paths: [one], pathsOmitted: 1 },
          catalog: {
            ...{ destinationPath: one, release: one, generation: 1, updatedAt: '2026-11-20T01:02:03Z' },
            ...{
              isInterrupted: true,
              isPublished: false,
              total: 1,
              bytes: 1,
              outputs: [output()],
              next: one,
            },
            pages: [output(), { ...output(), url: `https://x.example/${one}` }],
          },
        } as never;
      },
      releases: async () =>
        ({
          kind: 'list',
          paths: [
            {
              ...{ destinationPath: text(), current: null, foreignTarget: text(), channels: [] },
              releases: [
                {
                  ...{
                    id: text(),
                    state: 'complete',
                    isCurrent: false,
                    isLastGood: false,
                    isRolledBack: true,
                  },
                  ...{ isBeingRemoved: false, channels: [text()], outputs: 1, bytes: 1, leftAt: null },
                  ...{ activatedAt: null, writtenAt: null, bundle: { path: text(), created: text() } },
                },
              ],
            },
          ],
        }) as never,
    },
    notifier: {
      undelivered: async () => [
        {
          event: {
            type: text(),
            data: { pipeline_id: text(), destination_id: text(), run_id: text() },
          },
          ...{ tries: 1, reason: text(), givenUpAt: '2026-11-20T01:02:03Z' },
        },
      ],
    } as never,
  };
}

t.test('no page renders text from a bundle, a catalog or a request as markup', async (t) => {
  let text = 'x';
  const api = await startApi(t, { ports: portsOf(() => text) });
  const { queue } = api.ports;
  await queue.start(async () => ({ run: resultOf(text) }));
  const post = (path: string, form: Record<string, string>, cookie = ''): Promise<Response> =>
    fetch(`${api.origin}/${path}`, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html', cookie },
      body: new URLSearchParams(form),
    });
  const cookieOf = async (token: string): Promise<string> =>
    ((await post('console/login', { token })).headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const [cookie, adminCookie] = [await cookieOf(tokens.docs), await cookieOf(tokens.admin)];
  const get = async (path: string, as = cookie): Promise<string> => {
    const headers = { cookie: as, accept: 'text/html' };
    return (await fetch(`${api.origin}/${path}`, { headers, redirect: 'manual' })).text();
  };
  const csrfOf = async (as: string): Promise<string> =>
    /name="csrf" value="([^"]+)"/.exec(await get('console', as))?.[1] ?? '';
  const [csrf, adminCsrf] = [await csrfOf(cookie), await csrfOf(adminCookie)];
  const visited = new Set<string>();
  let count = 0;
  await fc.assert(
    fc.asyncProperty(hostile, async (drawn) => {
      text = drawn;
      const runId = `docs.${++count}`;
      const admission = await queue.reserve({ pipelineId: 'docs' });
      const revision = { message: text, commit: text, branch: text, author: text };
      const job = { runId, pipelineId: 'docs', staged: null, revision };
      await admission.accept(job, 'sha256:00' as never);
      await queue.untilFinished(runId, never);
      await queue.noteDelivery(runId, noteOf(text));
      const query = (...names: string[]): string =>
        new URLSearchParams(names.map((name): [string, string] => [name, text])).toString();
      const place = 'console/pipelines/docs/destinations/web';
      const pages = [
        ...['console', 'console/runs', `console/runs?${query('q')}`, `console/runs/${runId}`],
        ...['console/pipelines/docs', 'console/pipelines/docs/trends', 'console/pipelines/docs/upload'],
        ...['console/pipelines/files/plan', place, `${place}/open`, `${place}/releases`],
        ...[`${place}?${query('prefix')}`, `${place}?${query('after')}`, `${place}?${query('path')}`],
        ...[`${place}/releases?${query('from', 'to')}`, `${place}/releases?${query('path')}`],
        ...[`console?${query('done')}`, `console/runs/${encodeURIComponent(text)}`],
        ...[`console/pipelines/${encodeURIComponent(text)}`, `console/runs?${query('pipeline')}`],
        ...[`console/login?${query('next')}`, `console/login?${query('done')}`, 'console/account'],
        `console/login/start?${query('next')}`,
        `console/login/callback?${query('code', 'state', 'error', 'error_description')}`,
        ...['', 'docs', `docs?${query('q')}`, encodeURIComponent(text), `runs/${encodeURIComponent(text)}`],
      ];
      const asAdmin = [
        'console',
        'console/pipelines/docs',
        'console/admin',
        `console/admin?${query('done')}`,
        `console/audit?${query('actor', 'pipeline')}`,
      ];
      for (const path of [...pages, ...asAdmin]) visited.add(path.split('?')[0] ?? '');
      const form = { csrf, path: '.', reason: text };
      const steer = (what: string): Promise<Response> =>
        post(`console/pipelines/docs/${what}`, { ...form, csrf: adminCsrf }, adminCookie);
      const paused = await steer('pause');
      const bodies = await Promise.all([
        ...pages.map(async (path) => [path, await get(path)] as const),
        ...asAdmin.map(async (path) => [`${path} of the admin`, await get(path, adminCookie)] as const),
      ]);
      await steer('resume');
      const answers: [string, Response][] = [
        ['pause', paused],
        ['plan', await post('console/pipelines/files/plan', form, cookie)],
        ['refused start', await post('console/pipelines/files/start', { csrf, channel: text }, cookie)],
        ['verify', await post(`${place}/verify`, form, cookie)],
        ['refused verify', await post(`${place}/verify`, { csrf, path: text }, cookie)],
        ['activate', await post(`${place}/releases/x/activate`, { csrf, verb: text }, cookie)],
        ['login', await post('console/login', { token: text, next: text })],
        ['expired form', await post('console/pipelines/docs/pause', { csrf: text }, cookie)],
      ];
      for (const [name, answer] of answers) bodies.push([name, await answer.text()]);
      // The active part of the text remains.
      const [acting = ''] = /<(script|img|svg|%)[^]*$|' onfocus[^]*$|&lt;b[^]*$/.exec(text) ?? [];
      for (const [path, body] of bodies)
        if (acting !== '' && body.includes(acting)) throw new Error(`${path} has ${JSON.stringify(acting)}`);
      const escaped = /&lt;script|&lt;img|&lt;svg|&lt;%|&#39; onfocus|&amp;lt;b/;
      const escapedPages = bodies.filter(([, body]) => escaped.test(body)).map(([path]) => path);
      for (const path of [`console/runs/${runId}`, place, `${place}/releases`, 'plan', 'verify'])
        if (!escapedPages.includes(path)) throw new Error(`the text is not on ${path}`);
      if (!escapedPages.includes('console/admin of the admin'))
        throw new Error('the text is not for the admin');
      await sleep(0);
    }),
    { numRuns: 15 },
  );
  const reads = consoleRoutes.filter(({ method, path }) => method === 'get' && !path.endsWith('/events'));
  for (const { path } of reads) {
    const form = new RegExp(`^${path.slice(1).replace(/\{\w+\}/g, '[^/]+')}$`);
    const isThere = path === '/admin/queues' || [...visited].some((one) => form.test(one));
    t.ok(isThere, `${path} was checked`);
  }
});

t.test('ten thousand retained runs leave each page under 100 KiB', async (t) => {
  const api = await startApi(t, { http: { queueSize: 20_000, retentionMs: 3_600_000 } });
  const { queue } = api.ports;
  await queue.start(async () => ({
    run: resultOf('a text of normal length with the error'),
  }));
  for (let index = 0; index < 10_000; index++) {
    const admission = await queue.reserve({ pipelineId: 'maps' });
    await admission.accept(
      { runId: `maps.${index}`, pipelineId: 'maps', staged: null },
      'sha256:00' as never,
    );
  }
  await queue.untilFinished('maps.9999', never);
  const login = await fetch(`${api.origin}/console/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token: tokens.maps }),
  });
  const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  for (const path of [
    '',
    '/pipelines/maps',
    '/runs',
    '/runs?q=usual+length',
    '/pipelines/maps/trends',
    '/runs/maps.5000',
  ]) {
    const response = await fetch(`${api.origin}/console${path}`, { headers: { cookie } });
    const { byteLength } = await response.arrayBuffer();
    t.equal(response.status, 200, path);
    t.ok(byteLength > 1_000 && byteLength < 100 * 1024, `${path}: ${byteLength}`);
  }
});
