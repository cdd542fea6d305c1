import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { Admissions } from '../../../src/workers/bullmq/admission.ts';
import type { Slot } from '../../../src/workers/bullmq/admission-store.ts';
import { RedisLink } from '../../../src/workers/bullmq/link.ts';
import { RunStore } from '../../../src/workers/bullmq/run-store.ts';
import { acceptedRun, queuedRun } from '../../../src/workers/queue/run-transitions.ts';
import { startRedis } from '../../services/redis.ts';
import { type ManualClock, manualClock } from '../manual-clock.ts';

const workerTimeoutMs = 30_000;
const manifest = digestOf('manifest');
const job = { runId: 'run-1', pipelineId: 'p1', staged: null };

t.test('does not renew a released slot, which would leak', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());

  t.test('not while an accepted run is handed over', async (t) => {
    const { admission, store, clock, gate } = await arrange(t, redis.url);
    const reserved = await admission.reserve({ pipelineId: 'p1' });
    const accepted = reserved.accept(job, manifest);
    await gate.reached;
    await clock.advance(workerTimeoutMs);
    t.same(await store.reads.depth(), { reserved: 0, queued: 1, running: 0 });
    gate.open();
    await accepted;
    t.same(await store.reads.depth(), { reserved: 0, queued: 1, running: 0 });
  });

  t.test('not while the response to the release is pending', async (t) => {
    const { admission, store, clock, gate } = await arrange(t, redis.url);
    const reserved = await admission.reserve({ pipelineId: 'p1' });
    const released = reserved.release();
    await gate.reached;
    await clock.advance(workerTimeoutMs);
    gate.open();
    await released;
    t.same(await store.reads.depth(), { reserved: 0, queued: 0, running: 0 });
  });

  t.test('not by a renewal that reaches Redis late', async (t) => {
    const { store, gate } = await arrange(t, redis.url);
    gate.open();
    const slots = ['released', 'accepted'].map((id) => ({
      id,
      pipelineId: job.pipelineId,
      key: `key-of-${id}`,
      rerunFailed: false,
    }));
    const [released, accepted] = slots as [Slot, Slot];
    for (const slot of slots) t.equal(await store.admission.reserve(slot, limits), 'ok');
    await store.admission.release(released);
    const now = new Date();
    await store.admission.accept(accepted, job, queuedRun(acceptedRun(job, now), now), manifest, null);
    for (const slot of slots) await store.admission.renew(slot, null);
    t.same(await store.reads.depth(), { reserved: 0, queued: 1, running: 0 });
    t.equal(
      await store.admission.reserve({ ...released, id: 'again' }, limits),
      'ok',
      'the key is free again as well',
    );
  });

  t.test('but renews while the upload is received', async (t) => {
    const { admission, store, clock, gate } = await arrange(t, redis.url);
    gate.open();
    let renewals = 0;
    const renew = store.admission.renew.bind(store.admission);
    store.admission.renew = async (...call) => {
      renewals += 1;
      await renew(...call);
    };
    const reserved = await admission.reserve({ pipelineId: 'p1' });
    await clock.advance(workerTimeoutMs);
    t.equal(renewals, 3);
    t.same(await store.reads.depth(), { reserved: 1, queued: 0, running: 0 });
    await reserved.release();
    t.same(await store.reads.depth(), { reserved: 0, queued: 0, running: 0 });
  });
});

interface Arranged {
  admission: Admissions;
  store: RunStore;
  clock: ManualClock;
  /** Accepted runs and released slots wait here after Redis has stored them. */
  gate: Gate;
}

interface Gate {
  pass: () => Promise<void>;
  reached: Promise<void>;
  open: () => void;
}

const limits = { queueSize: 2, maxWaiting: null };

/** Admissions with their own prefix in Redis. */
async function arrange(t: Test, url: string): Promise<Arranged> {
  const clock = manualClock();
  const gate = newGate();
  const link = await RedisLink.open({
    url,
    urlEnv: 'REDIS_URL',
    prefix: t.name,
    log: silentLog,
    clock: systemClock,
  });
  t.teardown(() => link.close());
  const store = new RunStore(link, workerTimeoutMs);
  const release = store.admission.release.bind(store.admission);
  store.admission.release = async (slot) => {
    await release(slot);
    await gate.pass();
  };
  const admission = new Admissions({
    clock,
    log: silentLog,
    store,
    queueSize: 2,
    maxWaitingOf: () => null,
    workerTimeoutMs,
    shared: { share: async (shared) => shared, remove: async () => undefined },
    onAccepted: () => gate.pass(),
  });
  return { admission, store, clock, gate };
}

function newGate(): Gate {
  let [reach, open] = [(): void => undefined, (): void => undefined];
  const reached = new Promise<void>((resolve) => (reach = resolve));
  const opened = new Promise<void>((resolve) => (open = resolve));
  return {
    reached,
    open: () => open(),
    pass: async () => {
      reach();
      await opened;
    },
  };
}
