import t, { type Test } from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { isRetrying } from '../../../src/workers/queue/run-retry.ts';
import { runResult } from '../../contract/queue.ts';
import { type Api, startApi, tokens } from '../harness.ts';

const runId = 'maps.20261120T020434Z.k3f9q2ab7x';
const hour = 3_600_000;
const pauses = { baseMs: hour, capMs: hour, random: () => 0.5 };

/** An API with a run that waits for a retry, which will succeed. */
async function withWaitingRun(t: Test): Promise<Api> {
  const api = await startApi(t, {
    retries: () => ({ forMs: hour, whileRetrying: 'pass', hasSingleTarget: false, pauses }),
  });
  const { queue } = api.ports;
  let tries = 0;
  await queue.start(async () => {
    tries += 1;
    if (tries === 1) throw new WaybillError('storage_transient', 'sftp://web: the connection was refused');
    return runResult('ok');
  });
  const admission = await queue.reserve({ pipelineId: 'maps' });
  await admission.accept({ runId, pipelineId: 'maps', staged: null }, 'sha256:00' as never);
  for (;;) {
    const record = await queue.find(runId);
    if (record !== undefined && isRetrying(record)) return api;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const untilDone = (api: Api): Promise<void> =>
  api.ports.queue.untilFinished(runId, new AbortController().signal);

async function logIn(
  api: Api,
  token: string,
): Promise<{ headers: { cookie: string }; csrf: string; page: string }> {
  const body = new URLSearchParams({ token });
  const login = await fetch(`${api.origin}/console/login`, { method: 'POST', redirect: 'manual', body });
  const headers = { cookie: login.headers.get('set-cookie')?.split(';')[0] ?? '' };
  const page = await (await fetch(`${api.origin}/console/runs/${runId}`, { headers })).text();
  return { headers, page, csrf: /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? '' };
}

t.test('the page of a run that waits for a retry shows the cause, and can retry immediately', async (t) => {
  const api = await withWaitingRun(t);
  const { headers, page, csrf } = await logIn(api, tokens.maps);
  t.match(page, 'waits to try again');
  t.match(page, 'Try 2 at');
  t.match(page, 'sftp://web: the connection was refused');
  t.match(page, '>Try now</button>');
  const reader = await logIn(api, tokens.reader);
  t.match(reader.page, 'Try 2 at');
  t.notMatch(reader.page, 'Try now', 'a token that cannot start runs has no button');
  const action = `${api.origin}/console/runs/${runId}/retry`;
  const body = new URLSearchParams({ csrf });
  t.equal((await fetch(action, { method: 'POST', headers, redirect: 'manual', body })).status, 303);
  await untilDone(api);
  t.match(await api.ports.queue.find(runId), { status: 'succeeded', attempt: 2 });
});

t.test('POST …/retry retries a waiting run immediately, and rejects a finished one', async (t) => {
  const api = await withWaitingRun(t);
  const retry = (): Promise<Response> =>
    fetch(`${api.origin}/v1/pipelines/maps/runs/${runId}/retry`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.maps}` },
    });
  const answer = await retry();
  t.equal(answer.status, 200);
  t.match(await answer.json(), { run_id: runId, attempt: 2, last_error: { code: 'storage_transient' } });
  await untilDone(api);
  const refused = await retry();
  t.equal(refused.status, 409);
  t.match(await refused.json(), { code: 'run_finished' });
});
