import fc from 'fast-check';
import t from 'tap';
import { examineJson, type JsonExamination } from '../../../../src/core/lib/located-json/examine.ts';

const limits = { depth: 64, containers: 1000, problems: 100 };
const examine = (text: string, wanted: string[] = []): JsonExamination =>
  examineJson(text, { limits, wanted });
const kindsOf = (text: string): string[] =>
  examine(text).problems.map(({ kind, offset }) => `${kind} ${offset}`);

t.test('agrees with JSON.parse on validity, for any text (property)', async () => {
  const noise = fc.string({
    unit: fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      '"',
      ',',
      ':',
      '\\',
      'u',
      '0',
      '1',
      'a',
      'e',
      '.',
      '-',
      '+',
      ' ',
      '\n',
      'true',
      'null',
    ),
  });
  fc.assert(
    fc.property(
      fc.oneof(
        noise,
        fc.json(),
        fc.json().chain((text) => fc.nat(text.length).map((end) => text.slice(0, end))),
      ),
      (text) => {
        let isJson = true;
        try {
          JSON.parse(text);
        } catch {
          isJson = false;
        }
        const { problems } = examineJson(text, { limits });
        return problems.some(({ kind }) => kind !== 'duplicate_key') !== isJson;
      },
    ),
    { numRuns: 3000 },
  );
});

t.test('parses the same value as JSON.parse (property)', async (t) => {
  fc.assert(
    fc.property(fc.json(), (text) => t.same(examine(text).value, JSON.parse(text))),
    { numRuns: 200 },
  );
  const value = examine('{"__proto__": {"a": 1}, "b": [1, true, null, "x\\n"]}').value as object;
  t.ok(Object.hasOwn(value, '__proto__'), '__proto__ is an ordinary key');
});

t.test('finds values by pointer, including escapes and the last of two equal keys', async (t) => {
  const text = '{"a/b": {"~": 1}, "list": [0, {"x": 2}], "k": 1, "k": 22}';
  const { valueOffset, keyOffset, problems } = examine(text, [
    '',
    '/a~1b/~0',
    '/list/1/x',
    '/k',
    '/list/7/y',
  ]);
  t.equal(valueOffset(''), 0);
  t.equal(text.slice(valueOffset('/a~1b/~0')).at(0), '1');
  t.equal(text.slice(keyOffset('/a~1b/~0') ?? 0, (keyOffset('/a~1b/~0') ?? 0) + 3), '"~"');
  t.equal(text.at(valueOffset('/list/1/x')), '2');
  t.equal(text.slice(valueOffset('/k')), '22}');
  t.equal(text.at(valueOffset('/list/7/y')), '[', 'the nearest value around the missing one');
  t.equal(keyOffset('/list/7/y'), null);
  t.match(problems, [{ kind: 'duplicate_key', pointer: '/k', offset: text.lastIndexOf('"k"') }]);
});

t.test('each mistake is one problem at its position, and parsing continues after it', async (t) => {
  const cases: [text: string, problems: string[]][] = [
    ['', ['empty 0']],
    [' \n', ['empty 0']],
    ['[1,]', ['trailing_comma 2']],
    ['{"a":1,}', ['trailing_comma 6']],
    ['[1, // no\n]', ['trailing_comma 2', 'comment 4']],
    ['[,1]', ['syntax 1']],
    ['[1 2]', ['syntax 3']],
    ['{"a" 1}', ['syntax 5']],
    ['{"a":}', ['syntax 5']],
    ["{'a': 1}", ['syntax 1']],
    ['{a: 1, "b": x}', ['syntax 1', 'syntax 12']],
    ['{1: 2}', ['syntax 1']],
    ['{,}', ['syntax 1']],
    ['{"a": [1}', ['syntax 8']],
    ['[1}]', ['syntax 2']],
    ['[1', ['syntax 2']],
    ['{"a":"x', ['syntax 7']],
    ['{"a":"\\q\\w"}', ['syntax 6']],
    ['"\\u12g4"', ['syntax 1']],
    ['"a\tb"', ['syntax 2']],
    ['{} {}', ['syntax 3']],
    ['[1.]', ['syntax 1']],
    ['[01]', ['syntax 2']],
    ['/* open', ['comment 0', 'syntax 7']],
  ];
  for (const [text, problems] of cases) t.same(kindsOf(text), problems, text);
});

t.test('stops at a limit in hostile texts, without recursion and in linear time', async (t) => {
  t.match(examine('['.repeat(5_000_000)).problems, [{ kind: 'too_deep', offset: 64 }]);
  t.match(examine(`["\n${'['.repeat(1_000_000)}`).problems.at(-1), { kind: 'too_deep' });
  t.match(examine(`[${'[],'.repeat(100_000)}`).problems.at(-1), { kind: 'too_many_containers' });
  t.equal(examine('a '.repeat(1_000_000)).problems.length, 2);
  t.equal(examine(`[${'a '.repeat(1_000_000)}`).problems.length, 100);
  t.equal(examine(`{${'"k":1,'.repeat(1_000_000)}"l":2}`).problems.length, 100);
  // With quadratic time, this would take hours.
  const length = 3_000_000;
  t.equal(examine(`{"a": "${'\\"'.repeat(length)}" ${'}'.repeat(length)}`).problems.length, 1);
});
