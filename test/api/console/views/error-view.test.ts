import t from 'tap';
import { errorView, plainWords, sentencesOf } from '../../../../src/api/console/views/error-view.ts';

/** The console puts messages in its own words, but not the names that they quote. */

t.test('keeps quoted names, and words the rest for the console', (t) => {
  t.equal(
    plainWords('1 output is missing: "outputs/output.json", since 2026-11-28T10:00:00Z'),
    '1 file is missing: "outputs/output.json", since 28 Nov 2026, 10:00:00 UTC',
  );
  t.equal(plainWords('"of \\"two\\" outputs" has outputs'), '"of \\"two\\" outputs" has files');
  t.equal(plainWords('a " alone, and outputs'), 'a " alone, and files');
  t.end();
});

t.test('splits sentences outside quoted names', (t) => {
  t.same(sentencesOf('"a; b.html" is missing; nothing was changed'), [
    '"a; b.html" is missing.',
    'Nothing was changed.',
  ]);
  t.end();
});

t.test('a command replaces the advice to list the files with a flag', (t) => {
  const error = {
    code: 'unmanaged_content',
    message: 'in the way',
    retryable: false,
    findings: [],
    hint: 'move these files away, or publish to another path; --force deletes them and everything else there, and --force --dry-run lists it first',
  } as const;
  const hint = 'Move these files away, or publish to another path.';
  t.match(errorView(error), { hint, command: null, force: null });
  t.match(errorView(error, { command: 'waybill run' }), {
    ...{ hint, command: 'waybill run', force: 'deletes them and everything else there' },
  });
  t.end();
});

t.test('the view of an error names the damaged file', (t) => {
  const error = {
    code: 'invalid_bundle',
    message: 'the file "outputs/map.json" has 3 bytes; the manifest says 4',
    hint: 'pack "outputs/map.json" again',
    retryable: false,
    findings: [],
  } as const;
  t.match(errorView(error), {
    title: 'The file "outputs/map.json" has 3 bytes',
    text: 'The manifest says 4.',
    hint: 'Pack "outputs/map.json" again.',
  });
  t.end();
});
