import { readdirSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { bundleTar } from '../../fixtures/tar.ts';
import { howMany, seed } from '../../support/sampling.ts';
import { connect, startApi, tokens, uploadHead } from '../harness.ts';

const bundle = bundleTar({ 'index.html': 'x'.repeat(3000) }, { name: 'session-1' });
const limits = { maxUploadSize: 100_000 };

t.test('two hundred clients that disconnect at any byte leave no files, and free their slots', async (t) => {
  const api = await startApi(t, { stage: stageUpload, ...limits, http: { queueSize: 4 } });
  const head = Buffer.from(uploadHead({ 'Content-Length': bundle.length }));
  const whole = Buffer.concat([head, bundle]);
  const handles = (): number => readdirSync('/proc/self/fd').length;
  const before = handles();
  const offsets = Array.from(
    { length: 200 },
    (_, index) => Math.floor((whole.length * (index * 7919)) / 200) % whole.length,
  );
  for (let at = 0; at < offsets.length; at += 20)
    await Promise.all(
      offsets.slice(at, at + 20).map(async (bytes) => {
        const { socket, closed } = await connect(t, api.origin);
        await new Promise((resolve) => socket.write(whole.subarray(0, bytes), resolve));
        socket.destroy();
        await closed.catch(() => undefined);
      }),
    );
  const upload = (): Promise<Response> =>
    fetch(`${api.origin}/v1/pipelines/maps/upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.maps}`, 'content-type': 'application/x-tar' },
      body: bundle,
    });
  // The daemon may not have noticed every disconnect yet. A leaked slot would never become free.
  for (let taken = 0; taken < 4;) {
    const { status } = await upload();
    if (status === 202) taken++;
    else await systemClock.sleep(5);
  }
  while ((await api.staged()).length > 4) await systemClock.sleep(5);
  t.equal((await api.staged()).length, 4, 'four slots are free after all clients disconnected');
  t.equal((await upload()).status, 503, 'there never was a fifth');
  t.ok(handles() <= before + 10, `${before} → ${handles()} open files`);
});

t.test('any headers lead to one answer or a closed connection (property)', async (t) => {
  const api = await startApi(t, { stage: stageUpload, ...limits, http: { queueSize: 1000 } });
  t.comment(`seed ${seed}`);
  const printable = fc.string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
    maxLength: 40,
  });
  const bytes = fc.string({
    unit: fc.integer({ min: 0x80, max: 0xff }).map((code) => String.fromCharCode(code)),
    maxLength: 10,
  });
  const of = (...values: string[]): fc.Arbitrary<string> =>
    fc.oneof(fc.constantFrom(...values), printable, bytes);
  const headers = fc.record(
    {
      Authorization: of(
        `Bearer ${tokens.maps}`,
        `bearer ${tokens.maps}`,
        'Bearer',
        'Bearer  ',
        'Basic eDp5',
        `Bearer ${tokens.docs}`,
      ),
      'Content-Type': of(
        'application/x-tar',
        'APPLICATION/GZIP',
        'application/x-tar; charset=x',
        'multipart/form-data; boundary=x',
        ';',
      ),
      'Content-Length': of(String(bundle.length), '0', '-1', '99999999999999999999', '1e3', '12, 12', '+5'),
      'Content-Encoding': of('gzip', 'identity', ''),
      'Transfer-Encoding': of('chunked', 'gzip, chunked', 'identity', 'chunked, chunked'),
      'Idempotency-Key': of('k', ' ', '"', 'k'.repeat(256)),
      Expect: of('100-continue', '200-ok'),
      Connection: of('close', 'keep-alive', 'upgrade'),
      Upgrade: of('h2c', 'websocket'),
      'X-Forwarded-For': of('203.0.113.9', 'unknown', ','),
    },
    { requiredKeys: [] },
  );
  const target = fc.constantFrom(
    '/v1/pipelines/maps/upload',
    '/v1/pipelines/maps/upload/form',
    '/v1/pipelines/%6daps/upload',
    '/v1/pipelines/%ZZ/upload',
    '/v1/pipelines/maps/../maps/upload',
    '//v1/pipelines/maps/upload',
    '/v1/pipelines/maps/upload?x=1',
    '/runs/..',
  );
  await fc.assert(
    fc.asyncProperty(headers, target, fc.boolean(), async (fields, path, sendsBody) => {
      const { socket, closed } = await connect(t, api.origin);
      const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\n${lines.join('')}\r\n`, 'latin1');
      if (sendsBody) socket.write(bundle);
      // No more bytes follow, so a daemon that still waits for some would give up now.
      socket.end();
      const text = await closed.catch(() => '');
      const answers = text.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, '');
      return answers === '' || /^HTTP\/1\.1 [1-5]\d\d /.test(answers);
    }),
    { numRuns: howMany(300, 60) },
  );
  t.equal((await fetch(`${api.origin}/healthz`)).status, 200);
  while ((await stagedWithoutRun()) > 0) await systemClock.sleep(5);
  t.equal(await stagedWithoutRun(), 0, 'only accepted uploads are staged');

  async function stagedWithoutRun(): Promise<number> {
    const { queued, running } = await api.ports.queue.depth();
    return (await api.staged()).length - queued - running;
  }
});
