import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type net from 'node:net';
import path from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import {
  type Client,
  connect,
  type ConnectionOptions,
  type MissingPart,
  type PushOptions,
} from '../../src/client/client.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import { type Api, startApi, tokens } from '../api/harness.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';

/** A push sends the files that the daemon does not have, and handles several unusual cases. */

const fileBytes = 20_000;
const count = 9;
const all = count * fileBytes;
/** Manifest, file heads and responses of one push. */
const besides = 20_000;

interface Place {
  api: Api;
  site: string;
  client: (options?: Partial<ConnectionOptions>) => Client;
  /** The bytes sent to the daemon so far. */
  sent: () => number;
  change: (name: string) => void;
}

async function layOut(t: Test, keep: { maxBytes?: number } = {}): Promise<Place> {
  const api = await startApi(t, { keep, maxUploadSize: 10 * all, resumable: { maxBytes: 10 * all } });
  await api.ports.queue.start(async () => ({
    run: { dryRun: false, force: false, pipelines: [], counters: {} as never, warnings: [] },
  }));
  const line = await startCuttingProxy(t, Number(new URL(api.origin).port));
  const site = t.testdir({});
  const change = (name: string): void => writeFileSync(path.join(site, name), randomBytes(fileBytes));
  for (let index = 0; index < count; index += 1) change(`file-${index}`);
  return {
    api,
    site,
    change,
    sent: () => line.passed('to the server'),
    client: (options) =>
      connect({
        url: `http://127.0.0.1:${line.port}`,
        token: tokens.maps,
        patience: { baseMs: 1, capMs: 10, forMs: 60_000, tries: 3 },
        clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 50), signal) },
        ...options,
      }),
  };
}

async function pushed(
  place: Place,
  options: PushOptions & { created?: string } = {},
): Promise<{ bytes: number; parts: MissingPart[]; isReplayed: boolean }> {
  const before = place.sent();
  const parts: MissingPart[] = [];
  const outcome = await place.client().push('maps', place.site, {
    name: 'site',
    wait: false,
    onPart: (part) => void parts.push(part),
    ...options,
  });
  return { bytes: place.sent() - before, parts, isReplayed: outcome.isReplayed };
}

for (const resumable of ['never', 'always'] as const)
  t.test(`a second push sends only changes (resumable: ${resumable})`, async (t) => {
    const place = await layOut(t);
    const first = await pushed(place, { resumable });
    t.same(first.parts, []);
    t.ok(first.bytes > all);
    place.change('file-3');
    const second = await pushed(place, { resumable });
    t.match(second.parts, [{ files: 1, ofFiles: count }]);
    t.ok(second.bytes < fileBytes + besides, `${second.bytes} bytes`);
    t.notOk(second.isReplayed);
    rmSync(path.join(place.site, 'file-5'));
    const third = await pushed(place, { resumable });
    t.match(third.parts, [{ files: 0, ofFiles: count - 1 }]);
    t.ok(third.bytes < besides, `${third.bytes} bytes`);
    t.ok((await pushed(place, { resumable })).isReplayed, 'repeating it returns the same run');
    const whole = await pushed(place, { resumable, whole: true, created: '2026-01-01T00:00:00Z' });
    t.same(whole.parts, []);
    t.ok(whole.bytes > all - fileBytes);
  });

t.test('requests the list again if files vanish before the upload, then sends everything', async (t) => {
  const place = await layOut(t);
  const { content } = place.api.ports.uploads;
  const clear = (): void => (content as unknown as { clear: () => void }).clear();
  const next = (): string => new Date(Date.UTC(2026, 0, 1, 0, 0, (seconds += 1))).toISOString();
  let seconds = 0;
  await pushed(place);
  let clears = 1;
  const onPart = (part: MissingPart): void => {
    parts.push(part);
    if (clears-- > 0) clear();
  };
  let parts: MissingPart[] = [];
  place.change('file-0');
  const once = await pushed(place, { created: next(), onPart });
  // The files of the first part are stored. The daemon has none of the others.
  t.match(parts, [
    { files: 1, ofFiles: count },
    { files: count - 1, ofFiles: count },
  ]);
  t.notOk(once.isReplayed);
  [parts, clears] = [[], 2];
  place.change('file-0');
  await pushed(place, { created: next(), onPart });
  t.equal(parts.length, 2);
});

t.test('publishes a bundle that exceeds the limit of stored files', async (t) => {
  const place = await layOut(t, { maxBytes: 5 * (fileBytes + 4096) });
  await pushed(place);
  place.change('file-0');
  const { isReplayed } = await pushed(place);
  t.notOk(isReplayed);
  t.ok(place.api.ports.uploads.content.missing('maps', []).length === 0);
});

t.test('a directory with its own manifest is accepted with any subset of digests and sizes', async (t) => {
  const place = await layOut(t);
  const names = Array.from({ length: count }, (_, index) => `file-${index}`);
  let pushes = 0;
  const entry = fc.record({ digest: fc.boolean(), size: fc.boolean(), change: fc.boolean() });
  const entries = fc.array(entry, { minLength: count, maxLength: count });
  const push = async (declared: { digest: boolean; size: boolean; change: boolean }[]): Promise<void> => {
    declared.forEach(({ change }, index) => change && place.change(`file-${index}`));
    const files = names.map((name, index) => ({
      path: name,
      ...(declared[index]?.size === true ? { size: fileBytes } : {}),
      ...(declared[index]?.digest === true
        ? { digest: digestOf(readFileSync(path.join(place.site, name))) }
        : {}),
    }));
    const created = new Date(Date.UTC(2026, 0, 1, 0, 0, (pushes += 1))).toISOString();
    writeFileSync(path.join(place.site, 'manifest.json'), JSON.stringify({ name: 'site', created, files }));
    const parts: MissingPart[] = [];
    const options = { wait: false, onPart: (part: MissingPart) => void parts.push(part) };
    const { isReplayed } = await place.client().push('maps', place.site, options);
    t.equal(isReplayed, false);
    // A file that the daemon cannot find is sent. Others are sent only if they changed.
    const needed = declared.filter(({ digest, change }) => !digest || change).length;
    t.equal(parts.at(-1)?.files ?? count, pushes === 1 ? count : needed);
  };
  const all = { digest: false, size: false, change: false };
  await push(names.map(() => all));
  await fc.assert(fc.asyncProperty(entries, push), { numRuns: 20, endOnFailure: true });
});

t.test('a daemon without part uploads gets whole archives', async (t) => {
  const off = await layOut(t, { maxBytes: 0 });
  await pushed(off);
  off.change('file-1');
  const again = await pushed(off);
  t.same(again.parts, []);
  t.ok(again.bytes > all);

  // A proxy that accepts no manifest, and a server without this route and with its own error format.
  for (const [status, body] of [
    [413, '<html>too long'],
    [404, 'not here'],
    [405, ''],
  ] as const) {
    const place = await layOut(t);
    await pushed(place);
    const { port } = new URL(place.api.origin);
    const proxy = http.createServer((req, res) => {
      if (req.url?.endsWith('/missing') === true) {
        req.resume();
        res.writeHead(status).end(body);
        return;
      }
      const { method = 'GET', url = '/', headers } = req;
      const onward = http.request({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
        res.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(res);
      });
      onward.on('continue', () => res.writeContinue());
      req.pipe(onward);
    });
    proxy.on('checkContinue', (req, res) => proxy.emit('request', req, res));
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    t.teardown(() => proxy.closeAllConnections());
    t.teardown(() => void proxy.close());
    place.change('file-1');
    const parts: MissingPart[] = [];
    const url = `http://127.0.0.1:${(proxy.address() as net.AddressInfo).port}`;
    const options = { name: 'site', wait: false, onPart: (part: MissingPart) => void parts.push(part) };
    const outcome = await place.client({ url }).push('maps', place.site, options);
    t.match(outcome, { isReplayed: false }, String(status));
    t.same(parts, []);
  }
});

t.test('a small bundle is sent without requesting the list of missing files', async (t) => {
  const place = await layOut(t);
  for (let index = 1; index < count; index += 1) rmSync(path.join(place.site, `file-${index}`));
  await pushed(place);
  writeFileSync(path.join(place.site, 'other'), 'x');
  t.same((await pushed(place)).parts, []);
});
