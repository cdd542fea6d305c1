import t from 'tap';
import { closeAll } from '../../../src/core/lib/lifecycle.ts';

t.test('closes all parts in order even if some fail, and throws the first error', async (t) => {
  const closed: string[] = [];
  const part =
    (name: string, fails = false) =>
    async (): Promise<void> => {
      await new Promise((resolve) => setImmediate(resolve));
      closed.push(name);
      if (fails) throw new Error(name);
    };
  await closeAll(part('a'), part('b'));
  await t.rejects(closeAll(part('c'), part('d', true), part('e', true), part('f')), { message: 'd' });
  t.same(closed, ['a', 'b', 'c', 'd', 'e', 'f']);
});
