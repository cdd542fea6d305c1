import t from 'tap';
import { positionsIn } from '../../../../src/core/lib/located-json/decode.ts';
import {
  escapePointer,
  measureJson,
  pointerSegments,
} from '../../../../src/core/lib/located-json/measure.ts';
import { quoted, quotedName } from '../../../../src/core/lib/text.ts';

t.test('offsets become lines and columns from 1, in UTF-16 code units', async (t) => {
  const positionOf = positionsIn('ab\n\r\n😀x');
  const places = [0, 2, 3, 5, 7, 8].map((offset) => positionOf(offset));
  t.same(
    places.map(({ line, column }) => `${line}:${column}`),
    ['1:1', '1:3', '2:1', '3:1', '3:3', '3:4'],
  );
});

t.test('keys are unchanged after conversion to a pointer and back', async (t) => {
  const keys = ['a/b', '~', '~1', '', '0'];
  t.same(pointerSegments(keys.map((key) => `/${escapePointer(key)}`).join('')), keys);
  t.same(pointerSegments(''), []);
  t.equal(quoted('a\u001b"'), '"a\\u001b\\""');
  t.equal(quoted('x'.repeat(60)), `"${'x'.repeat(60)}"`);
  t.equal(quoted('x'.repeat(61)), `"${'x'.repeat(60)}…"`);
  t.equal(quotedName('x'.repeat(201)), `"${'x'.repeat(200)}…"`);
});

t.test('measures the structure of a text outside its strings', async (t) => {
  t.same(measureJson('{"a": [1, {"b,:{": "\\"]"}], "c" : {}}'), {
    containers: 4,
    depth: 3,
    colons: 3,
    commas: 2,
  });
  t.equal(measureJson('['.repeat(1_000_000)).depth, 1_000_000);
});
