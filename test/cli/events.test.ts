import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import type { Event } from '../../src/core/notify/event.ts';
import { deadPort, startReceiver } from '../core/notify/receiver.ts';
import { configuration, document, type Ended, manifest, program, root, web } from './process.ts';

/** The built program and real receivers, which run in this process. */

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const everything = 'events: [bundle.published, bundle.publish_failed, outputs.pruned]';

interface Place {
  directory: string;
  start: (args: string[]) => ChildProcess;
  run: (...args: string[]) => Promise<Ended>;
}

function layOut(t: Test, notifiers: string[], destinations = [web]): Place {
  const directory = t.testdir({
    source: { one: { 'a.txt': 'a', 'manifest.json': manifest(['a.txt'], undefined, { name: 'one' }) } },
  });
  const more = `notifiers:\n${notifiers.map((one) => `  - {${one}}`).join('\n')}\n`;
  writeFileSync(path.join(directory, 'c.yml'), configuration(destinations, more));
  const start = ([command = '', ...args]: string[]): ChildProcess =>
    spawn(process.execPath, [program, ...command.split(' '), '-c', 'c.yml', ...args], {
      cwd: directory,
      env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', HOOK: secret, BAD: 'whsec_no' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  return { directory, start, run: async (...args) => ended(start(args)) };
}

async function ended(child: ChildProcess): Promise<Ended> {
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, stdout, stderr };
}

const hook = (url: string, more = 'timeout: 5s'): string =>
  `id: hook, kind: webhook, url: "${url}", secret_env: HOOK, ${more}`;
const change = ({ directory }: Place, text: string): void =>
  writeFileSync(path.join(directory, 'source/one/a.txt'), text);

t.test('sends an event per committed destination, and none for skip_same or a dry run', async (t) => {
  const states: unknown[] = [];
  const receiver = await startReceiver(t, (response, _attempt, { event }) => {
    const { destination_id: id, destination_path: at } = event.data as {
      destination_id: string;
      destination_path: string;
    };
    states.push(JSON.parse(readFileSync(path.join(place.directory, id, at, '.publisher.json'), 'utf8')));
    response.writeHead(204).end();
  });
  const place = layOut(t, [hook(receiver.url)], [web, root]);
  t.equal((await place.run('run', '--dry-run')).status, 0);
  t.equal(receiver.received.length, 0, 'a dry run sends no event');

  t.equal((await place.run('run')).status, 0);
  t.same(
    receiver.received.map(({ event }) => (event.data as { destination_id: string }).destination_id).sort(),
    ['root', 'web'],
  );
  for (const state of states)
    t.match(state, { pending: null, outputs: [{ path: 'a.txt' }] }, 'the commit came first');
  for (const { body, headers, event } of receiver.received) {
    t.same(new Webhook(secret).verify(body, headers as Record<string, string>), event);
    t.match(event, {
      type: 'bundle.published',
      data: {
        pipeline_id: 'maps',
        run_id: null,
        action: 'publish_new',
        bundle: { path: 'one', name: 'one', created: '2026-11-20T01:02:03.000Z' },
        counts: { outputs_written: 1 },
        outputs: [{ path: 'a.txt', size: 1 }],
      },
    });
    t.notOk(body.includes(place.directory), 'no local path');
  }
  t.match(await place.run('run'), { status: 0, stdout: /skip_same=2/ });
  t.equal(receiver.received.length, 2, 'no event without a change');
});

t.test('sends only failures to subscribers of failures', async (t) => {
  const receiver = await startReceiver(t);
  const place = layOut(
    t,
    [hook(receiver.url), 'id: all, kind: file, path: ./events.jsonl, ' + everything],
    [web, root],
  );
  mkdirSync(path.join(place.directory, 'web/one'), { recursive: true });
  writeFileSync(path.join(place.directory, 'web/one/mine.txt'), 'mine');
  mkdirSync(path.join(place.directory, 'source/bad'));
  writeFileSync(path.join(place.directory, 'source/bad/manifest.json'), '{"created": 7}');
  t.equal((await place.run('run')).status, 1);
  t.equal(receiver.received.length, 0, 'it subscribes to publications only');
  const events = eventsIn(place);
  t.same(
    events.map(({ type, data }) => [type, (data as { destination_id: string }).destination_id]).sort(),
    [
      ['bundle.publish_failed', null],
      ['bundle.publish_failed', 'root'],
      ['bundle.publish_failed', 'web'],
    ].sort(),
  );
  t.match(
    events.find(({ data }) => 'destination_id' in data && data.destination_id === 'web'),
    {
      data: { action: 'fail_unmanaged', error: { code: 'unmanaged_content' }, bundle: { path: 'one' } },
    },
  );
  t.notOk(JSON.stringify(events).includes(place.directory));
});

t.test(
  'an unreachable receiver is a warning, in text and JSON, and every destination is published',
  async (t) => {
    const alive = await startReceiver(t);
    const dead = `http://127.0.0.1:${await deadPort()}/path-with-a-secret`;
    const place = layOut(t, [hook(dead), hook(alive.url).replace('hook', 'alive')], [web, root]);
    const result = await place.run('run', '--format', 'json');
    t.equal(result.status, 0, result.stderr);
    const { warnings, counters } = document(t, result) as {
      warnings: { code: string; message: string }[];
      counters: object;
    };
    t.match(counters, { publish_new: 2, failed_destinations: 0 });
    t.equal(warnings.filter(({ code }) => code === 'event_not_delivered').length, 2);
    t.match(
      warnings[0]?.message,
      /notifier "hook".* not delivered in 4 tries: the receiver cannot be reached \(ECONNREFUSED\)/,
    );
    t.notMatch(JSON.stringify(result), /path-with-a-secret/);
    t.equal(alive.received.length, 2, 'the other receiver got both');
    change(place, 'b');
    t.match(await place.run('run'), { status: 0, stderr: /warning {2}notifier "hook"/ });
  },
);

t.test('a log notifier writes to stderr and leaves stdout unchanged', async (t) => {
  const place = layOut(t, ['id: said, kind: log']);
  const { stdout, stderr, status } = await place.run('run');
  t.equal(status, 0);
  t.notMatch(stdout, /msg_/);
  t.match(JSON.parse(/^event {2}(.*)$/m.exec(stderr)?.[1] ?? ''), { type: 'bundle.published' });
});

t.test('prune sends an event for its removals, and none in a dry run', async (t) => {
  const place = layOut(
    t,
    ['id: all, kind: file, path: ./events.jsonl, events: [outputs.pruned]'],
    [`${web}, retention: {prune: {enabled: true, keep_latest: 0}}`],
  );
  t.equal((await place.run('run')).status, 0);
  const which = ['-p', 'maps', '-d', 'web'];
  t.equal((await place.run('prune', ...which, '--dry-run')).status, 0);
  t.notOk(existsSync(path.join(place.directory, 'events.jsonl')));
  t.equal((await place.run('prune', ...which, '--apply')).status, 0);
  t.match(eventsIn(place), [
    {
      type: 'outputs.pruned',
      data: {
        pipeline_id: 'maps',
        destination_id: 'web',
        counts: { outputs_removed: 1 },
        outputs: [{ destination_path: 'one', path: 'a.txt' }],
      },
    },
  ]);
});

t.test('unpublish sends an event for its removals, and none in a dry run', async (t) => {
  const place = layOut(t, ['id: all, kind: file, path: ./events.jsonl, events: [bundle.unpublished]']);
  t.equal((await place.run('run')).status, 0);
  const which = ['one', '-p', 'maps', '-d', 'web'];
  t.equal((await place.run('unpublish', ...which, '--dry-run')).status, 0);
  t.notOk(existsSync(path.join(place.directory, 'events.jsonl')));
  t.equal((await place.run('unpublish', ...which)).status, 0);
  t.match(eventsIn(place), [
    {
      type: 'bundle.unpublished',
      data: {
        pipeline_id: 'maps',
        destination_path: 'one',
        run_id: null,
        reason: 'unpublish',
        counts: { outputs_removed: 1 },
        outputs: [{ path: 'a.txt' }],
      },
    },
  ]);
});

t.test('SIGTERM while a receiver fails lets the current attempt finish, and the program ends', async (t) => {
  const receiver = await startReceiver(t, (response) => {
    child.kill('SIGTERM');
    // The response arrives only after the signal has been reported.
    child.stderr?.once('data', () => response.writeHead(503).end());
  });
  const place = layOut(t, [hook(receiver.url, 'timeout: 60s')]);
  const child = place.start(['run']);
  const { status, stderr } = await ended(child);
  t.equal(status, 143);
  t.equal(receiver.received.length, 1);
  t.match(stderr, /not delivered in one try: http:\/\/127.0.0.1:\d+ answered 503/);
  t.ok(existsSync(path.join(place.directory, 'web/one/a.txt')), 'it was published anyway');
});

t.test('SIGKILL between commit and delivery loses the event of a published bundle', async (t) => {
  const receiver = await startReceiver(t, () => child.kill('SIGKILL'));
  const place = layOut(t, [hook(receiver.url)]);
  const child = place.start(['run']);
  await once(child, 'close');
  t.equal(receiver.received.length, 1);
  t.match(await place.run('run'), { status: 0, stdout: /skip_same=1/ });
  t.equal(receiver.received.length, 1, 'the next run sends no event');
  t.equal((await place.run('verify')).status, 0);
});

t.test('a missing or malformed signing secret stops a command before it begins', async (t) => {
  for (const [value, message] of [
    ['NOT_THERE', /NOT_THERE/],
    ['BAD', /signing secret BAD /],
  ] as const) {
    const place = layOut(t, [hook('http://127.0.0.1:9/').replace('HOOK', value)]);
    for (const args of [['run'], ['run', '--dry-run'], ['notify test']])
      t.match(await place.run(...args), { status: 2, stderr: message, stdout: '' });
    t.notOk(existsSync(path.join(place.directory, 'web')));
  }
});

t.test('notify test reports the result for each notifier', async (t) => {
  const receiver = await startReceiver(t);
  const dead = `http://127.0.0.1:${await deadPort()}/`;
  const place = layOut(t, [
    `${hook(receiver.url)}, events: [outputs.pruned]`,
    'id: file, kind: file, path: ./events.jsonl',
    hook(dead).replace('hook', 'dead'),
  ]);
  const all = await place.run('notify test', '--format', 'json');
  t.equal(all.status, 1);
  t.match(document(t, all), {
    delivered: false,
    notifiers: [
      { notifier_id: 'hook', kind: 'webhook', delivered: true, reason: null },
      { notifier_id: 'file', kind: 'file', delivered: true },
      { notifier_id: 'dead', delivered: false, reason: /ECONNREFUSED/ },
    ],
  });
  t.match(receiver.received, [{ event: { type: 'notifier.test', data: { notifier_id: 'hook' } } }]);
  t.match(eventsIn(place), [{ type: 'notifier.test' }]);
  const one = await place.run('notify test', '--notifier', 'hook');
  t.match(one, { status: 0, stdout: /✓ {2}hook {2}webhook {2}delivered in \d+ ms/ });
  t.match(await place.run('notify test', '--notifier', 'hok'), { status: 2, stderr: /did you mean "hook"/ });
});

t.test('an unwritable file is a warning', async (t) => {
  const place = layOut(t, ['id: file, kind: file, path: ./no/such/events.jsonl']);
  t.match(await place.run('run'), { status: 0, stderr: /notifier "file".*ENOENT/ });
});

function eventsIn({ directory }: Place): Event[] {
  return readFileSync(path.join(directory, 'events.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Event);
}
