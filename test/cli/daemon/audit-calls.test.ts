import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import t from 'tap';
import { auditReload, auditTriggers } from '../../../src/cli/daemon/audit-calls.ts';
import { serve } from '../../../src/cli/daemon/serve.ts';
import { type ActEntry, canonicalJson } from '../../../src/core/audit/record.ts';
import type { Trail } from '../../../src/core/audit/trail.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { auditEntryOf, programActor } from '../../../src/core/notify/occurrence-acts.ts';
import { runFailure } from '../../../src/core/publish/results/occurrences.ts';
import type { Decision, TriggeredJob, Triggers } from '../../../src/workers/queue/trigger.ts';
import { type Receiver, startReceiver } from '../../core/notify/receiver.ts';

function trailOf(entries: ActEntry[], { isFull = false } = {}): Trail {
  return {
    requireWritable: async () => {
      if (isFull) throw new WaybillError('audit_unavailable', 'full by the will of the test');
    },
    check: async () => undefined,
    append: async (entry) => void entries.push(entry),
    close: async () => undefined,
  };
}

const job: TriggeredJob = {
  ...{ runId: 'library.1', pipelineId: 'library', staged: null },
  trigger: { kind: 'schedule', schedule: '@daily', tick: '2026-11-20T00:00:00Z' },
};

function triggersThat(outcome: 'started' | 'known', decided: string[] = []): Triggers {
  return {
    last: async () => null,
    decide: async ({ runId }) => {
      decided.push(runId);
      return { outcome } as Decision;
    },
  };
}

t.test('a run started by a schedule is recorded, other decisions are not', async (t) => {
  const entries: ActEntry[] = [];
  await auditTriggers(triggersThat('known'), trailOf(entries)).decide(job);
  t.same(entries, []);
  await auditTriggers(triggersThat('started'), trailOf(entries)).decide(job);
  t.match(entries, [{ act: 'run.start', runId: 'library.1', actor: { type: 'schedule', id: 'library' } }]);
});

t.test('a schedule starts no run if it cannot be recorded', async (t) => {
  const decided: string[] = [];
  const triggers = auditTriggers(triggersThat('started', decided), trailOf([], { isFull: true }));
  await t.rejects(triggers.decide(job), { code: 'audit_unavailable' });
  t.same(decided, []);
});

t.test('a reload by a signal is recorded, and so is one that was rejected or failed', async (t) => {
  const entries: ActEntry[] = [];
  await auditReload(async () => undefined, trailOf(entries))();
  const refuse = async (): Promise<never> => {
    throw new WaybillError('reload_refused', 'invalid');
  };
  await t.rejects(auditReload(refuse, trailOf(entries))(), { code: 'reload_refused' });
  const fail = async (): Promise<never> => {
    throw new WaybillError('queue_unavailable', 'Redis is unreachable');
  };
  await t.rejects(auditReload(fail, trailOf(entries))(), { code: 'queue_unavailable' });
  t.match(entries, [
    { act: 'reload', result: 'done', actor: { type: 'daemon', signal: 'SIGHUP' } },
    { act: 'reload', result: 'refused', code: 'reload_refused' },
    { act: 'reload', result: 'failed', code: 'queue_unavailable' },
  ]);
});

t.test('a failed publication is recorded with its code', (t) => {
  const failure = errorRecord(new WaybillError('destination_busy', 'busy'));
  t.match(auditEntryOf(runFailure('maps', 'maps.1', failure), programActor), {
    ...{ act: 'publish', result: 'failed', code: 'destination_busy', pipelineId: 'maps', runId: 'maps.1' },
  });
  t.equal(
    auditEntryOf({ type: 'notifier.test', data: { notifier_id: 'n', message: 'm' } }, programActor),
    null,
  );
  t.end();
});

t.test(
  'audit records are sent to the notifiers of their acts, across a restart, and cause no further ones',
  async (t) => {
    let isAway = true;
    const away = await startReceiver(t, (response) => {
      // With this header, no event fails permanently before the daemon stops.
      if (isAway) response.writeHead(503, { 'retry-after': '30' });
      response.end();
    });
    const hook = await startReceiver(t);
    const place = t.testdir({
      'c.yml': `audit: {}
notifiers:
  - {id: hook, kind: webhook, url: "${hook.url}", secret_env: HOOK, events: [audit.recorded], acts: [login, reload]}
  - {id: away, kind: webhook, url: "${away.url}", secret_env: HOOK, events: [audit.recorded]}
  - {id: other, kind: file, path: ./other.jsonl, events: [audit.recorded], pipelines: [up]}
upload_tokens: [{id: ci, value_env: CI, pipelines: [up]}]
server: {http: {listen: "127.0.0.1:0"}, admin_token_env: ADMIN, queue: {driver: embedded, directory: ./queue}}
pipelines: [{id: up, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}]
`,
    });
    const env = { ADMIN: 'a'.repeat(40), CI: 'c'.repeat(40), HOOK: 'h'.repeat(40), HOME: place };
    const start = { configFile: path.join(place, 'c.yml'), log: silentLog, env };
    const served = await serve(start);
    for (const token of ['wrong', env.ADMIN])
      await fetch(`${served.url}console/login`, { method: 'POST', body: new URLSearchParams({ token }) });
    const post = (at: string): Promise<Response> =>
      fetch(`${served.url}${at}`, { method: 'POST', headers: { authorization: `Bearer ${env.ADMIN}` } });
    t.equal((await post('v1/pipelines/up/pause')).status, 200);
    t.equal((await post('v1/reload')).status, 200);
    while (away.received.length === 0) await setTimeout(10);
    await served.close();

    const lines = readdirSync(path.join(place, 'audit'))
      .filter((name) => name.endsWith('.jsonl'))
      .flatMap((name) =>
        readFileSync(path.join(place, 'audit', name), 'utf8')
          .trimEnd()
          .split('\n'),
      );
    const chosen = lines.filter((line) => /"act":"(login|reload)"/.test(line));
    t.equal(chosen.length, 3);
    const sentBy = ({ received }: Receiver): string[] =>
      received.map(({ event }) => ('record' in event.data ? canonicalJson(event.data.record) : event.type));
    t.same(sentBy(hook).sort(), chosen.sort(), 'the lines of the trail');
    t.equal(new Set(hook.received.map(({ event }) => event.id)).size, 3);
    t.same(
      readFileSync(path.join(place, 'other.jsonl'), 'utf8').match(/"act":"[^"]+"/g),
      ['"act":"pipeline.pause"'],
      'only acts of its pipeline',
    );

    isAway = false;
    away.received.length = 0;
    const again = await serve(start);
    while (new Set(sentBy(away)).size < lines.length) await setTimeout(10);
    await again.close();
    t.same([...new Set(sentBy(away))].sort(), lines.sort(), 'no failed delivery has a record');
    const sent = JSON.stringify([hook.received, away.received].flat().map(({ body }) => body));
    for (const secret of Object.values(env).slice(0, 3)) t.notOk(sent.includes(secret));
  },
);
