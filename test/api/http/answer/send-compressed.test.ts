import t from 'tap';
import { startApi, tokens, upload } from '../../harness.ts';

t.test('compresses documents, metrics and run lists for clients that accept it', async (t) => {
  const { origin } = await startApi(t);
  for (let sent = 0; sent < 5; sent += 1) await upload(origin);
  const headers = { Authorization: `Bearer ${tokens.maps}` };
  for (const path of ['/openapi.json', '/docs', '/metrics', '/v1/runs', '/v1/pipelines/maps/runs']) {
    const plain = await get(`${origin}${path}`, { ...headers, 'Accept-Encoding': 'identity' });
    t.equal(plain.headers.get('content-encoding'), null, `${path}, plain`);
    for (const coding of ['br', 'gzip']) {
      const answer = await get(`${origin}${path}`, { ...headers, 'Accept-Encoding': coding });
      t.equal(answer.headers.get('content-encoding'), coding, `${path}, ${coding}`);
      t.match(answer.headers.get('vary'), 'Accept-Encoding', path);
      t.ok(sizeOf(answer) < sizeOf(plain) / 2, `${path}: ${sizeOf(answer)} of ${sizeOf(plain)} bytes`);
      t.not(answer.headers.get('etag'), plain.headers.get('etag'), `${path}: one tag per coding`);
    }
  }
});

async function get(url: string, headers: Record<string, string>): Promise<Response> {
  const response = await fetch(url, { headers });
  await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`${url}: ${response.status}`);
  return response;
}

function sizeOf({ headers }: Response): number {
  return Number(headers.get('content-length'));
}
