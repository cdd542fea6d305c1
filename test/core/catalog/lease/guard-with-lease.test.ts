import t from 'tap';
import { leaseLost } from '../../../../src/core/catalog/lease/lease.ts';
import { guardWithLease } from '../../../../src/core/catalog/lease/with-lease.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Every call that changes something, with its result. */
const changes = {
  write: ['write', (storage: Storage) => storage.write(key('a'), bytesBody('x'), { mode: 'replace' })],
  rename: ['rename', (storage: Storage) => storage.rename!([{ from: key('a'), to: key('b') }])],
  'back up': ['backUp', (storage: Storage) => storage.backUp!(key('a'), key('b'))],
  restore: [
    'restore',
    (storage: Storage) => storage.restore!({ key: key('a'), method: 'copy', aside: key('b'), version: null }),
  ],
  duplicate: ['duplicate', (storage: Storage) => storage.duplicate!(key('a'), key('b'))],
  'replace a link': ['replaceLink', (storage: Storage) => storage.replaceLink!(key('a'), key('b'))],
  remove: ['remove', (storage: Storage) => storage.remove(key('a'), { ifVersion: '7' })],
  'remove a tree': ['removeTree', (storage: Storage) => storage.removeTree(key('a'))],
} as const;

for (const [name, [method, change]] of Object.entries(changes))
  t.test(`only the holder of the lease may ${name}`, async (t) => {
    const inner = memoryStorage({ flavour: 'files' });
    const calls: unknown[][] = [];
    const answer = { of: name };
    const storage = {
      ...inner,
      [method]: async (...args: unknown[]) => {
        calls.push(args);
        return answer;
      },
    };
    const asked: unknown[][] = [];
    await change({ ...inner, [method]: async (...args: unknown[]) => void asked.push(args) });
    let checks = 0;
    const held = guardWithLease(storage, { check: () => void (checks += 1) });
    t.equal(await change(held), answer, 'the result of the storage');
    t.same([checks, calls.length], [1, 1]);
    t.same(calls, asked, 'with the same arguments');
    const lost = guardWithLease(storage, {
      check: () => {
        throw leaseLost(inner, 'overtaken');
      },
    });
    await t.rejects(async () => change(lost), { code: 'lease_lost' });
    t.equal(calls.length, 1, 'the storage was not called');
  });
