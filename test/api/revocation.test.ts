import t, { type Test } from 'tap';
import type { ApiAccess } from '../../src/api/api-services.ts';
import { type Api, connect, stageAnything, startApi, tokens, upload } from './harness.ts';
import { begin, send as sendBytes } from './resumable/tus.ts';
import { answered, stalledClients } from './stalled-bodies.ts';

/** If a token is removed by a reload or expires, its active requests end. */

const withoutTokens = (access: ApiAccess): ApiAccess => ({ ...access, tokens: [], adminToken: null });
const withExpiredTokens = (access: ApiAccess): ApiAccess => ({
  ...access,
  tokens: access.tokens.map((token) => ({ ...token, expiresAt: new Date(0) })),
});
const formType = 'multipart/form-data; boundary=x';
const asForm = (archive: string): string =>
  `--x\r\nContent-Disposition: form-data; name="bundle"; filename="b.tar"\r\n\r\n${archive}\r\n--x--\r\n`;

async function cookieOf({ origin }: Api): Promise<string> {
  const body = new URLSearchParams({ token: tokens.maps });
  const login = await fetch(`${origin}/console/login`, { method: 'POST', body, redirect: 'manual' });
  return login.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
}

t.test('a body ends soon after its token is removed, on every route that has one', async (t) => {
  const api = await startApi(t);
  const clients = await stalledClients(t, api, '-');
  while (api.ports.bodyMemory.held() < 3) await new Promise((resolve) => setImmediate(resolve));
  api.reconfigure(withoutTokens);
  for (const { name, until, socket } of clients) {
    if (!/^(validateSceneMap|exchangeToken) /.test(name))
      t.match(await until(answered), /^HTTP\/1.1 401 [^]*"code":"unauthorized"/, name);
    socket.destroy();
  }
});

t.test('the body of a console upload ends soon after its session', async (t) => {
  const api = await startApi(t);
  const cookie = await cookieOf(api);
  const { socket, until } = await connect(t, api.origin);
  const head = ['POST /console/pipelines/maps/upload HTTP/1.1', 'Host: x', `Cookie: ${cookie}`];
  const body = [`Content-Type: ${formType}`, 'Content-Length: 100', 'Accept: application/json'];
  socket.write(`${[...head, ...body].join('\r\n')}\r\n\r\n--x`);
  while ((await api.staged()).length === 0) await new Promise((resolve) => setImmediate(resolve));
  api.reconfigure(withoutTokens);
  t.match(await until(answered), /^HTTP\/1.1 401 [^]*"code":"unauthorized"/);
});

const ways: Record<string, (api: Api) => Promise<Response>> = {
  'a raw body': ({ origin }) => upload(origin),
  'a form': ({ origin }) =>
    fetch(`${origin}/v1/pipelines/maps/upload/form`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.maps}`, 'content-type': formType },
      body: asForm('x'),
    }),
  'the last bytes of a resumable upload': async ({ origin }) => sendBytes(await begin(origin, 1), 0, 'x'),
};
for (const [way, send] of Object.entries(ways))
  for (const [what, change, code] of [
    ['a reload removes its token', withoutTokens, 'unauthorized'],
    ['its token expires', withExpiredTokens, 'token_expired'],
  ] as const)
    t.test(`an upload by ${way} is refused if ${what} while it is staged`, async (t) => {
      const api: Api = await startApi(t, {
        stage: async (request) => {
          const staged = await stageAnything(request);
          api.reconfigure(change);
          return staged;
        },
      });
      const response = await send(api);
      t.equal(response.status, 401);
      t.match(await response.json(), { code });
      t.same((await api.ports.queue.list(['maps'], { limit: 1 })).runs, [], 'there is no run');
    });

t.test('a wait for the end of a run ends soon after its token is removed', async (t) => {
  const api = await startApi(t, { http: { protectRuns: true } });
  const { run_id: runId } = (await (await upload(api.origin)).json()) as { run_id: string };
  await untilWatched(t, api, async () => {
    const headers = { authorization: `Bearer ${tokens.maps}` };
    const response = await fetch(`${api.origin}/runs/${runId}?wait=60`, { headers });
    t.equal(response.status, 401);
  });
});

/** Removes all tokens while `request` waits for the end of a run. */
async function untilWatched(t: Test, api: Api, request: () => Promise<void>): Promise<void> {
  const { queue } = api.ports;
  const waiting = new Promise<void>((resolve) => {
    const untilFinished = queue.untilFinished.bind(queue);
    Object.assign(queue, {
      untilFinished: (...asked: Parameters<typeof untilFinished>) => (resolve(), untilFinished(...asked)),
    });
  });
  const done = request();
  await waiting;
  api.reconfigure(withoutTokens);
  await done;
  t.pass('the answer arrived');
}

t.test('a stream of the console ends soon after its token is removed', async (t) => {
  const api = await startApi(t);
  const headers = { cookie: await cookieOf(api) };
  const response = await fetch(`${api.origin}/console/events`, { headers });
  t.equal(response.status, 200);
  api.reconfigure(withoutTokens);
  t.match(await response.text(), /event: end\n[^]*"reason":"token_revoked"/);
});
