import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { chainStart, nextRecord } from '../../../src/core/audit/record.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { DeliveryOutcome } from '../../../src/core/notify/delivery-queue.ts';
import { eventOf, type Occurrence } from '../../../src/core/notify/event.ts';
import { newEventId } from '../../../src/core/notify/event-id.ts';
import { isSubscribed, Notifier } from '../../../src/core/notify/notifier.ts';
import type { Outbox } from '../../../src/core/notify/outbox.ts';
import { collectWarnings, outcomeWarning } from '../../../src/core/notify/outcome-warnings.ts';
import type { SendResult, Sink } from '../../../src/core/notify/sink.ts';
import type { NotifierConfig } from '../../../src/core/notify/sink-kinds.ts';
import {
  destinationFailure,
  pruneOccurrence,
  publicationOccurrence,
  sourceFailures,
  testOccurrence,
} from '../../../src/core/publish/results/occurrences.ts';
import type { ActionResult } from '../../../src/core/publish/results/result.ts';
import { bundleOf } from '../../faults/world.ts';
import { impatientClock } from './receiver.ts';

const owner = { pipelineId: 'maps', destinationId: 'web' };
const bundle = bundleOf({ 'a.txt': 'a' }, 'session-42');
const digest = `sha256:${'0'.repeat(64)}`;

function resultOf(over: Partial<ActionResult> = {}): ActionResult {
  return {
    bundle: 'session-42',
    destinationPath: 'session-42',
    action: 'publish_new',
    reason: null,
    changes: [{ path: 'a.txt', fate: 'add', why: 'not_recorded' }],
    unkept: [],
    outputs: [{ path: 'a.txt', kind: 'file', digest, size: 1, url: 'https://x/a.txt' }],
    release: null,
    channel: null,
    url: null,
    outputsWritten: 1,
    outputsLinked: 0,
    outputsKept: 4,
    outputsRemoved: 0,
    bytesWritten: 1,
    bytesLinked: 0,
    bytesKept: 40,
    error: null,
    ...over,
  };
}

const ajv = new Ajv2020({ allErrors: true });
(addFormats as unknown as (instance: Ajv2020) => void)(ajv);
interface EventSchema {
  $defs: Record<string, { properties: { data: { required: string[] } } } | undefined>;
}
const eventSchema = JSON.parse(readFileSync('schemas/event.schema.json', 'utf8')) as EventSchema;
const validate = ajv.compile(eventSchema as object);
const asJson = (occurrence: Occurrence | null): string =>
  JSON.stringify(eventOf(occurrence as Occurrence, newEventId(), new Date()));

const failure = errorRecord(
  new WaybillError('storage_denied', 'may not write "/srv/private/maps/a.txt"', {
    hint: 'look at /srv/private',
  }),
);
const failed = { pipelineId: 'maps', status: 'failed' as const, bundles: 0, destinations: [], warnings: [] };

const login: Occurrence = {
  type: 'audit.recorded',
  data: {
    record: nextRecord(
      chainStart,
      { act: 'login', result: 'done', actor: { type: 'user', id: 'ada' } },
      { time: new Date(0), host: 'h1' },
    ),
  },
};

t.test('lists written outputs first in an event, with the outcome of every output', async (t) => {
  const outputs = ['a', 'b', 'c', 'd'].map((name) => ({
    path: name,
    kind: 'file',
    digest,
    size: 1,
    url: null,
  }));
  const changes: ActionResult['changes'] = [
    { path: 'a', fate: 'keep', why: 'same' },
    { path: 'b', fate: 'change', why: 'content_differs' },
    { path: 'c', fate: 'refresh', why: 'url_differs' },
    { path: 'd', fate: 'add', why: 'not_recorded' },
    { path: 'old', fate: 'remove', why: 'omitted' },
  ];
  const occurrence = publicationOccurrence(owner, bundle, resultOf({ outputs, changes }), null);
  if (occurrence?.type !== 'bundle.published') throw new Error('another event');
  t.same(
    occurrence.data.outputs.map(({ path, fate }) => [path, fate]),
    [
      ['b', 'change'],
      ['d', 'add'],
      ['a', 'keep'],
      ['c', 'refresh'],
    ],
  );
  t.match(occurrence.data.counts, { outputs: 4, outputs_kept: 4, bytes_kept: 40 });
});

t.test('follows the schema in every event and never reveals a local path', async (t) => {
  const occurrences = [
    publicationOccurrence(owner, bundle, resultOf(), 'maps.1'),
    publicationOccurrence(owner, bundle, resultOf({ action: 'error', error: failure }), null),
    publicationOccurrence(owner, bundle, resultOf({ action: 'fail_unmanaged', error: failure }), null),
    destinationFailure(owner, failure, null),
    ...sourceFailures({ ...failed, invalidBundles: [{ bundle: 'b', error: failure }], error: failure }, null),
    pruneOccurrence(owner, [{ destinationPath: '.', path: 'a.txt' }], 1),
    testOccurrence('hook'),
    login,
  ];
  for (const occurrence of occurrences) {
    const text = asJson(occurrence);
    validate(JSON.parse(text));
    t.same(validate.errors ?? [], [], occurrence?.type ?? '');
    t.notMatch(text, /srv|private/);
  }
  t.equal(occurrences.length, 9);
});

t.test('the examples of the documentation are valid events', async (t) => {
  const page = readFileSync('docs/events.md', 'utf8');
  const examples = [...page.matchAll(/^```json\n(.*?)^```$/gms)].map(([, text = '']) => text);
  t.equal(examples.length, 2);
  const events = examples.map((text) => JSON.parse(text) as { data: { error?: Record<string, string> } });
  for (const event of events) {
    validate(event);
    t.same(validate.errors ?? [], []);
  }
  const { message = '', hint = '' } = events[1]?.data.error ?? {};
  const cause = message.slice(message.indexOf(': '));
  const printed = readFileSync('test/fixtures/mistakes.txt', 'utf8');
  t.ok(printed.includes(cause) && printed.includes(`next    ${hint}`), 'the failure has its real text');
  const chat = readFileSync('docs/notifications.md', 'utf8');
  t.ok(chat.includes(`${cause} (unmanaged_content)\nNext step: ${hint}\n`), 'also in the message for people');
  const rows = [...page.matchAll(/^\| ((?:`[a-z_.]+`,? )+) *\| ((?:`[a-z_]+`,? )+) *\|$/gm)];
  t.equal(rows.length, 5, 'the table of fields');
  for (const [, types = '', fields = ''] of rows)
    for (const type of wordsOf(types)) {
      const { required } = eventSchema.$defs[type]?.properties.data ?? { required: [] };
      const own = required.filter((name) => name !== 'pipeline_id' && name !== 'destination_id');
      t.same(wordsOf(fields), own, type);
    }
});

function wordsOf(cell: string): string[] {
  return [...cell.matchAll(/`(.*?)`/g)].map(([, word = '']) => word);
}

t.test('reports the commits of an interrupted run, with the final state of every output', async (t) => {
  const kept = resultOf({ action: 'skip_same', changes: [], outputsWritten: 0 });
  const occurrence = publicationOccurrence(owner, bundle, kept, 'maps.1', { reportsUnchanged: true });
  t.match(occurrence, {
    type: 'bundle.published',
    data: { run_id: 'maps.1', action: 'skip_same', outputs: [{ path: 'a.txt', fate: 'keep' }] },
  });
  validate(JSON.parse(asJson(occurrence)));
  t.same(validate.errors ?? [], []);
  t.equal(publicationOccurrence(owner, bundle, kept, 'maps.1'), null);
});

t.test('sends no event when nothing changed', async (t) => {
  t.equal(publicationOccurrence(owner, bundle, resultOf({ action: 'skip_same' }), null), null);
  t.equal(pruneOccurrence(owner, [], 3), null);
});

t.test('limits the size of an event, and counts the omitted outputs', async (t) => {
  const outputs = Array.from({ length: 10_000 }, (_, index) => ({
    path: `${'é'.repeat(100)}/${index}`,
    kind: 'file',
    digest,
    size: index,
    url: null,
  }));
  const changes = outputs.map(({ path }) => ({ path, fate: 'add', why: 'not_recorded' }) as const);
  const message = 'x'.repeat(100_000);
  const texts = [
    asJson(publicationOccurrence(owner, bundle, resultOf({ outputs, changes }), null)),
    asJson(
      pruneOccurrence(
        owner,
        outputs.map(({ path }) => ({ destinationPath: 'd', path })),
        0,
      ),
    ),
    asJson(
      publicationOccurrence(
        owner,
        bundle,
        resultOf({ action: 'error', error: { ...failure, message } }),
        null,
      ),
    ),
  ];
  for (const text of texts) t.ok(Buffer.byteLength(text) < 24 * 1024);
  const { data } = JSON.parse(texts[0]!) as {
    data: { outputs: unknown[]; outputs_omitted: number; counts: object };
  };
  t.ok(data.outputs.length > 10);
  t.equal(data.outputs.length + data.outputs_omitted, 10_000);
  t.match(data.counts, { outputs: 10_000 });
});

const config = (over: Partial<NotifierConfig> = {}): NotifierConfig =>
  ({
    id: 'n',
    kind: 'log',
    events: ['bundle.published'],
    acts: null,
    pipelines: null,
    ...over,
  }) as NotifierConfig;
const published = publicationOccurrence(owner, bundle, resultOf(), null)!;
const broken = publicationOccurrence(owner, bundle, resultOf({ error: failure }), null)!;

t.test('a notifier gets only the selected events and pipelines', async (t) => {
  t.ok(isSubscribed(config(), published));
  t.notOk(isSubscribed(config(), broken));
  t.ok(isSubscribed(config({ events: ['bundle.publish_failed'] }), broken));
  t.ok(isSubscribed(config({ pipelines: ['maps'] }), published));
  t.notOk(isSubscribed(config({ pipelines: ['docs'] }), published));
  t.notOk(isSubscribed(config(), login));
  const events: NotifierConfig['events'] = ['audit.recorded'];
  t.ok(isSubscribed(config({ events }), login));
  t.ok(isSubscribed(config({ events, acts: ['login'] }), login));
  t.notOk(isSubscribed(config({ events, acts: ['logout'] }), login));
  t.notOk(isSubscribed(config({ events, pipelines: ['maps'] }), login), 'a login has no pipeline');
});

function sinkOf(send: Sink['send'], over: Partial<Sink> = {}): Sink {
  return { concurrency: 1, timeoutMs: 60_000, send, close: async () => undefined, ...over };
}

function open(sinks: Record<string, Sink>, hurry?: AbortSignal, outbox?: Outbox) {
  const outcomes: DeliveryOutcome[] = [];
  const notifier = new Notifier({
    notifiers: Object.entries(sinks).map(([id, sink]) => ({ config: config({ id }), sink })),
    clock: impatientClock(),
    log: silentLog,
    onOutcome: (outcome) => void outcomes.push(outcome),
    ...(hurry === undefined ? {} : { stopping: hurry }),
    ...(outbox === undefined ? {} : { outbox }),
  });
  return { notifier, outcomes };
}

t.test('every notifier gets the same events, in order; a dead one does not delay others', async (t) => {
  const seen: string[] = [];
  let release: (answer: SendResult) => void = () => undefined;
  let arrived: () => void = () => undefined;
  const released = new Promise<SendResult>((resolve) => (release = resolve));
  const all = new Promise<void>((resolve) => (arrived = resolve));
  const { notifier, outcomes } = open({
    dead: sinkOf(async () => released),
    alive: sinkOf(async ({ id }) => {
      seen.push(id);
      if (seen.length === 3) arrived();
      return { ok: true };
    }),
  });
  for (let index = 0; index < 3; index += 1) notifier.notify(published);
  await all;
  release({ ok: false, reason: 'dead', retry: false });
  await notifier.close(60_000);
  t.equal(new Set(seen).size, 3);
  const failures = outcomes.filter(({ notifierId }) => notifierId === 'dead');
  t.same(
    failures.map(({ event }) => event.id),
    seen,
    'in order, with the same ids',
  );
  t.match(outcomeWarning(failures[0]!), {
    severity: 'warning',
    code: 'event_not_delivered',
    message: /notifier "dead": .*maps\/web.* in one try: dead/,
  });
});

t.test('an event that is added just as the delivery of the last one ends is delivered, too', async (t) => {
  const lost: number[] = [];
  for (let ticks = 0; ticks < 60; ticks += 1) {
    const { notifier, outcomes } = open({ quick: sinkOf(async () => ({ ok: true })) });
    notifier.notify(published);
    for (let tick = 0; tick < ticks; tick += 1) await Promise.resolve();
    notifier.notify(published);
    await notifier.close(60_000);
    if (outcomes.length < 2) lost.push(ticks);
  }
  t.same(lost, []);
});

t.test('sends nothing more after 410', async (t) => {
  let sent = 0;
  const { notifier, outcomes } = open({
    gone: sinkOf(async () => {
      sent += 1;
      return { ok: false, reason: 'answered 410', retry: false, gone: true };
    }),
  });
  for (let index = 0; index < 5; index += 1) notifier.notify(published);
  await notifier.close(60_000);
  t.equal(sent, 1);
  t.equal(outcomes.filter(({ delivered }) => !delivered).length, 5);
});

t.test('closes within its timeout and drops the remaining events', async (t) => {
  let closed = false;
  const sink = sinkOf(async () => new Promise(() => undefined), { close: async () => void (closed = true) });
  const { notifier, outcomes } = open({ hung: sink });
  notifier.notify(published);
  notifier.notify(published);
  await notifier.close(20);
  t.ok(closed);
  t.match(outcomes, [
    { delivered: false, reason: /the notifier was stopping/ },
    { delivered: false, tries: 1 },
  ]);
});

t.test('makes one attempt for an event after a stop', async (t) => {
  const hurry = new AbortController();
  let tries = 0;
  const { notifier, outcomes } = open(
    {
      n: sinkOf(async () => {
        tries += 1;
        hurry.abort();
        return { ok: false, reason: 'answered 503', retry: true };
      }),
    },
    hurry.signal,
  );
  notifier.notify(published);
  notifier.notify(published);
  await notifier.close(60_000);
  t.equal(tries, 2);
  t.match(outcomes, [{ tries: 1 }, { tries: 1 }]);
});

t.test('a sink that throws is a failed delivery, and its message is not reported', async (t) => {
  const { notifier, outcomes } = open({ n: sinkOf(async () => Promise.reject(new Error('canary'))) });
  notifier.notify(published);
  await notifier.close(60_000);
  t.match(outcomes, [{ delivered: false, reason: 'the sink failed unexpectedly' }]);
});

t.test('limits the warnings about a dead receiver of many events', async (t) => {
  const { onOutcome, warnings } = collectWarnings();
  const event = eventOf(published, 'msg_1', new Date());
  const rest = { isTemporary: true, isRedelivery: false, notifierId: 'n', kind: 'log' } as const;
  for (let index = 0; index < 500; index += 1)
    onOutcome({ delivered: false, tries: 4, reason: 'x', gone: false, ...rest, event });
  t.equal(warnings().length, 11);
  t.match(warnings().at(-1)?.message, /490 more/);
});

/** An outbox that exposes its events. */
function outboxWith(...left: [notifierId: string, id: string][]) {
  const kept = new Map<string, string>();
  const put = (notifierId: string, id: string): (() => void) => {
    const key = `${notifierId} ${id}`;
    kept.set(key, id);
    return () => void kept.delete(key);
  };
  const before = left.map(([notifierId, id]) => {
    const event = eventOf(published, id, new Date());
    return { notifierId, event, onEnd: put(notifierId, id) };
  });
  const outbox: Outbox = {
    isDurable: true,
    open: (take) => before.forEach(take),
    store: ({ event: { id } }, notifierIds, deliver) => {
      for (const notifierId of notifierIds) deliver(notifierId, put(notifierId, id));
    },
  };
  return { outbox, kept };
}

t.test("delivers an earlier process's events first, and drops events without a notifier", async (t) => {
  const { outbox, kept } = outboxWith(['n', 'msg_1'], ['removed', 'msg_2'], ['n', 'msg_3']);
  const seen: string[] = [];
  const sink = sinkOf(async ({ id }) => {
    seen.push(id);
    return seen.length === 2 ? { ok: false, reason: 'refused', retry: false } : { ok: true };
  });
  const { notifier, outcomes } = open({ n: sink }, undefined, outbox);
  notifier.notify(published);
  t.equal(kept.size, 3);
  await notifier.close(60_000);
  t.same(seen.slice(0, 2), ['msg_1', 'msg_3']);
  t.equal(seen.length, 3);
  t.same([...kept], [], 'an event ends when it was delivered or failed');
  t.same(
    outcomes.map(({ delivered }) => delivered),
    [true, false, true],
  );
});

t.test('keeps undelivered events for the next process', async (t) => {
  const { outbox, kept } = outboxWith();
  const hurry = new AbortController();
  const sinks = {
    down: sinkOf(async () => {
      hurry.abort();
      return { ok: false, reason: 'answered 503', retry: true };
    }),
    gone: sinkOf(async () => {
      while (!hurry.signal.aborted) await new Promise((resolve) => setImmediate(resolve));
      return { ok: false, reason: 'answered 410', retry: false, gone: true };
    }),
  };
  const { notifier, outcomes } = open(sinks, hurry.signal, outbox);
  notifier.notify(published);
  notifier.notify(published);
  await notifier.close(60_000);
  t.same(
    [...kept.keys()].map((key) => key.split(' ')[0]),
    ['down', 'down'],
  );
  t.same(
    outcomes.map(({ notifierId }) => notifierId),
    ['gone', 'gone'],
    'and has no outcome yet',
  );
});

/** A sink whose attempts end when the test tells them to. */
function heldSink(
  name: string,
  log: string[],
  concurrency = 1,
): { sink: Sink; release: () => Promise<void> } {
  const held: (() => void)[] = [];
  return {
    sink: sinkOf(
      ({ id }) =>
        new Promise((resolve) => {
          log.push(`${name} ${id}`);
          held.push(() => resolve({ ok: true }));
        }),
      { concurrency, close: async () => void log.push(`${name} closed`) },
    ),
    release: async () => {
      held.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

t.test('a replaced notifier keeps waiting events, in order, and closes the old sink', async (t) => {
  const log: string[] = [];
  const [first, second] = [heldSink('first', log), heldSink('second', log)];
  const { notifier, outcomes } = open({ n: first.sink });
  for (let index = 0; index < 3; index += 1) notifier.notify(published);
  notifier.replace([{ config: config({ pipelines: ['maps'] }), sink: second.sink }]);
  notifier.notify(published);
  t.equal(log.length, 1, 'the event in flight is claimed');
  for (const one of [first, second, second, second]) await one.release();
  await notifier.close(60_000);
  const ids = outcomes.map(({ event }) => event.id);
  t.same(log, [
    `first ${ids[0]}`,
    'first closed',
    `second ${ids[1]}`,
    `second ${ids[2]}`,
    `second ${ids[3]}`,
    'second closed',
  ]);
  t.ok(outcomes.every(({ delivered }) => delivered));
});

t.test('a sink with a lower concurrency than the previous one gets no more than its limit', async (t) => {
  const log: string[] = [];
  const [wide, narrow] = [heldSink('wide', log, 2), heldSink('narrow', log)];
  const { notifier, outcomes } = open({ n: wide.sink });
  for (let index = 0; index < 4; index += 1) notifier.notify(published);
  notifier.replace([{ config: config(), sink: narrow.sink }]);
  await wide.release();
  await wide.release();
  t.equal(log.filter((line) => line.startsWith('narrow msg')).length, 1);
  await narrow.release();
  await narrow.release();
  await notifier.close(60_000);
  t.equal(outcomes.length, 4);

  const [slow, fast] = [heldSink('slow', log), heldSink('fast', log, 3)];
  const more = open({ n: slow.sink });
  for (let index = 0; index < 4; index += 1) more.notifier.notify(published);
  more.notifier.replace([{ config: config(), sink: fast.sink }]);
  t.equal(log.filter((line) => line.startsWith('fast msg')).length, 2, 'in addition to the one in flight');
  await slow.release();
  for (let index = 0; index < 3; index += 1) await fast.release();
  await more.notifier.close(60_000);
  t.equal(more.outcomes.length, 4);
});

t.test('a removed notifier delivers its events, and gets no more', async (t) => {
  const log: string[] = [];
  const [old, other] = [heldSink('old', log), heldSink('other', log)];
  const { notifier, outcomes } = open({ n: old.sink });
  notifier.notify(published);
  notifier.notify(published);
  notifier.replace([{ config: config({ id: 'm' }), sink: other.sink }]);
  notifier.notify(published);
  await old.release();
  await old.release();
  await other.release();
  t.ok(log.includes('old closed'));
  await notifier.close(60_000);
  t.same(outcomes.map(({ notifierId }) => notifierId).sort(), ['m', 'n', 'n']);
});

t.test('retries a receiver that was gone once its notifier is replaced', async (t) => {
  const { notifier, outcomes } = open({
    n: sinkOf(async () => ({ ok: false, reason: 'gone', retry: false, gone: true })),
  });
  notifier.notify(published);
  notifier.notify(published);
  while (outcomes.length < 2) await new Promise((resolve) => setImmediate(resolve));
  notifier.replace([{ config: config(), sink: sinkOf(async () => ({ ok: true })) }]);
  notifier.notify(published);
  await notifier.close(60_000);
  t.same(
    outcomes.map(({ delivered, tries }) => [delivered, tries]),
    [
      [false, 1],
      [false, 0],
      [true, 1],
    ],
  );
});
