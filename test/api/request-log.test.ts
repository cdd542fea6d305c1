import t from 'tap';
import { startApi, upload } from './harness.ts';

t.test('a line has the route, the bytes both ways and the time', async (t) => {
  const { origin, lines } = await startApi(t);
  const response = await upload(origin, { body: 'x'.repeat(321) });
  const body = await response.text();
  await (await fetch(`${origin}/runs/none`, { method: 'HEAD' })).text();
  await (await fetch(`${origin}/elsewhere?token=x`)).text();
  const [first, second, third] = lines.map(({ fields }) => fields);
  t.match(first, {
    method: 'POST',
    route: '/v1/pipelines/{pipeline_id}/upload',
    path: '/v1/pipelines/maps/upload',
    status: 202,
    bytes_received: 321,
    bytes_sent: body.length,
    request_id: response.headers.get('x-request-id'),
  });
  t.type(first?.['ms'], 'number');
  t.match(second, {
    route: '/runs/{run_id}',
    path: '/runs/none',
    status: 404,
    bytes_received: 0,
    bytes_sent: 0,
  });
  t.match(third, { route: null, path: '/elsewhere', status: 404, code: 'not_found' });
});

t.test('the client is who the connection comes from, and whom a trusted proxy names', async (t) => {
  const forwarded = { 'x-forwarded-for': '203.0.113.9' };
  for (const [trustedProxies, client] of [
    [[], '127.0.0.1'],
    [['192.0.2.1'], '127.0.0.1'],
    [['loopback'], '203.0.113.9'],
  ] as const) {
    const { origin, lines } = await startApi(t, { http: { trustedProxies: [...trustedProxies] } });
    await (await fetch(`${origin}/healthz`, { headers: forwarded })).text();
    t.equal(lines[0]?.fields['client'], client);
  }
});
