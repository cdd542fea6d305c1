import t from 'tap';
import { indentationFault } from '../../../src/core/config/yaml-indentation.ts';

/** The last line of each text is the one that is asked about. */
const faultOf = (...lines: string[]): string | undefined =>
  indentationFault(['# above', ...lines, ''].join('\n'), lines.length + 1);

t.test('a line that fits none of the lines above says which would', (t) => {
  t.match(
    faultOf('pipelines:', '  - id: a', '   source: x'),
    'indented by 3 spaces; expected 0 or 2 or 4, as the lines above',
  );
  t.match(faultOf('a:', '    b: 1', '', '  # not this', ' c: 2'), 'by 1 space; expected 0 or 4');
  t.end();
});

t.test('a line that is deeper than one that has its value already says so', (t) => {
  t.match(faultOf('a:', '  b: 1', '    c: 2'), 'by 4 spaces, and the one above by 2');
  t.match(faultOf('a:', '  - id: 1', '      c: 2'), 'by 6 spaces, and the one above by 4');
  t.end();
});

t.test('the items of one list stand in one column', (t) => {
  t.match(faultOf('a:', '   - 1', ' - 2'), 'by 1 space; expected 0 or 3');
  t.match(faultOf('a:', '  b:', '   - 1', '  - 2'), 'by 2 spaces, and the list above by 3');
  t.end();
});

t.test('what fits is not found at fault', (t) => {
  for (const lines of [
    ['a: 1', 'b: 2'],
    ['a:', '  b: 1', '  c: 2'],
    ['a:', '  - id: 1', '    c: 2'],
    ['a:', '- id: 1', '- id: 2'],
    ['a:', '  - - 1', '    - 2'],
    ['a: # words', '  b: 1'],
    ['a: |', '  text', '  more'],
    ['a:', '  b:', '    c: 1', 'd: 2'],
  ])
    t.equal(faultOf(...lines), undefined, lines.join('⏎'));
  t.equal(indentationFault('a: 1', 7), undefined, 'a line that there is not');
  t.end();
});
