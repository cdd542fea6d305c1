import t, { type Test } from 'tap';
import { connect, exchangedToken, type IdTokenOptions, type IssuedToken } from '../../src/client/client.ts';
import { type Api, publishersOf, startApi, upload } from '../api/harness.ts';
import { claims, publisherOf } from '../api/publishers/exchange.ts';
import { type Issuer, startIssuer } from '../services/issuer.ts';
import { manualClock } from '../workers/manual-clock.ts';

interface Place {
  api: Api;
  issuer: Issuer;
  /** ID tokens that the client used. */
  taken: string[];
  clientWith: (more?: Partial<IdTokenOptions>) => ReturnType<typeof connect>;
}

async function start(t: Test, more: Parameters<typeof publisherOf>[1] = {}): Promise<Place> {
  const issuer = await startIssuer(t);
  const api = await startApi(t, { publishers: [publisherOf(issuer.url, more)] });
  const taken: string[] = [];
  const idToken = async (): Promise<string> => {
    taken.push(await issuer.sign(claims));
    return taken.at(-1) ?? '';
  };
  const clientWith: Place['clientWith'] = (options) =>
    connect({
      url: api.origin,
      patience: { baseMs: 1, capMs: 5 },
      token: exchangedToken({ idToken, isRenewable: true, clock: manualClock(), ...options }),
    });
  return { api, issuer, taken, clientWith };
}

async function runsOf(client: ReturnType<typeof connect>): Promise<unknown[]> {
  const runs: unknown[] = [];
  for await (const run of client.runs.list()) runs.push(run);
  return runs;
}

t.test('one token serves many requests, and is renewed after two thirds of its lifetime', async (t) => {
  const { taken, clientWith } = await start(t);
  const clock = manualClock();
  const issued: IssuedToken[] = [];
  const client = clientWith({ clock, pipeline: 'maps', onIssued: (one) => void issued.push(one) });
  await Promise.all([runsOf(client), runsOf(client), client.pipelines()]);
  t.equal(taken.length, 1, 'concurrent requests share an exchange');
  await clock.advance(599_000);
  await runsOf(client);
  t.equal(taken.length, 1);
  await clock.advance(1_000);
  await runsOf(client);
  t.equal(taken.length, 2);
  t.same(issued, [
    { publisherId: 'site-ci', subject: 'job', pipelines: ['maps'], scopes: ['upload', 'read'] },
  ]);
});

t.test('a token that the daemon no longer accepts is replaced once', async (t) => {
  const { api, issuer, taken, clientWith } = await start(t);
  const client = clientWith();
  await runsOf(client);
  const rules = { repository_id: '12345' };
  api.reconfigure((access) => ({
    ...access,
    publishers: publishersOf([publisherOf(issuer.url, { claims: rules })]),
  }));
  await runsOf(client);
  t.equal(taken.length, 2);
  api.reconfigure((access) => ({ ...access, publishers: publishersOf([]) }));
  await t.rejects(runsOf(client), { code: 'id_token_refused' });
  t.equal(taken.length, 3);
});

t.test('an ID token that cannot be renewed is exchanged once', async (t) => {
  const { api, taken, clientWith } = await start(t);
  const client = clientWith({ isRenewable: false });
  await runsOf(client);
  api.reconfigure((access) => ({ ...access, publishers: publishersOf([]) }));
  await t.rejects(runsOf(client), { code: 'unauthorized' });
  t.equal(taken.length, 1);
});

t.test('a stream continues with another token when its token expires', async (t) => {
  const { api, taken, clientWith } = await start(t, { maxLifetimeMs: 1_000 });
  const { origin } = api;
  const followed = clientWith().runs.follow({ pipelines: ['maps'] });
  const first = followed.next();
  while (taken.length < 2) await new Promise((resolve) => setImmediate(resolve));
  t.equal((await upload(origin)).status, 202);
  t.match(await first, { done: false, value: { pipeline_id: 'maps' } });
  await followed.return(undefined);
});
