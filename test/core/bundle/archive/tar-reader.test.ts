import t from 'tap';
import { readTar } from '../../../../src/core/bundle/archive/tar-reader.ts';
import { tarSize, writeTar } from '../../../../src/core/bundle/archive/tar-writer.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { asWaybillError } from '../../../../src/core/lib/errors.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { endMarker, gnuLongName, inChunks, pax, rawEntry, tar } from '../../../fixtures/tar.ts';

/** The parsed entries as `name: body`, followed by the error message, if any. */
async function entriesOf(archive: Buffer | AsyncIterable<Uint8Array>): Promise<string[]> {
  const seen: string[] = [];
  try {
    for await (const entry of readTar(Buffer.isBuffer(archive) ? inChunks(archive, 300) : archive)) {
      const { type, name, size } = entry;
      const pieces: Buffer[] = [];
      for await (const piece of entry.read()) pieces.push(piece);
      const body = Buffer.concat(pieces);
      const letter = { directory: 'd ', file: '' }[type];
      seen.push(`${letter}${name}: ${size < 20 ? String(body) : body.length}`);
    }
  } catch (error) {
    seen.push(asWaybillError(error).message);
  }
  return seen;
}

t.test('skips bytes that the consumer did not read', async (t) => {
  const archive = tar(
    { path: 'a', body: 'a'.repeat(2000) },
    { path: 'b', body: 'b'.repeat(2000) },
    { path: 'c' },
  );
  for (const chunk of [100, 65_536]) {
    const seen: string[] = [];
    for await (const entry of readTar(inChunks(archive, chunk))) {
      seen.push(entry.name);
      if (entry.name === 'b') continue;
      for await (const piece of entry.read()) {
        seen.push(piece.toString('latin1', 0, 1));
        break;
      }
    }
    t.same(seen, ['a', 'a', 'b', 'c']);
  }
});

t.test('decodes a name whose characters are split between chunks', async (t) => {
  const archive = tar({ path: 'x/öäü€😀.txt' });
  for (let size = 1; size < 40; size += 1)
    for await (const { name } of readTar(inChunks(archive, size))) t.equal(name, 'x/öäü€😀.txt');
});

t.test('reports the bytes of a name that is not UTF-8, wherever it occurs', async (t) => {
  const name = Buffer.from('café.txt', 'latin1');
  const refused = String.raw`caf\xe9.txt" has a name that is not UTF-8`;
  const long = Buffer.concat([name, Buffer.alloc(300, 0xff), Buffer.from('\0')]);
  const archives = {
    'the header': tar({ path: name, body: 'x' }),
    'the header, below a prefix': tar({ path: name, prefix: 'été', body: 'x' }),
    'a directory': tar({ path: name, type: '5' }),
    'a pax header': tar(pax({ path: name }), { path: 'a', body: 'x' }),
    'a pax header that says so': tar(pax({ hdrcharset: 'BINARY', path: name }), { path: 'a', body: 'x' }),
  };
  for (const [where, archive] of Object.entries(archives)) {
    const [message = ''] = await entriesOf(archive);
    t.match(message, refused, where);
  }
  t.match((await entriesOf(archives['the header, below a prefix'])).join(), '"été/caf');
  const [message = ''] = await entriesOf(
    tar(rawEntry({ path: '././@LongLink', type: 'L', body: long, gnu: true }), { path: 'a', body: 'x' }),
  );
  t.match(message, String.raw`"caf\xe9.txt\xff\xff`);
  t.match(message, 'has a name that is not UTF-8');
  t.ok(message.length < 1000, 'a long name is truncated');
  t.same(
    await entriesOf(
      tar(pax({ path: 'é' }), { path: name, body: 'x' }, { path: 'a\ufffd', prefix: 'é', body: 'y' }),
    ),
    ['é: x', 'é/a\ufffd: y'],
    'an unused name does not count, and U+FFFD is an ordinary character',
  );
});

t.test('reports a name with invalid characters in full, up to two hundred bytes', async (t) => {
  const letters = (count: number): Buffer => Buffer.alloc(count, 0xff);
  const shown = (count: number): string => String.raw`\xff`.repeat(count);
  for (const [what, archive, name] of [
    ['one byte', tar({ path: letters(1), body: 'x' }), shown(1)],
    ['the whole field', tar({ path: letters(100), body: 'x' }), shown(100)],
    ['200 bytes', tar(pax({ path: letters(200) }), { path: 'a' }), shown(200)],
    ['201 bytes', tar(pax({ path: letters(201) }), { path: 'a' }), `${shown(200)}…`],
  ] as const)
    t.ok((await entriesOf(archive))[0]?.startsWith(`the archive entry "${name}" has a name`), what);
  const prefix = 'p'.repeat(140);
  t.same(await entriesOf(tar({ path: 'a\ufffd', prefix, body: 'y' })), [`${prefix}/a\ufffd: y`]);
});

t.test('a body ends at its last byte, with or without a full block', async (t) => {
  for (const size of [0, 1, 511, 512, 513, 1024])
    t.same(await entriesOf(tar({ path: 'a', body: 'x'.repeat(size) }, { path: 'b', body: 'y' })), [
      `a: ${size < 20 ? 'x'.repeat(size) : size}`,
      'b: y',
    ]);
  t.same(await entriesOf(tar({ path: 'd/', type: '5' }, { path: 'd/a', body: 'y' })), ['d d/: ', 'd/a: y']);
  t.same(
    await entriesOf(tar(pax({ size: '5' }), { path: 'd/', type: '5' }, { path: 'd/a', body: 'y' })),
    ['d d/: ', 'd/a: y'],
    'a directory has none, whatever its headers contain',
  );
});

t.test('extended headers apply only to the next file', async (t) => {
  const archive = tar(
    pax({ path: 'long', comment: 'x' }),
    { path: 'a', body: '1' },
    { path: 'b', body: '2' },
    gnuLongName('longer'),
    { path: 'c', body: '3' },
    pax({ path: '' }),
    { path: 'd', body: '4' },
    pax({ comment: 'all' }, 'g'),
    { path: 'L', type: 'L', body: 'no NUL at its end' },
    { path: 'e', body: '5' },
    pax({ path: 'named' }),
    pax({ comment: 'and more' }),
    { path: 'f', body: '6' },
  );
  t.same(await entriesOf(archive), [
    ...['long: 1', 'b: 2', 'longer: 3', 'd: 4', 'no NUL at its end: 5', 'named: 6'],
  ]);
});

t.test('a file whose name is cut after a slash in its header is still a file', async (t) => {
  const name = `${'d/'.repeat(60)}a`;
  const cut = { path: name.slice(0, 100), body: 'x' };
  t.equal(cut.path.at(-1), '/');
  t.same(await entriesOf(tar(gnuLongName(name), { ...cut, gnu: true }, { path: 'b' })), [
    `${name}: x`,
    'b: ',
  ]);
  t.same(await entriesOf(tar(pax({ path: name }), cut, { path: 'b' })), [`${name}: x`, 'b: ']);
});

t.test('a file has at most four extended headers, of a mebibyte each', async (t) => {
  const comments = (count: number): Buffer[] => Array.from({ length: count }, () => pax({ comment: 'x' }));
  t.same(await entriesOf(tar(...comments(4), { path: 'a', body: '1' })), ['a: 1']);
  t.same(await entriesOf(tar(...comments(5), { path: 'a', body: '1' })), [
    'too many headers describe one file',
  ]);
  const overhead = '1048576 comment=\n'.length;
  for (const [size, isTaken] of [
    [2 ** 20, true],
    [2 ** 20 + 1, false],
  ] as const) {
    const body = `${size} comment=${'x'.repeat(size - overhead)}\n`;
    t.same(
      await entriesOf(tar({ path: 'p', type: 'x', body }, { path: 'a', body: '1' })),
      isTaken ? ['a: 1'] : [`a header of ${size} bytes describes the next file`],
    );
  }
});

t.test('reports the cause of each kind of damage', async (t) => {
  const a = rawEntry({ path: 'a', body: '1' });
  const empty = Buffer.alloc(0);
  const cases: [archive: Buffer, message: string | RegExp, after?: string][] = [
    [empty, 'the upload is empty'],
    [Buffer.from('x'), 'the upload is not a tar archive'],
    [Buffer.alloc(512, 'x'), 'the upload is not a tar archive'],
    [a, 'the archive is cut short', 'a: 1'],
    [Buffer.concat([a, endMarker.subarray(0, 512)]), 'the archive is cut short', 'a: 1'],
    [a.subarray(0, 600), 'the archive is cut short', 'a: 1'],
    [pax({ path: 'b' }), 'the archive is cut short'],
    [pax({ path: 'b' }).subarray(0, 520), 'the archive is cut short'],
    [pax({ path: 'b' }).subarray(0, 600), 'the archive is cut short'],
    [tar(pax({ path: 'b' })), 'the archive ends after a header that describes the next file'],
    [tar(a, rawEntry({ path: 'b', badChecksum: true })), /has a wrong checksum/, 'a: 1'],
    [Buffer.concat([a, endMarker.subarray(0, 512), a]), /a zero block between entries/, 'a: 1'],
    [Buffer.concat([a, endMarker, Buffer.alloc(700), Buffer.from('x')]), /something follows/, 'a: 1'],
    [Buffer.concat([a, endMarker, Buffer.from('x')]), /something follows/, 'a: 1'],
    [tar(pax({ size: '1e3' }), a), 'a pax header gives a size that is not a number'],
    [tar(pax({ size: '1'.repeat(16) }), a), 'a pax header gives a size that is not a number'],
    [tar(pax({ size: '' }), a), 'a pax header gives a size that is not a number'],
    [tar(pax({ size: '5' }, 'g'), a), 'a global header gives all files one name or size'],
    [tar(pax({ path: 'x' }, 'g'), a), 'a global header gives all files one name or size'],
    [tar(pax({ path: 'x' }), gnuLongName('y'), a), 'a file is given two names'],
    [tar(pax({ comment: 'x' }), rawEntry({ path: 'b', badChecksum: true })), /has a wrong checksum/],
    [pax({ comment: 'x'.repeat(1010) }).subarray(0, 600), 'the archive is cut short'],
    [pax({ comment: 'x'.repeat(1010) }).subarray(0, 1536 - 512), 'the archive is cut short'],
    [
      tar(
        rawEntry({ path: '././@LongLink', type: 'K', body: 'target\0', gnu: true }),
        rawEntry({ path: 'a', type: '2' }),
      ),
      'the archive entry "a" is a symbolic link',
    ],
    [tar(pax({ 'GNU.sparse.map': '1', path: 'x' }), a), 'the archive entry "PaxHeader/x" is a sparse file'],
    [tar(pax({ 'GNU.sparse.map': '1' }), a), 'the archive entry "PaxHeader/x" is a sparse file'],
    [tar(pax({ path: 'a\0b' }), a), 'the archive entry "a\\u0000b" holds a NUL in its name'],
    [
      tar(rawEntry({ path: 'a', linkpath: 'b' })),
      'the archive entry "a" is a file that names the target of a link',
    ],
    [tar(rawEntry({ path: 'a', rawSize: Buffer.from('zzzzzzzzzzz\0') })), 'the size of "a" is not a number'],
  ];
  for (const [type, what] of [
    ['1', 'a hard link'],
    ['2', 'a symbolic link'],
    ['3', 'a character device'],
    ['4', 'a block device'],
    ['6', 'a named pipe'],
    ['S', 'a sparse file'],
    ['Q', 'of the type "Q"'],
  ] as const)
    cases.push([tar(rawEntry({ path: 'a', type })), `the archive entry "a" is ${what}`]);
  for (const [archive, message, after] of cases) {
    const seen = await entriesOf(archive);
    t.equal(seen.length, after === undefined ? 1 : 2, String(message));
    t.match(seen.at(-1), message);
    if (after !== undefined) t.equal(seen[0], after);
  }
  t.same(await entriesOf(tar(pax({ size: '1'.repeat(15) }), a)), ['the archive is cut short']);
});

t.test('skips up to sixteen mebibytes of padding after the end', async (t) => {
  const most = 16 * 2 ** 20;
  async function* padded(padding: number): AsyncGenerator<Uint8Array> {
    yield tar({ path: 'a', body: '1' });
    for (let left = padding; left > 0; left -= 2 ** 20) yield Buffer.alloc(Math.min(left, 2 ** 20));
  }
  t.same(await entriesOf(padded(most)), ['a: 1']);
  t.same(await entriesOf(padded(most + 1)), ['a: 1', 'the archive has endless padding']);
});

t.test('closes the input after the archive is read, rejected or abandoned', async (t) => {
  for (const archive of [
    tar({ path: 'a' }),
    Buffer.from('x'.repeat(600)),
    tar({ path: 'a' }, { path: 'b' }),
  ]) {
    let isClosed = false;
    const input = async function* (): AsyncGenerator<Uint8Array> {
      try {
        yield archive;
        yield Buffer.alloc(512);
        yield Buffer.alloc(512);
      } finally {
        isClosed = true;
      }
    };
    try {
      for await (const { name } of readTar(input())) if (name === 'a' && archive.length > 2048) break;
    } catch (error) {
      t.match(error, { code: 'malformed_archive' });
    }
    t.ok(isClosed);
  }
});

const written = (path: string, text: string) => ({
  path,
  digest: digestOf(text),
  body: bytesBody(text),
});

t.test('reads back what it writes, with the declared length and stable bytes', async (t) => {
  const long = `${'deep/'.repeat(60)}é.txt`;
  const files = [
    written('a', ''),
    written('b', 'x'.repeat(512)),
    written(long, 'y'.repeat(513)),
    written('c', 'z'),
  ];
  const at = new Date('2026-11-20T01:02:03.999Z');
  const bytesOf = async (modified: Date): Promise<Buffer> => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of writeTar(files, modified)) chunks.push(chunk);
    return Buffer.concat(chunks);
  };
  const archive = await bytesOf(at);
  t.same(await entriesOf(archive), ['a: ', 'b: 512', `${long}: 513`, 'c: z']);
  t.equal(archive.length, tarSize(files, at));
  t.equal(tarSize([], at), 1024);
  t.ok(archive.equals(await bytesOf(new Date('2026-11-20T01:02:03Z'))), 'times are whole seconds');
  t.notOk(archive.equals(await bytesOf(new Date('2026-11-20T01:02:04Z'))));
  const field = (from: number, to: number): string =>
    archive.toString('latin1', from, to).replace(/[ \0]+$/, '');
  t.equal(parseInt(field(100, 108), 8), 0o644);
  t.equal(parseInt(field(108, 116), 8), 0);
  t.equal(parseInt(field(116, 124), 8), 0);
  t.equal(parseInt(field(136, 148), 8) * 1000, Date.parse('2026-11-20T01:02:03Z'));
  t.equal(field(156, 157), '0');
  t.equal(field(265, 329), '', 'no user or group names');
  const early = await bytesOf(new Date('1960-01-01T00:00:00Z'));
  t.equal(parseInt(early.toString('latin1', 136, 147), 8), 0, 'none before 1970');
});

t.test('a file that changed since it was hashed ends the archive with an error', async (t) => {
  const open = (...texts: string[]) =>
    async function* () {
      for (const text of texts) yield Buffer.from(text);
    };
  for (const [changed, most] of [
    [open('other'), 5],
    [open('lo', 'nger', 'than', 'it', 'was'), 5],
    [open('shrt'), 5],
  ] as const) {
    let size = 0;
    await t.rejects(
      async () => {
        const file = { path: 'a', digest: digestOf('hello'), body: { size: 5, open: changed } };
        for await (const chunk of writeTar([file], new Date())) size += chunk.byteLength;
      },
      { code: 'body_mismatch', message: /^"a": / },
    );
    t.ok(size <= 512 + most, `${size} bytes before the error`);
  }
});
