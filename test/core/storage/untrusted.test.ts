import type { FileEntryWithStats, SFTPWrapper } from 'ssh2';
import t from 'tap';
import { discoverBundles } from '../../../src/core/bundle/discover.ts';
import { maxPathSegments } from '../../../src/core/bundle/limits.ts';
import { selectFiles } from '../../../src/core/bundle/pack/select-files.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { observe } from '../../../src/core/publish/decision/observe.ts';
import { sizeAndDigest, storedBody } from '../../../src/core/storage/body.ts';
import { joinKey, listedKey as key } from '../../../src/core/storage/key.ts';
import { listEntries, pagesBelow, unfinishedUploads } from '../../../src/core/storage/s3/listing.ts';
import { nameDecoder } from '../../../src/core/storage/s3/name-decoder.ts';
import type { ListPage, UploadPage } from '../../../src/core/storage/s3/objects.ts';
import { readDirectory } from '../../../src/core/storage/sftp/sftp-root.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import {
  ListingLimit,
  maxDepth,
  maxEmptyPages,
  maxListed,
  maxNameUnits,
} from '../../../src/core/storage/untrusted.ts';
import { followLinks } from '../../../src/core/storage/wrappers/follow-links.ts';
import { owner } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

/** Storage servers are not trusted: no response leads to another place or is endless. */

const storage = { label: 'the server' };

/**
 * The entries that a reader of a directory gets from a server that answers READDIR with these names, and
 * then with the end.
 */
async function namesFrom(
  answers: (request: number) => string[] | null,
  limit = new ListingLimit(),
): Promise<string[]> {
  let requests = 0;
  const handle = Buffer.from('handle');
  const server = {
    opendir: (_path: string, done: (error: undefined, opened: Buffer) => void) => done(undefined, handle),
    readdir: (_handle: Buffer, done: (error: Error | undefined, list: FileEntryWithStats[]) => void) => {
      const names = answers((requests += 1));
      const end = Object.assign(new Error('end of file'), { code: 1 });
      setImmediate(() =>
        done(
          names === null ? end : undefined,
          (names ?? []).map((filename) => ({ filename, attrs: {} }) as FileEntryWithStats),
        ),
      );
    },
    close: (_handle: Buffer, done: () => void) => done(),
  } as unknown as SFTPWrapper;
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null, entries: readonly { filename: string }[] = []): void =>
      error instanceof Error ? reject(error) : resolve(entries.map(({ filename }) => filename));
    readDirectory(storage, server, '/root', limit, done);
  });
}

t.test('rejects names of an SFTP server that contain a directory', async (t) => {
  t.same(await namesFrom((request) => (request === 1 ? ['.', '..', 'a', '...'] : null)), ['a', '...']);
  for (const name of ['', 'a/b', '/etc/passwd', '../up', 'a\0b'])
    await t.rejects(
      namesFrom((request) => (request === 1 ? ['fine', name] : null)),
      { code: 'storage_permanent', message: JSON.stringify(name) },
    );
});

t.test('limits the entries of an SFTP directory', async (t) => {
  await t.rejects(
    namesFrom((request) => [`${request}`], new ListingLimit({ names: 1000, bytes: 1e9 })),
    { code: 'storage_permanent', message: 'more than 1000 names' },
  );
  await t.rejects(
    namesFrom((request) => [`${request}`.padStart(1000)], new ListingLimit({ names: 1e9, bytes: 100_000 })),
    { code: 'storage_permanent', message: 'names of more than 100000 bytes' },
  );
  await t.rejects(
    namesFrom(() => []),
    { code: 'storage_permanent', message: 'without an end' },
  );
});

async function pagesFrom(answer: (page: number) => Partial<ListPage>): Promise<number> {
  let pages = 0;
  const wire = {
    list: async () => ({ objects: [], prefixes: [], next: null, ...answer((pages += 1)) }),
  };
  const listing = pagesBelow({ ...storage, client: wire, pageSize: null }, 'site/', { oneLevel: true });
  for await (const page of listing) if (page.next === null) break;
  return pages;
}

t.test('a listing of an S3 server must stay below its prefix and is limited', async (t) => {
  const object = (name: string): ListPage['objects'][number] => ({
    key: name,
    size: 1,
    version: null,
    modifiedAt: null,
  });
  t.equal(await pagesFrom((page) => ({ objects: [object('site/a')], next: page < 3 ? `${page}` : null })), 3);
  for (const answer of [
    { objects: [object('other/a')] },
    { prefixes: ['other/'] },
    { objects: [object('site/a\0')] },
  ])
    await t.rejects(
      pagesFrom(() => answer),
      { code: 'storage_permanent', message: 'is not below' },
    );
  await t.rejects(
    pagesFrom(() => ({ objects: [object('site/a')], next: 'same' })),
    { message: 'repeats' },
  );
  let asked = 0;
  await t.rejects(
    pagesFrom((page) => ({ next: `${(asked = page)}` })),
    { message: 'too many empty pages' },
  );
  t.equal(asked, maxEmptyPages + 1);
});

t.test(
  'rejects names of an S3 server without a size, in another encoding, or above the maximum length',
  async (t) => {
    for (const size of [-1, 1.5, Number.NaN, Infinity, 2 ** 60]) {
      const list = async (): Promise<ListPage> => ({
        objects: [{ key: 'site/a', size, version: null, modifiedAt: null }],
        prefixes: [],
        next: null,
      });
      const entries = listEntries({ ...storage, client: { list }, pageSize: null }, 'site/', '', {
        recursive: true,
      });
      await t.rejects(
        async () => {
          for await (const { size: listed } of entries) t.fail(`listed with the size ${listed}`);
        },
        { code: 'storage_permanent', message: `"site/a" has the size ${size}` },
      );
    }
    await t.rejects(
      pagesFrom(() => ({ prefixes: [`site/${'x'.repeat(maxNameUnits)}/`] })),
      { code: 'storage_permanent', message: `more than ${maxNameUnits} characters` },
    );
    const malformed = new WaybillError('storage_permanent', 'malformed');
    t.throws(() => nameDecoder('url', () => malformed)('%zz'), malformed);
  },
);

t.test('limits the unfinished uploads of an S3 server, below its prefix', async (t) => {
  const uploadsFrom = async (answer: (page: number) => UploadPage['uploads']): Promise<number> => {
    let pages = 0;
    const uploads = async (): Promise<UploadPage> => {
      pages += 1;
      if (pages > 2 * maxEmptyPages) throw new Error('the listing goes on');
      return { uploads: answer(pages), next: { KeyMarker: `${pages}`, UploadIdMarker: '' } };
    };
    await unfinishedUploads({ ...storage, client: { uploads } }, 'site/');
    return pages;
  };
  const upload = { key: 'site/a', uploadId: '1' };
  const many = Array.from({ length: 10_000 }, () => upload);
  const unnamed = { key: 'site/a', uploadId: 'x'.repeat(maxNameUnits + 1) };
  await t.rejects(
    uploadsFrom(() => []),
    { message: 'too many empty pages' },
  );
  await t.rejects(
    uploadsFrom(() => many),
    { message: `more than ${maxListed} names` },
  );
  await t.rejects(
    uploadsFrom(() => [unnamed]),
    { message: `more than ${maxNameUnits} characters` },
  );
  await t.rejects(
    uploadsFrom(() => [{ key: 'other/a', uploadId: '1' }]),
    { message: 'is not below' },
  );
});

t.test('ends a body after more bytes than were listed', async (t) => {
  let sent = 0;
  const endless = {
    ...memoryStorage({ flavour: 'objects' }),
    async *read() {
      for (;;) {
        sent += 1;
        yield Buffer.alloc(10);
      }
    },
  };
  t.match(await sizeAndDigest(storedBody(endless, { key: key('a'), size: 25 }).open()), { size: 30 });
  t.equal(sent, 3);
});

t.test('does not follow directories without end', async (t) => {
  const list = async ({ prefix }: { prefix: string }): Promise<ListPage> => ({
    ...{ objects: [], prefixes: [`${prefix}d/`], next: null },
  });
  const endless: Storage = {
    ...memoryStorage({ flavour: 'objects' }),
    list: (directory, options) =>
      listEntries({ ...storage, client: { list }, pageSize: null }, '', directory, options),
  };
  await t.rejects(discoverBundles(endless), { code: 'storage_permanent', message: 'nested deeper' });
  t.ok(maxDepth > 2 * maxPathSegments + 8, 'the deepest file of the deepest bundle can be listed');
});

t.test('one limit applies to all directories of a walk', async (t) => {
  const limits = new Set<ListingLimit | undefined>();
  const nested: Storage = {
    ...memoryStorage({ flavour: 'files' }),
    async *list(directory, { limit }) {
      limits.add(limit);
      if (directory.length < 4) yield { key: joinKey(directory, 'd'), type: 'directory', size: 0 };
    },
  };
  const publication = { owner, workflow: 'replacement', planned: [], force: false } as const;
  const walks = {
    discover: () => discoverBundles(nested),
    select: () => selectFiles(nested, {}),
    observe: () => observe(nested, publication),
    follow: async () => {
      const followed = followLinks(nested, { root: null, linksTo: [], open: async () => nested });
      for await (const { key: found } of followed.list('', { recursive: true })) t.comment(found);
    },
  };
  for (const [name, walk] of Object.entries(walks)) {
    limits.clear();
    await walk();
    t.ok(limits.size === 1 && !limits.has(undefined), name);
  }
});

t.test('the limit of a listing counts bytes of memory', (t) => {
  const limit = new ListingLimit({ names: 1e9, bytes: 1000 });
  limit.add(storage, 'é'.repeat(400));
  limit.add(storage, '☺'.repeat(300));
  t.throws(() => limit.add(storage, 'a'), { code: 'storage_permanent', message: 'more than 1000 bytes' });
  const usual = new ListingLimit();
  const name = 'x'.repeat(100);
  for (let count = 0; count < 1_000_000; count += 1) usual.add(storage, name);
  t.end();
});
