import fc from 'fast-check';
import t from 'tap';
import { checkSceneMap } from '../../../src/core/scene-map/read-scene-map.ts';
import { bytesOf, soundMap } from './maps.ts';

const codesOf = (input: string | Uint8Array): string[] =>
  checkSceneMap(typeof input === 'string' ? bytesOf(input) : input, 'a.json').map(({ code }) => code);
const sound = JSON.stringify(soundMap(), null, 2);

t.test('a valid document has no findings, with any white space and escapes', async (t) => {
  t.same(codesOf(sound), []);
  t.same(codesOf(JSON.stringify(soundMap())), []);
  t.same(codesOf(sound.replaceAll('\n', '\r\n')), []);
  t.same(codesOf(sound.replace('A session', 'A \\"session\\": a \\\\')), []);
  t.same(codesOf(sound.replace('A session', 'Une séance — 夜')), []);
});

t.test('reports a duplicate key at its second occurrence in a valid document', async (t) => {
  const text = sound.replace(
    '"boundary_caveats"',
    '"artifact_type": "current_session_scene_map",\n  "boundary_caveats"',
  );
  const found = checkSceneMap(bytesOf(text), 'a.json');
  t.match(found, [{ code: 'duplicate_key', severity: 'error', pointer: '/artifact_type', column: 3 }]);
  t.match(text.split('\n')[(found[0]?.line ?? 0) - 1], /artifact_type/);
  t.same(
    codesOf(sound.replace('"short_title"', '"scene\\u005fid": "S1", "short_title"')),
    ['duplicate_key'],
    'although it is written with an escape',
  );
});

t.test('reports a byte order mark, a trailing comma and a comment by name, and continues', async (t) => {
  t.same(codesOf(`\uFEFF${sound}`), ['byte_order_mark']);
  t.same(codesOf(sound.replace(/"One caveat\."/, '"One caveat.",')), ['trailing_comma']);
  t.same(codesOf(sound.replace(/\}\s*$/, ',}')), ['trailing_comma']);
  t.same(codesOf(`// map\n${sound}`), ['json_comment']);
  const several = `\uFEFF/* */${sound.replace('"One caveat."', '1,').replace('"Combat"', '"Fight"')}`;
  t.same(codesOf(several), [
    'byte_order_mark',
    'json_comment',
    'trailing_comma',
    'not_in_enumeration',
    'wrong_type',
  ]);
});

t.test('reports invalid JSON with its line and column', async (t) => {
  t.match(
    checkSceneMap(bytesOf('{\n  "a" 1\n}'), 'a.json').find(({ code }) => code === 'json_syntax'),
    { line: 2, column: 7, severity: 'error' },
  );
  for (const text of [
    '{',
    '[',
    '"',
    'nul',
    "{'a': 1}",
    '{"a": 01}',
    '{"a": +1}',
    '{"a": NaN}',
    '{} {}',
    '{"a": "\n"}',
    '{"a": "\\x"}',
    '}',
  ]) {
    t.ok(codesOf(text).includes('json_syntax'), text);
  }
  t.same(codesOf(''), ['empty_document']);
  t.same(codesOf(' \n'), ['empty_document']);
});

t.test('rejects deep nesting and too many values before they use memory', async (t) => {
  t.same(codesOf('['.repeat(2_000_000)), ['nesting_too_deep']);
  t.same(codesOf('{"a":'.repeat(100_000)), ['nesting_too_deep']);
  t.same(codesOf(`[${'[],'.repeat(1_000_001)}1]`), ['document_too_large']);
  t.same(
    checkSceneMap(bytesOf(sound), 'a.json', { maxBytes: 100 }).map(({ code }) => code),
    ['document_too_large'],
  );
});

t.test('nesting hidden by a quote or a comment does not overflow the stack', async (t) => {
  t.ok(codesOf(`["\n${'['.repeat(1_000_000)}`).includes('nesting_too_deep'));
  t.ok(codesOf(`[1 // "\n${',['.repeat(1_000_000)}`).includes('nesting_too_deep'));
});

t.test('reports the location of the first byte that is not UTF-8', async (t) => {
  const found = checkSceneMap(Buffer.from([0x7b, 0x0a, 0x20, 0x22, 0xc3, 0x28, 0x22]), 'a.json');
  t.match(found, [{ code: 'invalid_utf8', line: 2, column: 3 }]);
  t.match(checkSceneMap(Buffer.from(`\uFEFF${sound}`, 'utf16le'), 'a.json')[0]?.message, /UTF-16/);
});

t.test('findings are limited, and a truncated list still counts as invalid', async (t) => {
  const many = { ...soundMap(), boundary_caveats: Array.from({ length: 50_000 }, () => 0) };
  const found = checkSceneMap(bytesOf(many), 'a.json');
  t.equal(found.length, 10_001);
  t.match(found.at(-1), { code: 'too_many_findings', severity: 'error' });
  t.equal(
    checkSceneMap(bytesOf({ ...soundMap(), scenes: Array.from({ length: 20_000 }, () => ({})) }), 'a.json')
      .length,
    10_001,
  );
  const blank = { ...soundMap(), boundary_caveats: Array.from({ length: 50_000 }, () => '') };
  t.ok(checkSceneMap(bytesOf(blank), 'a.json').every(({ severity }) => severity === 'warning'));
});

t.test('a mistake late in a long list of scenes has the right index', async (t) => {
  const map = soundMap(333);
  map.scenes[317]!.summary = 7 as never;
  t.match(checkSceneMap(bytesOf(map), 'a.json'), [{ code: 'wrong_type', pointer: '/scenes/317/summary' }]);
});

t.test('no input throws, and a text that JSON.parse rejects always has findings', async (t) => {
  const edits = fc.tuple(fc.nat(sound.length), fc.nat(40), fc.string({ unit: 'binary', maxLength: 5 }));
  fc.assert(
    fc.property(edits, ([start, length, put]) => {
      const text = sound.slice(0, start) + put + sound.slice(start + length);
      const found = checkSceneMap(bytesOf(text), 'a.json');
      let parses = true;
      try {
        JSON.parse(Buffer.from(text).toString());
      } catch {
        parses = false;
      }
      return parses || found.some(({ severity }) => severity === 'error');
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => checkSceneMap(bytes, 'a.json').length > 0),
  );
  t.pass();
});
