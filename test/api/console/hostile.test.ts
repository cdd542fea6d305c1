import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import type { ApiPorts } from '../../../src/api/ports.ts';
import type { ActionResult, RunResult } from '../../../src/core/publish/results/result.ts';
import { runResult } from '../../contract/queue.ts';
import { startApi, tokens } from '../harness.ts';

/** What would be seen as markup if it were not escaped, in text and in attributes. */
const markup = fc.constantFrom(
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onfocus='alert(1)",
  '</title></textarea><svg onload=alert(1)>',
  '<%= 1 %><!--',
  '&lt;b&gt;&#60;i&#62;',
);
const hostile = fc.tuple(fc.string({ unit: 'binary', maxLength: 12 }), markup).map((parts) => parts.join(''));

/** A result in which everything that a bundle, a manifest or a storage may choose is this text. */
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

function portsOf(text: () => string): Partial<ApiPorts> {
  const output = (): object => ({
    ...{ path: text(), kind: text(), digest: text(), size: 1, url: `javascript:${text()}` },
    ...{ updatedAt: '2026-11-20T01:02:03Z', owner: text() },
  });
  return {
    plan: async () => resultOf(text()),
    look: async () =>
      ({
        ...{ kind: 'catalog', paths: [text()], pathsOmitted: 0 },
        catalog: {
          ...{ destinationPath: text(), release: text(), generation: 1, updatedAt: '2026-11-20T01:02:03Z' },
          ...{ isInterrupted: true, total: 1, bytes: 1, outputs: [output()], next: text() },
        },
      }) as never,
    releases: async () =>
      ({
        kind: 'list',
        paths: [
          {
            ...{ destinationPath: text(), current: null, foreignTarget: text(), channels: [] },
            releases: [
              {
                ...{ id: text(), state: 'complete', isCurrent: false, isLastGood: false, isRolledBack: true },
                ...{ isBeingRemoved: false, channels: [text()], outputs: 1, bytes: 1, leftAt: null },
                ...{ activatedAt: null, writtenAt: null, bundle: { path: text(), created: text() } },
              },
            ],
          },
        ],
      }) as never,
  };
}

t.test('nothing that a bundle, a catalog or a request says is markup, on any page', async (t) => {
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
  const cookie =
    ((await post('console/login', { token: tokens.docs })).headers.get('set-cookie') ?? '').split(';')[0] ??
    '';
  const get = async (path: string): Promise<string> =>
    (await fetch(`${api.origin}/${path}`, { headers: { cookie, accept: 'text/html' } })).text();
  const csrf = /name="csrf" value="([^"]+)"/.exec(await get('console'))?.[1] ?? '';
  let count = 0;
  await fc.assert(
    fc.asyncProperty(hostile, async (drawn) => {
      text = drawn;
      const runId = `docs.${++count}`;
      const admission = await queue.reserve({ pipelineId: 'docs' });
      await admission.accept({ runId, pipelineId: 'docs', staged: null }, 'sha256:00' as never);
      await queue.untilFinished(runId, AbortSignal.timeout(5_000));
      const query = (name: string): string => new URLSearchParams({ [name]: text }).toString();
      const pages = [
        ...['console', 'console/runs', `console/runs?${query('q')}`, `console/runs/${runId}`],
        ...['console/pipelines/docs', 'console/pipelines/docs/trends', 'console/pipelines/docs/upload'],
        ...['console/pipelines/docs/destinations/web', 'console/pipelines/docs/destinations/web/releases'],
        `console/pipelines/docs/destinations/web?${query('prefix')}`,
        ...[`console?${query('done')}`, `console/runs/${encodeURIComponent(text)}`],
      ];
      const bodies = await Promise.all(pages.map(async (path) => [path, await get(path)] as const));
      bodies.push(['plan', await (await post('console/pipelines/files/plan', { csrf }, cookie)).text()]);
      bodies.push(['login', await (await post('console/login', { token: text, next: text })).text()]);
      // What is left of the text is the part that would act.
      const [acting = ''] = /<(script|img|svg|%)[^]*$|' onfocus[^]*$|&lt;b[^]*$/.exec(text) ?? [];
      for (const [path, body] of bodies)
        if (acting !== '' && body.includes(acting)) throw new Error(`${path} has ${JSON.stringify(acting)}`);
      if (!bodies.some(([, body]) => /&lt;script|&lt;img|&lt;svg|&lt;%|&#39; onfocus|&amp;lt;b/.test(body)))
        throw new Error('the text is on no page at all');
      await sleep(0);
    }),
    { numRuns: 15 },
  );
});

t.test('ten thousand retained runs leave each page under 100 KiB', async (t) => {
  const api = await startApi(t, { http: { queueSize: 20_000, retentionMs: 3_600_000 } });
  const { queue } = api.ports;
  await queue.start(async () => ({
    run: resultOf('a text of the usual length, which tells what was wrong'),
  }));
  for (let index = 0; index < 10_000; index++) {
    const admission = await queue.reserve({ pipelineId: 'maps' });
    await admission.accept(
      { runId: `maps.${index}`, pipelineId: 'maps', staged: null },
      'sha256:00' as never,
    );
  }
  await queue.untilFinished('maps.9999', AbortSignal.timeout(120_000));
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
