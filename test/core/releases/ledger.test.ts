import fc from 'fast-check';
import t from 'tap';
import {
  channelTargets,
  createRollback,
  lastGoodRelease,
  type Ledger,
  noReleases,
  type Releases,
  rolledBackReleases,
  withActivation,
  withChannel,
  withNoCurrent,
  withoutChannels,
  withoutReleases,
  withoutRollbacks,
  withRemoving,
} from '../../../src/core/releases/ledger.ts';
import { parseReleases, serialiseReleases } from '../../../src/core/releases/ledger-json.ts';
import type { ReleaseId } from '../../../src/core/releases/release.ts';
import { isRetirementDue, selectRetired } from '../../../src/core/releases/retention.ts';
import type { StoredRelease } from '../../../src/core/releases/stored-releases.ts';
import { seed } from '../../support/sampling.ts';

const idOf = (n: number): ReleaseId => `202611${10 + n}T100000Z-0000000${n}` as ReleaseId;
const [a, b, c, d] = [idOf(0), idOf(1), idOf(2), idOf(3)] as const;
const start = noReleases;
const at = (minute: number): string => new Date(Date.UTC(2026, 10, 20, 0, minute)).toISOString();

function switched(releases: Releases, to: ReleaseId, minute: number): Releases {
  return { ...releases, ledger: withActivation(releases, to, at(minute), null), current: to };
}

function wentBack(releases: Releases, to: ReleaseId, minute: number): Releases {
  const rollback = createRollback(releases, to);
  return { ...releases, ledger: withActivation(releases, to, at(minute), rollback), current: to };
}

t.test('a rollback goes to the last good release and skips rolled back ones', async (t) => {
  t.equal(lastGoodRelease(start), null);
  const third = switched(switched(switched(start, a, 1), b, 2), c, 3);
  t.equal(lastGoodRelease(switched(start, a, 1)), null);
  t.equal(lastGoodRelease(third), b);
  const back = wentBack(third, b, 4);
  t.same(rolledBackReleases(back), [c]);
  t.equal(lastGoodRelease(back), a);
  const further = wentBack(back, a, 5);
  t.same(new Set(rolledBackReleases(further)), new Set([b, c]));
  t.equal(lastGoodRelease(further), null);
  t.same(rolledBackReleases({ ...further, ledger: withoutRollbacks(further.ledger) }), []);
  t.equal(
    lastGoodRelease({ ...third, ledger: withRemoving(third.ledger, [b]) }),
    a,
    'not a release that is being removed',
  );
});

t.test(
  'a rollback never selects a release that was rolled back before, or skipped by a rollback',
  async (t) => {
    const back = wentBack(switched(switched(start, a, 1), b, 2), a, 3);
    const again = wentBack(switched(back, c, 4), a, 5);
    t.equal(lastGoodRelease(again), null, 'b was rolled back before c was published');
    const passed = wentBack(switched(switched(switched(start, a, 1), b, 2), c, 3), a, 4);
    t.equal(
      lastGoodRelease({ ...passed, ledger: withoutRollbacks(passed.ledger) }),
      null,
      'b became current after a',
    );
    t.equal(lastGoodRelease(switched(passed, d, 5)), a);
    const promoted = switched(switched(back, b, 4), c, 5);
    t.equal(lastGoodRelease(promoted), b, 'a promotion makes a release good again');
    const first = switched(switched(start, a, 1), b, 2);
    const killed = { ...first, ledger: withActivation(first, a, at(3), createRollback(first, a)) };
    t.equal(lastGoodRelease(switched(killed, c, 4)), b, 'a rollback killed before its switch leaves b good');
  },
);

t.test('a release that was never current is not a target of a rollback', async (t) => {
  const first = switched(start, a, 1);
  const killed = { ...first, ledger: withActivation(first, b, at(2), null) };
  t.equal(lastGoodRelease(killed), null, 'killed between ledger and pointer');
  t.equal(lastGoodRelease(switched(killed, c, 3)), a);
});

t.test('a rollback ends when another release becomes current', async (t) => {
  const back = wentBack(switched(switched(start, a, 1), b, 2), a, 3);
  t.same(rolledBackReleases(back), [b]);
  const on = switched(back, c, 4);
  t.same(rolledBackReleases(on), []);
  t.same(rolledBackReleases(switched(on, a, 5)), [], 'nor if the target of the rollback is promoted');
});

t.test('a rollback killed before its switch leaves the earlier one effective', async (t) => {
  const back = wentBack(switched(switched(switched(start, a, 1), b, 2), c, 3), b, 4);
  const killed = { ...back, ledger: withActivation(back, a, at(5), createRollback(back, a)) };
  t.same(rolledBackReleases(killed), [c]);
  t.same(new Set(rolledBackReleases({ ...killed, current: a })), new Set([b, c]));
});

const releaseIds = Array.from({ length: 8 }, (_, n) => idOf(n));
const anyId = fc.constantFrom(...releaseIds);
const step = fc.record({
  kind: fc.constantFrom('switch', 'back', 'killed', 'resume', 'announce', 'lead', 'lead, killed', 'drop'),
  id: anyId,
  name: fc.constantFrom('beta', 'preview'),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** The results of arbitrary actions, including kills between the ledger and the pointer. */
function after(steps: readonly Step[]): Releases {
  let releases = start;
  for (const [minute, { kind, id, name }] of steps.entries()) {
    const { ledger, current } = releases;
    if (kind === 'drop')
      releases = {
        ...{ ...releases, ledger: withoutChannels(releases, [name], at(minute)) },
        channels: new Map([...releases.channels].filter(([other]) => other !== name)),
      };
    else if (kind === 'resume') releases = { ...releases, ledger: withoutRollbacks(ledger) };
    else if (id === current || ledger.removing.includes(id)) continue;
    else if (kind.startsWith('lead')) {
      const channel = { name, id, setAt: at(minute), expiresAt: at(minute + 5) };
      const channels = new Map(releases.channels);
      if (kind === 'lead') channels.set(name, id);
      releases = { ...releases, ledger: withChannel(releases, channel), channels };
    } else if (kind === 'announce') {
      if (lastGoodRelease(releases) !== id && !channelTargets(releases).includes(id))
        releases = { ...releases, ledger: withRemoving(ledger, [id]) };
    } else if (kind === 'switch') releases = switched(releases, id, minute);
    else if (kind === 'back') releases = wentBack(releases, id, minute);
    else releases = { ...releases, ledger: withActivation(releases, id, at(minute), null) };
  }
  return releases;
}

t.test('a written ledger is read back unchanged', async (t) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const { ledger, current } = after(steps);
      const bytes = serialiseReleases(ledger, { updatedAt: at(0), current });
      const channels = new Map(ledger.channels.map(({ name, id }) => [name, id]));
      t.same(parseReleases(bytes, 'x'), { ledger, current, foreignTarget: null, channels });
    }),
    { seed, numRuns: 200 },
  );
});

t.test('retention keeps current, last good, unfinished and unreadable releases', async (t) => {
  let removed = 0;
  const stored = fc.array(
    fc.record({
      id: anyId,
      state: fc.constantFrom<StoredRelease['state']>('complete', 'writing', 'abandoned', 'unreadable'),
      writtenAt: fc.constantFrom(null, at(0), at(5), at(10)),
    }),
    { maxLength: 12 },
  );
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 20 }),
      stored,
      fc.nat(4),
      fc.constantFrom(0, 10 * 60_000),
      (steps, some, keep, lingerMs) => {
        const releases = after(steps);
        const unique = [...new Map(some.map((each) => [each.id, each])).values()];
        const now = new Date(at(20));
        const retiredNow = selectRetired(releases, unique, { keep, lingerMs }, now);
        removed += retiredNow.length;
        const byId = new Map(unique.map((each) => [each.id, each]));
        const left = new Map(releases.ledger.history.map((each) => [each.id, each.leftAt]));
        const leftByChannels = new Map(releases.ledger.leftByChannels.map((each) => [each.id, each.leftAt]));
        const inUse = new Set<ReleaseId | null>([releases.current, ...channelTargets(releases)]);
        for (const id of retiredNow) {
          t.not(id, releases.current);
          t.not(id, lastGoodRelease(releases));
          t.notOk(channelTargets(releases).includes(id), 'no channel points to it');
          t.ok(['complete', 'abandoned'].includes(byId.get(id)?.state ?? ''));
          for (const used of [byId.get(id)?.writtenAt, left.get(id), leftByChannels.get(id)])
            if (used != null)
              t.ok(now.getTime() - Date.parse(used) >= lingerMs, 'its linger time has passed');
        }
        const isKept = ({ id, state }: StoredRelease): boolean =>
          state === 'complete' && !inUse.has(id) && !retiredNow.includes(id);
        const wasPreview = (id: ReleaseId): boolean => leftByChannels.has(id) && !left.has(id);
        const complete = unique.filter(
          ({ id, state }) => state === 'complete' && !inUse.has(id) && !wasPreview(id),
        );
        t.ok(unique.filter(isKept).length >= Math.min(keep, complete.length), 'the number of remaining ones');
      },
    ),
    { seed, numRuns: 500 },
  );
  t.ok(removed > 100, `${removed} removals`);
});

t.test('retention removes old releases, and none if the pointer is foreign', async (t) => {
  const releases = [0, 1, 2, 3].reduce((before, n) => switched(before, idOf(n), n), start);
  const stored = [0, 1, 2, 3].map((n): StoredRelease => ({
    id: idOf(n),
    state: 'complete',
    writtenAt: at(n),
  }));
  const rule = { keep: 1, lingerMs: 60_000 };
  t.same(selectRetired(releases, stored, rule, new Date(at(60))), [a, b]);
  t.same(
    selectRetired(releases, stored, { ...rule, keep: 0 }, new Date(at(60))),
    [a, b],
    'the last good one stays',
  );
  t.same(selectRetired(releases, stored, rule, new Date(at(3))), [a, b]);
  t.same(
    selectRetired(releases, stored, { ...rule, lingerMs: 120_000 }, new Date(at(3))),
    [a],
    'b was just replaced',
  );
  const foreign = { ...releases, current: null, foreignTarget: '/srv/other' };
  t.same(selectRetired(foreign, stored, rule, new Date(at(60))), []);
});

t.test('removed releases are dropped from the ledger', async (t) => {
  const { ledger } = switched(switched(start, a, 1), b, 2);
  const gone: Ledger = withoutReleases(withRemoving(ledger, [a]), [a]);
  t.same(gone.removing, []);
  t.same(
    gone.history.map(({ id }) => id),
    [b],
  );
});

t.test('a malformed ledger is reported with its location', async (t) => {
  const good = serialiseReleases(noReleases.ledger, { updatedAt: at(0) }).toString();
  for (const [text, message] of [
    ['', /"site" /],
    ['[]', /is not an object/],
    [good.replace('"schema_version": 1', '"schema_version": 2'), /schema_version is 2/],
    [good.replace('"history": []', '"history": [{"id": "x"}]'), /history\[0\].id is not the id of a release/],
    [good.replace('"removing": []', '"removing": ["../x"]'), /removing\[0\] is not the id of a release/],
  ] as const)
    t.throws(() => parseReleases(Buffer.from(text), '"site"'), { code: 'state_conflict', message });
  t.throws(() => parseReleases(Buffer.from([0xff]), '"site"'), { message: /is not UTF-8/ });
  const foreign = good.replace('{', '{ "current": "elsewhere",');
  t.match(parseReleases(Buffer.from(foreign), 'x'), { current: null, foreignTarget: 'elsewhere' });
});

t.test('the ledger alone shows whether a removal is due', async (t) => {
  const releases = [0, 1, 2, 3].reduce((before, n) => switched(before, idOf(n), n), start);
  const rule = { keep: 1, lingerMs: 60_000 };
  t.equal(isRetirementDue(releases, rule, new Date(at(60))), true);
  t.equal(isRetirementDue(releases, { ...rule, keep: 3 }, new Date(at(60))), false);
  t.equal(
    isRetirementDue(releases, { ...rule, lingerMs: 3_600_000 }, new Date(at(60))),
    false,
    'they linger',
  );
  const announced = { ...releases, ledger: withRemoving(releases.ledger, [a]) };
  t.equal(isRetirementDue(announced, { ...rule, keep: 3 }, new Date(at(60))), true, 'a removal continues');
  t.equal(isRetirementDue(start, rule, new Date(at(60))), false);
});

t.test('after unpublishing, no release is current or held back', async (t) => {
  const back = wentBack(switched(switched(start, a, 1), b, 2), a, 3);
  const left: Releases = { ...back, ledger: withNoCurrent(back, at(4)), current: null };
  t.same(rolledBackReleases(left), []);
  t.equal(lastGoodRelease(left), a, 'the release that was current last');
  t.equal(left.ledger.history.find(({ id }) => id === a)?.leftAt, at(4));
});
