import t from 'tap';
import { openGate } from '../../../src/core/weather/gate.ts';

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('as much is under way as there are shares, in the order of asking', async (t) => {
  const gate = openGate(3, 60_000);
  const under: string[] = [];
  const ends = new Map<string, () => void>();
  const all: Promise<void>[] = [];
  const ask = (name: string, share: number): void => {
    all.push(
      gate(share, () => {
        under.push(name);
        return new Promise((resolve) => ends.set(name, resolve));
      }),
    );
  };
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.();
    under.splice(under.indexOf(name), 1);
    await settled();
  };
  ask('a', 1);
  ask('b', 1);
  ask('whole', 3);
  ask('c', 1);
  await settled();
  t.same(under, ['a', 'b'], 'what asks little does not pass what waits for much');
  await end('a');
  t.same(under, ['b']);
  await end('b');
  t.same(under, ['whole']);
  await end('whole');
  t.same(under, ['c']);
  await end('c');
  await Promise.all(all);
});

t.test('who waits too long is turned away, and those behind go on', async (t) => {
  const gate = openGate(2, 20);
  let end: () => void = () => undefined;
  const first = gate(1, () => new Promise<void>((resolve) => (end = resolve)));
  const whole = gate(2, async () => 'whole');
  const small = gate(1, async () => 'small');
  await t.rejects(whole, { code: 'POOL_TIMEOUT' });
  t.equal(await small.catch((error: unknown) => error), 'small');
  end();
  await first;
});

t.test('work that fails gives back its share', async (t) => {
  const gate = openGate(1, 60_000);
  await t.rejects(
    gate(1, async () => {
      throw new Error('no');
    }),
    { message: 'no' },
  );
  t.equal(await gate(1, async () => 'yes'), 'yes');
});
