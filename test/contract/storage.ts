import { createHash, randomBytes } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { digestOf } from '../../src/core/lib/digest.ts';
import type { ErrorCode } from '../../src/core/lib/error-codes.ts';
import { hasCode } from '../../src/core/lib/errors.ts';
import { bytesBody, readAll } from '../../src/core/storage/body.ts';
import type { BackupFile, Move } from '../../src/core/storage/capabilities.ts';
import { type Key, listedKey as key } from '../../src/core/storage/key.ts';
import type { Body, Entry, Stamp, Storage } from '../../src/core/storage/storage.ts';
import { sampleOf, share } from '../support/sampling.ts';

/**
 * The storage contract as tests. Every backend runs all of it. `open` returns a new, empty storage. If it is
 * called again with the same location, it opens a second storage on the same bytes.
 */
export interface StorageWorld {
  open(): Promise<Storage>;
  /** The number of entries in one page of a listing. Default: 1000, as in S3. */
  page?: number;
}

/** The number of scenarios in the sample for a variant of a storage. The storage itself runs all. */
const sampled = 8;
interface ContractOptions {
  variantOf?: string;
  lacks?: readonly string[];
  without?: readonly ('backUp' | 'duplicate')[];
}

type Work = (t: Test, storage: Storage, world: StorageWorld) => Promise<void>;

/**
 * `variantOf` names the storage that runs the whole contract; this is then a sample. `lacks` has the names
 * of scenarios that a known server does not pass. `without` has the optional capabilities that the storage
 * must not have. Otherwise, `keep` and `duplicate` are required.
 */
export async function storageContract(
  t: Test,
  newWorld: (t: Test) => Promise<StorageWorld>,
  { variantOf, lacks = [], without = [] }: ContractOptions = {},
): Promise<void> {
  const scenarios: { name: string; work: Work }[] = [];
  const scenario = (name: string, work: Work): void => void scenarios.push({ name, work });
  const put = async (storage: Storage, name: string, text: string): Promise<void> => {
    await storage.write(key(name), bytesBody(text), { mode: 'replace' });
  };
  const get = async (storage: Storage, name: string): Promise<string> =>
    (await readAll(storage, key(name), 1 << 26)).toString();
  const names = async (storage: Storage, directory = '', recursive = true): Promise<string[]> =>
    (await entries(storage, directory, recursive)).map((entry) => entry.key as string).sort();

  const isWithout = (t: Test, storage: Storage, capability: 'backUp' | 'duplicate'): boolean => {
    if (!without.includes(capability)) return false;
    t.equal(storage[capability], undefined, `has no ${capability}`);
    return true;
  };

  scenario('reads back written content, with its size and digest', async (t, storage) => {
    const written = await storage.write(key('a/b/c.txt'), bytesBody('hello'), {
      mode: 'replace',
      digest: digestOf('hello'),
    });
    t.equal(written.size, 5);
    t.equal(written.digest, digestOf('hello'));
    t.equal(await get(storage, 'a/b/c.txt'), 'hello');
    t.match(await storage.stat(key('a/b/c.txt')), { type: 'file', size: 5 });
    await put(storage, 'a/b/c.txt', 'bye');
    t.equal(await get(storage, 'a/b/c.txt'), 'bye', 'the second value replaces the first');
  });

  scenario('reads back empty and large bodies', async (t, storage) => {
    await put(storage, 'empty', '');
    t.match(await storage.stat(key('empty')), { type: 'file', size: 0 });
    t.equal(await get(storage, 'empty'), '');
    const large = randomBytes(9 * 1024 * 1024 + 17);
    await storage.write(key('large'), chunked(large, 700_001), { mode: 'replace', digest: digestOf(large) });
    const hash = createHash('sha256');
    for await (const chunk of storage.read(key('large'))) hash.update(chunk);
    t.equal(`sha256:${hash.digest('hex')}`, digestOf(large));
  });

  for (const mode of ['replace', 'create'] as const)
    scenario(`a body that fails midway leaves the existing file (${mode})`, async (t, storage) => {
      if (mode === 'replace') await put(storage, 'x', 'old');
      const broken: Body = {
        size: 10,
        async *open() {
          yield Buffer.from('half');
          throw new Error('the source went away');
        },
      };
      await t.rejects(storage.write(key('x'), broken, { mode }));
      if (mode === 'replace') t.equal(await get(storage, 'x'), 'old');
      else t.equal(await storage.stat(key('x')), undefined);
      t.same(await names(storage), mode === 'replace' ? ['x'] : [], 'nothing else is visible');
    });

  for (const [what, body, digest] of [
    ['short', { ...bytesBody('four'), size: 5 }, undefined],
    ['long', { ...bytesBody('sixsix'), size: 5 }, undefined],
    ['other', bytesBody('other'), digestOf('wanted')],
  ] as const)
    scenario(
      `a body with another size or digest than declared is rejected and not stored (${what})`,
      async (t, storage) => {
        await put(storage, 'x', 'old');
        const options = { mode: 'replace' as const, ...(digest === undefined ? {} : { digest }) };
        await rejectsWith(t, storage.write(key('x'), body, options), 'body_mismatch');
        t.equal(await get(storage, 'x'), 'old');
        t.same(await names(storage), ['x']);
      },
    );

  scenario('an aborted write leaves nothing visible', async (t, storage) => {
    const controller = new AbortController();
    const body: Body = {
      size: 1 << 20,
      async *open() {
        yield Buffer.alloc(1 << 19);
        controller.abort(new Error('stop'));
        yield Buffer.alloc(1 << 19);
      },
    };
    await t.rejects(storage.write(key('x'), body, { mode: 'replace', signal: controller.signal }));
    t.same(await names(storage), []);
  });

  scenario('a recursive listing has only files, one level also has directories', async (t, storage) => {
    for (const name of ['top', 'd/one', 'd/two', 'd/e/three', 'dd/four']) await put(storage, name, name);
    t.same(await names(storage), ['d/e/three', 'd/one', 'd/two', 'dd/four', 'top']);
    t.same(await names(storage, '', false), ['d', 'dd', 'top']);
    t.same(await names(storage, 'd', false), ['d/e', 'd/one', 'd/two']);
    t.same(
      await names(storage, 'd'),
      ['d/e/three', 'd/one', 'd/two'],
      'a prefix of a name is not a directory',
    );
    t.same(await names(storage, 'nowhere'), []);
    const byName = new Map((await entries(storage, '', false)).map((entry) => [entry.key as string, entry]));
    t.match(byName.get('top'), { type: 'file', size: 3 });
    t.match(byName.get('d'), { type: 'directory', size: 0 });
  });

  scenario('a listing with stamps shows that a file changed even if its size did not', async (t, storage) => {
    const stamps = async (): Promise<Map<string, Stamp>> => {
      const found = new Map<string, Stamp>();
      for await (const entry of storage.list('', { recursive: true, stamps: true }))
        if (entry.stamp !== undefined) found.set(entry.key, entry.stamp);
      return found;
    };
    for (const name of ['same', 'd/changed']) await put(storage, name, 'one');
    const before = await stamps();
    t.same([...before.keys()].sort(), ['d/changed', 'same'], 'each file has one');
    t.same(await stamps(), before, 'without a change, it stays the same');
    // If times are inexact, two changes within two seconds may look the same.
    const isExact = before.get('same')?.isExact === true;
    if (!isExact) await sleep(2_100);
    await put(storage, 'd/changed', 'two');
    const after = await stamps();
    t.equal(after.get('same')?.id, before.get('same')?.id);
    t.not(after.get('d/changed')?.id, before.get('d/changed')?.id);
  });

  scenario('lists more entries than fit on one page', async (t, storage, { page = 1000 }) => {
    const count = 2 * page + 100;
    const all = Array.from({ length: count }, (_, index) => `many/f${String(index).padStart(5, '0')}`);
    for (let index = 0; index < count; index += 50)
      await Promise.all(all.slice(index, index + 50).map((name) => put(storage, name, '')));
    t.same(await names(storage, 'many'), all);
  });

  scenario('stores and lists unusual names', async (t, storage) => {
    const odd = [
      'späce d',
      'a+b=c&d',
      'hash#?%25',
      '100%',
      '日本語/名前',
      'it\'s "quoted"',
      'x;y,z',
      '~tilde',
      '(a)[b]{c}',
      '*',
      '🦊',
      '-dash',
      '..dots',
    ];
    for (const name of odd) await put(storage, `odd/${name}`, name);
    for (const name of odd) t.equal(await get(storage, `odd/${name}`), name);
    t.same(await names(storage, 'odd'), odd.map((name) => `odd/${name}`).sort());
  });

  scenario('reports missing files from stat, read and remove', async (t, storage) => {
    t.equal(await storage.stat(key('no')), undefined);
    t.equal(await storage.stat(key('no/deeper')), undefined);
    await rejectsWith(t, get(storage, 'no'), 'storage_not_found');
    await storage.remove(key('no'));
    await storage.remove(key('no/deeper'));
    await storage.removeTree(key('no'));
    await put(storage, 'directory/file', 'x');
    await storage.remove(key('directory'));
    t.same(await names(storage), ['directory/file'], 'a directory is not a file');
  });

  scenario('remove deletes one file and leaves files with similar names', async (t, storage) => {
    for (const name of ['a/b/c', 'a/d', 'ab']) await put(storage, name, name);
    await storage.remove(key('a/b/c'));
    t.same(await names(storage), ['a/d', 'ab']);
    t.same(await names(storage, 'a', false), ['a/d'], 'an emptied directory is gone');
  });

  scenario(
    'remove by version: deletes that version, and no other if the storage supports versions',
    async (t, storage) => {
      await put(storage, 'x', 'old');
      const outdated = (await storage.stat(key('x')))?.version ?? null;
      await put(storage, 'x', 'new, and longer');
      const current = (await storage.stat(key('x')))?.version ?? null;
      const byVersion = (version: string | null): { ifVersion?: string } =>
        version === null ? {} : { ifVersion: version };
      const refusal: unknown = await storage.remove(key('x'), byVersion(outdated)).then(
        () => null,
        (error: unknown) => error,
      );
      if (refusal === null) t.same(await names(storage), [], 'versions are not supported: removed');
      else {
        t.match(refusal, { code: 'storage_conflict' });
        t.equal(await get(storage, 'x'), 'new, and longer');
        await storage.remove(key('x'), byVersion(current));
      }
      t.same(await names(storage), []);
      await storage.remove(key('x'), byVersion(current));
    },
  );

  scenario('removes everything below a directory and nothing next to it', async (t, storage) => {
    for (const name of ['a/b/c', 'a/b/d/e', 'a/bb', 'b']) await put(storage, name, name);
    await storage.removeTree(key('a/b'));
    t.same(await names(storage), ['a/bb', 'b']);
  });

  scenario('exclusive creation succeeds once among twenty contenders', async (t, storage, world) => {
    if ((await storage.facts.conditionalWrites()) === 'none') return;
    const contenders = await Promise.all(Array.from({ length: 20 }, () => world.open()));
    const outcomes = await Promise.allSettled(
      contenders.map((contender, index) =>
        contender.write(key('.publisher.lock'), bytesBody(`${index}`), { mode: 'create' }),
      ),
    );
    const winners = outcomes.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
    t.equal(winners.length, 1);
    t.equal(await get(storage, '.publisher.lock'), `${winners[0]}`);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        t.ok(hasCode(outcome.reason, 'storage_exists'), String(outcome.reason));
    t.same(await names(storage), ['.publisher.lock']);
    await Promise.all(contenders.map((contender) => contender.close()));
  });

  scenario('compare and swap succeeds once among twenty contenders', async (t, storage, world) => {
    if ((await storage.facts.conditionalWrites()) !== 'full') return;
    // The bytes differ from those of all contenders, because a version may be a hash of the bytes.
    const { version } = await storage.write(key('state'), bytesBody('first'), { mode: 'create' });
    const contenders = await Promise.all(Array.from({ length: 20 }, () => world.open()));
    const outcomes = await Promise.allSettled(
      contenders.map((contender, index) =>
        contender.write(key('state'), bytesBody(`${index}`), { mode: 'replace', ifVersion: version ?? '' }),
      ),
    );
    t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        t.ok(hasCode(outcome.reason, 'storage_conflict'), String(outcome.reason));
    t.not((await storage.stat(key('state')))?.version, version);
    await Promise.all(contenders.map((contender) => contender.close()));
  });

  scenario(
    'rename: moves scratch files into place, in order, and replaces existing ones',
    async (t, storage) => {
      if (storage.rename === undefined) return;
      await put(storage, 'x/old', 'old');
      for (const index of [0, 1, 2])
        await storage.write(key(`.publisher.tmp/1/output-${index}`), bytesBody(`new ${index}`), {
          mode: 'scratch',
        });
      await storage.rename([
        { from: key('.publisher.tmp/1/output-0'), to: key('x/old') },
        { from: key('.publisher.tmp/1/output-1'), to: key('x/y/z/deep') },
      ]);
      t.equal(await get(storage, 'x/old'), 'new 0');
      t.equal(await get(storage, 'x/y/z/deep'), 'new 1');
      const moves = ['missing', 'output-2'].map((name) => ({
        from: key(`.publisher.tmp/1/${name}`),
        to: key(name),
      }));
      await rejectsWith(t, storage.rename(moves), 'storage_not_found');
      t.equal(await storage.stat(key('output-2')), undefined, 'moves after a failed one are not executed');
      t.equal(await get(storage, '.publisher.tmp/1/output-2'), 'new 2');
    },
  );

  scenario('renames many files concurrently', async (t, storage) => {
    if (storage.rename === undefined) return;
    const many = Array.from({ length: 100 }, (_, index) => index);
    for (const index of many)
      await storage.write(key(`.publisher.tmp/1/${index}`), bytesBody(`${index}`), { mode: 'scratch' });
    await storage.rename(
      many.map((index) => ({ from: key(`.publisher.tmp/1/${index}`), to: key(`out/${index % 7}/${index}`) })),
    );
    t.equal((await names(storage, 'out')).length, 100);
    t.equal(await get(storage, 'out/3/94'), '94');
  });

  const stageTree = async (storage: Storage, files: Record<string, string>): Promise<void> => {
    for (const [name, text] of Object.entries(files))
      await storage.write(key(`.publisher.tmp/1/tree/${name}`), bytesBody(text), { mode: 'scratch' });
  };
  const moveOf = (to: string): Move => ({
    from: key('.publisher.tmp/1/tree'),
    to: key(to),
    isDirectory: true,
  });

  scenario('renames a directory with its content', async (t, storage) => {
    if (storage.movesDirectories !== true) return;
    await stageTree(storage, { one: '1', 'deep/er/two': '2' });
    await storage.rename!([moveOf('made/here')]);
    t.same(await names(storage, 'made'), ['made/here/deep/er/two', 'made/here/one']);
    t.equal(await get(storage, 'made/here/deep/er/two'), '2');
    t.same(await names(storage, '.publisher.tmp/1'), []);
    await rejectsWith(t, storage.rename!([moveOf('else')]), 'storage_not_found');
    await stageTree(storage, { again: '3' });
    await storage.rename!([moveOf('else')]);
    t.equal(await get(storage, 'else/again'), '3', 'the same names can be staged again');
  });

  scenario('rename of a directory to an existing one: merges their contents', async (t, storage) => {
    if (storage.movesDirectories !== true) return;
    for (const name of ['here/own', 'here/deep/own', 'here/deep/two']) await put(storage, name, 'old');
    await stageTree(storage, { one: '1', 'deep/two': '2', 'deep/new/three': '3' });
    await storage.rename!([moveOf('here')]);
    const expected = ['here/deep/new/three', 'here/deep/own', 'here/deep/two', 'here/one', 'here/own'];
    t.same(await names(storage, 'here'), expected);
    t.equal(await get(storage, 'here/deep/two'), '2');
    t.equal(await get(storage, 'here/deep/own'), 'old');
    t.same(await names(storage, '.publisher.tmp/1'), []);
  });

  scenario('rename of a directory to a file: rejected, and the file stays', async (t, storage) => {
    if (storage.movesDirectories !== true) return;
    await put(storage, 'taken', 'a file');
    await stageTree(storage, { one: '1' });
    await rejectsWith(t, storage.rename!([moveOf('taken')]), 'storage_permanent');
    t.equal(await get(storage, 'taken'), 'a file');
    t.equal(await get(storage, '.publisher.tmp/1/tree/one'), '1');
  });

  const aside = (name: string): Key => key(`.publisher.tmp/1/kept-${name}`);
  const keep = async (storage: Storage, name: string): Promise<BackupFile> => {
    const kept = await storage.backUp!(key(name), aside(name.replaceAll('/', '-')));
    if (kept === null) throw new Error(`${name} is not there`);
    return kept;
  };
  const replace = async (storage: Storage, kept: BackupFile, text: string): Promise<void> => {
    if (storage.rename === undefined) return put(storage, kept.key, text);
    const from = key('.publisher.tmp/1/next');
    await storage.write(from, bytesBody(text), { mode: 'scratch' });
    const to = kept.key;
    await storage.rename([kept.method === 'move' ? { from, to, aside: kept.aside } : { from, to }]);
  };
  const removeKept = async (
    storage: Storage,
    { key: from, aside: to, method }: BackupFile,
  ): Promise<void> => {
    if (method === 'move') await storage.rename!([{ from, to }]);
    await storage.remove(from);
  };

  scenario('finds an obstacle without writing anything', async (t, storage) => {
    const obstacle = async (writes: string[], removes: string[] = []): Promise<unknown> =>
      storage.obstacleTo({ writes: writes.map(key), removes: removes.map(key), from: '', bytes: 1 });
    await put(storage, 'file', 'x');
    await put(storage, 'd/e/file', 'x');
    t.equal(await obstacle(['new', 'new/sub/one', 'file', 'd/e/two', 'd/e/f/g/three']), null);
    t.equal(await obstacle([], ['file', 'd/e/file', 'not/there', 'file/deeper']), null);
    for (const [name, at] of [
      ['file/new', 'file'],
      ['d/e/file/deeper/new', 'd/e/file'],
    ] as const) {
      const found = await obstacle(['d/new', name]);
      if (storage.rename === undefined) t.equal(found, null, 'object stores have no directories');
      else t.match(found, { code: 'storage_permanent', message: new RegExp(`${at}" is not a directory`) });
    }
    t.same(await names(storage), ['d/e/file', 'file']);
  });

  scenario('restores kept files after they were replaced or removed', async (t, storage) => {
    if (isWithout(t, storage, 'backUp')) return;
    const all = ['top', 'd/replaced', 'd/e/removed', 'd/e/f/removed', 'empty', 'untouched', 'späce #?%25'];
    for (const name of all) await put(storage, name, name === 'empty' ? '' : `old ${name}`);
    const before = await Promise.all(all.map((name) => storage.stat(key(name))));
    const kept = [];
    for (const name of all) kept.push(await keep(storage, name));
    if (kept.some(({ method }) => method === 'nothing')) {
      for (const each of kept) await rejectsWith(t, storage.restore!(each), 'storage_permanent');
      return;
    }
    t.same(
      (await names(storage)).filter((name) => !name.startsWith('.publisher')),
      [...all].sort(),
    );
    for (const each of kept)
      if (each.key.includes('removed')) await removeKept(storage, each);
      else if (each.key !== 'untouched') await replace(storage, each, 'new');
    t.same(await names(storage, 'd/e'), []);
    t.equal(await get(storage, 'top'), 'new');

    for (const round of ['put back', 'once more'])
      for (const [index, each] of kept.entries()) {
        await storage.restore!(each);
        const name = all[index] as string;
        t.equal(await get(storage, name), name === 'empty' ? '' : `old ${name}`, `${name}: ${round}`);
        if (each.method === 'link' || each.method === 'move')
          t.same((await storage.stat(key(name)))?.modifiedAt, before[index]?.modifiedAt, 'with its time');
      }
    await storage.removeTree(key('.publisher.tmp/1'));
    t.same(await names(storage), [...all].sort(), 'and nothing else is left');
  });

  scenario('keep applies to files only', async (t, storage) => {
    if (isWithout(t, storage, 'backUp')) return;
    await put(storage, 'directory/file', 'x');
    for (const name of ['no', 'no/deeper', 'directory', 'directory/file/deeper'])
      t.equal(await storage.backUp!(key(name), aside('nothing')), null, name);
    await storage.removeTree(key('.publisher.tmp/1'));
    t.same(await names(storage), ['directory/file']);
  });

  scenario('a removed file whose copy was swept cannot be restored', async (t, storage) => {
    if (isWithout(t, storage, 'backUp')) return;
    await put(storage, 'x', 'x');
    const kept = await keep(storage, 'x');
    await removeKept(storage, kept);
    await storage.removeTree(key('.publisher.tmp/1'));
    if (kept.method === 'version') await storage.restore!(kept);
    else
      await rejectsWith(
        t,
        storage.restore!(kept),
        kept.method === 'nothing' ? 'storage_permanent' : 'storage_not_found',
      );
    t.same(await names(storage), kept.method === 'version' ? ['x'] : []);
  });

  scenario('keeps many files concurrently', async (t, storage) => {
    if (isWithout(t, storage, 'backUp')) return;
    const many = Array.from({ length: 60 }, (_, index) => `many/${index % 7}/${index}`);
    await Promise.all(many.map((name) => put(storage, name, name)));
    const kept = await Promise.all(many.map((name) => keep(storage, name)));
    if (kept.some(({ method }) => method === 'nothing')) return;
    await Promise.all(kept.map((each) => removeKept(storage, each)));
    t.same(await names(storage, 'many'), []);
    await Promise.all(kept.map((each) => storage.restore!(each)));
    t.same(await names(storage, 'many'), [...many].sort());
    t.equal(await get(storage, 'many/3/59'), 'many/3/59');
  });

  scenario('a file is duplicated on the server, and the copies are independent', async (t, storage) => {
    if (isWithout(t, storage, 'duplicate')) return;
    await put(storage, 'a/one', 'one');
    await put(storage, 'a/empty', '');
    await put(storage, '.publisher.tmp/1/output-1', 'left by a call whose answer was lost');
    const staged = key('.publisher.tmp/1/output-1');
    const by = await storage.duplicate!(key('a/one'), staged);
    if (by === null) {
      t.equal(await storage.stat(staged), undefined, 'no leftover could be mistaken for it');
      t.equal(await storage.duplicate!(key('a/one'), key('b/deep/one')), null);
      return;
    }
    for (const [from, to] of [
      ['a/one', 'b/deep/one'],
      ['a/one', 'b/deep/one'],
      ['a/empty', 'b/empty'],
    ] as const)
      t.equal(await storage.duplicate!(key(from), key(to)), by);
    t.equal(await get(storage, 'b/deep/one'), 'one', 'repeated');
    t.equal(await get(storage, 'b/empty'), '');
    if (by === 'link')
      t.same(
        (await storage.stat(key('b/deep/one')))?.modifiedAt,
        (await storage.stat(key('a/one')))?.modifiedAt,
        'with its time',
      );
    if (storage.rename !== undefined) await storage.rename([{ from: staged, to: key('c/one') }]);
    await storage.removeTree(key('.publisher.tmp'));
    await put(storage, 'a/one', 'another');
    t.equal(await get(storage, 'b/deep/one'), 'one', 'a file is replaced, and never changed');
    await storage.remove(key('b/deep/one'));
    t.equal(await get(storage, 'a/one'), 'another');
    t.same(
      (await names(storage)).filter((name) => name !== 'c/one'),
      ['a/empty', 'a/one', 'b/empty'],
    );
    if (storage.rename !== undefined) t.equal(await get(storage, 'c/one'), 'one');
  });

  scenario('duplicate applies to files only', async (t, storage) => {
    if (isWithout(t, storage, 'duplicate')) return;
    await put(storage, 'directory/file', 'x');
    for (const name of ['no', 'no/deeper', 'directory', 'directory/file/deeper'])
      t.equal(await storage.duplicate!(key(name), aside('nothing')), null, name);
    await storage.removeTree(key('.publisher.tmp'));
    t.same(await names(storage), ['directory/file']);
  });

  scenario('a link is created, read, replaced and removed, and its target stays', async (t, storage) => {
    if (storage.replaceLink === undefined) return;
    t.equal(await storage.readLink!(key('d/current')), null);
    await storage.replaceLink(key('d/current'), key('releases/not yet'));
    t.equal(await storage.readLink!(key('d/current')), 'releases/not yet', 'its target may be missing');
    await put(storage, 'd/releases/1/file', 'x');
    for (const target of ['releases/1', 'releases/1', 'späce #?%25'])
      await storage.replaceLink(key('d/current'), key(target));
    t.equal(await storage.readLink!(key('d/current')), 'späce #?%25');
    await storage.replaceLink(key('d/current'), key('releases/1'));
    t.match(await storage.stat(key('d/current')), { type: 'link', size: 0 });
    t.same(
      (await entries(storage, 'd', true)).map(({ key: name, type }) => `${type} ${name}`).sort(),
      ['file d/releases/1/file', 'link d/current'],
      'lists a link without following it, and leaves no other files',
    );
    await storage.remove(key('d/current'));
    t.equal(await storage.readLink!(key('d/current')), null);
    t.equal(await get(storage, 'd/releases/1/file'), 'x');
  });

  scenario('a link replaces only a link', async (t, storage) => {
    if (storage.replaceLink === undefined) return;
    await put(storage, 'file', 'x');
    await put(storage, 'directory/file', 'x');
    for (const name of ['file', 'directory'])
      await rejectsWith(t, storage.replaceLink(key(name), key('target')), 'storage_exists');
    t.equal(await storage.readLink!(key('file')), null);
    t.equal(await storage.readLink!(key('directory')), null);
    t.same(await names(storage), ['directory/file', 'file']);
  });

  scenario('shows readers a complete target while a link is replaced', async (t, storage, world) => {
    if (storage.replaceLink === undefined) return;
    const targets = ['releases/one', 'releases/two'];
    await storage.replaceLink(key('current'), key('releases/one'));
    const reader = await world.open();
    const seen: (string | null)[] = [];
    const over = new AbortController();
    const reading = (async () => {
      do {
        seen.push(await reader.readLink!(key('current')));
        await nextTurn();
      } while (!over.signal.aborted);
    })();
    for (let round = 0; round < 100; round += 1)
      await storage.replaceLink(key('current'), key(targets[round % 2] as string));
    over.abort();
    await reading;
    t.same(
      seen.filter((target) => !targets.includes(target ?? '')),
      [],
    );
    await reader.close();
  });

  scenario('a second storage sees the writes of the first', async (t, storage, world) => {
    const other = await world.open();
    await put(storage, 'shared', 'yes');
    t.equal(await get(other, 'shared'), 'yes');
    await other.close();
  });

  scenario('a write creates all directories that another storage removed', async (t, storage, world) => {
    const other = await world.open();
    t.teardown(() => other.close());
    await put(storage, 'a/b/c/one', '1');
    await other.remove(key('a/b/c/one'));
    await put(storage, 'a/b/c/two', '2');
    t.same(await names(other), ['a/b/c/two']);
    await other.removeTree(key('a'));
    await put(storage, 'a/b/c/three', '3');
    t.same(await names(other), ['a/b/c/three']);
  });

  scenario('close may be called twice', async (t, storage) => {
    await storage.close();
    await storage.close();
    t.pass('the second call does nothing');
  });

  for (const name of lacks)
    if (!scenarios.some((one) => one.name === name))
      throw new Error(`the contract has no scenario "${name}"`);
  const held = scenarios.filter(({ name }) => !lacks.includes(name));
  const wanted = variantOf === undefined ? held : sampleOf(held, sampled, `${variantOf} ${t.name}`);
  if (variantOf !== undefined)
    t.comment(`report: ${share(wanted.length, scenarios.length)} scenarios of the contract (${t.name})`);
  for (const { name, work } of wanted)
    t.test(name, async (t) => {
      const world = await newWorld(t);
      const storage = await world.open();
      t.teardown(() => storage.close());
      await work(t, storage, world);
    });
}

async function entries(storage: Storage, directory: string, recursive: boolean): Promise<Entry[]> {
  const found: Entry[] = [];
  for await (const entry of storage.list(directory === '' ? '' : key(directory), { recursive }))
    found.push(entry);
  return found;
}

export async function rejectsWith(t: Test, promise: Promise<unknown>, code: ErrorCode): Promise<void> {
  const outcome = await promise.then(
    () => 'no error',
    (error: unknown) => error,
  );
  t.ok(hasCode(outcome, code), `fails with ${code}`, { found: String(outcome) });
}

function chunked(bytes: Buffer, size: number): Body {
  return {
    size: bytes.length,
    async *open() {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    },
  };
}
