import { rm, writeFile } from 'node:fs/promises';
import t from 'tap';
import { stageUpload } from '../../src/core/bundle/staging.ts';
import { bundleTar } from '../fixtures/tar.ts';
import { connect, startApi, upload, uploadHead } from './harness.ts';

const body = bundleTar({ 'index.html': 'x' }, { name: 'session-1' });
const settings = { stage: stageUpload, maxUploadSize: 100_000 };

t.test('staging that was removed underneath is made again, by an upload or a health check', async (t) => {
  const { origin, stagingDirectory, staged } = await startApi(t, settings);
  await rm(stagingDirectory, { recursive: true });
  t.equal((await upload(origin, { body })).status, 202);
  t.equal((await staged()).length, 1);
  await rm(stagingDirectory, { recursive: true });
  t.equal((await fetch(`${origin}/healthz`)).status, 200);
  t.same(await staged(), [], 'and what it tried is gone');
});

t.test('staging that cannot be used makes uploads and readiness 503 until it can', async (t) => {
  const { origin, stagingDirectory, lines } = await startApi(t, settings);
  await rm(stagingDirectory, { recursive: true });
  await writeFile(stagingDirectory, 'a file where the directory was');
  for (const response of [await upload(origin, { body }), await fetch(`${origin}/healthz`)]) {
    t.equal(response.status, 503);
    t.match(response.headers.get('retry-after'), /^\d+$/);
    const text = await response.text();
    t.match(JSON.parse(text), { code: 'staging_unavailable', retryable: true });
    t.match(text, /uploads cannot be staged: E[A-Z]+/);
    t.notMatch(text, stagingDirectory, 'where it is, only the log tells');
  }
  const failures = lines.filter(({ message }) => message === 'request failed');
  t.equal(failures.length, 2);
  t.match(String((failures[0]?.fields['err'] as { cause: unknown }).cause), stagingDirectory);
  await rm(stagingDirectory);
  t.equal((await fetch(`${origin}/healthz`)).status, 200);
  t.equal((await upload(origin, { body })).status, 202);
});

t.test('an upload whose staging goes while it is received is 503, and no defect of waybill', async (t) => {
  const { origin, stagingDirectory, staged } = await startApi(t, settings);
  const { socket, until } = await connect(t, origin);
  socket.write(uploadHead({ 'Content-Length': body.length }));
  socket.write(body.subarray(0, 512));
  while ((await staged()).length === 0) await new Promise((resolve) => setImmediate(resolve));
  await rm(stagingDirectory, { recursive: true });
  socket.write(body.subarray(512));
  t.match(await until(/\r\n\r\n\{.*\}/), /^HTTP\/1.1 503 [^]*"code":"staging_unavailable"/);
});
