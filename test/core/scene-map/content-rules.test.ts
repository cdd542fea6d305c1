import fc from 'fast-check';
import t from 'tap';
import { contentFindings } from '../../../src/core/scene-map/content-rules.ts';
import type { SceneMap } from '../../../src/core/scene-map/generated/schema-types.ts';
import { countSentences, isWithinSentenceLimit } from '../../../src/core/scene-map/sentences.ts';
import { soundMap, soundScene } from './maps.ts';

/** A map over the ids, cut before each of the indexes. */
function partition(ids: readonly number[], cuts: readonly number[]): SceneMap {
  const starts = [0, ...cuts];
  const scenes = starts.map((start, index) =>
    soundScene(index, ids[start]!, ids[(starts[index + 1] ?? ids.length) - 1]!),
  );
  return {
    ...soundMap(),
    session_scope: { source_description: 'x', first_segment_id: ids[0]!, last_segment_id: ids.at(-1)! },
    scenes,
  };
}

const transcripts = fc
  .uniqueArray(fc.integer({ min: -500, max: 5000 }), { minLength: 2, maxLength: 80 })
  .map((ids) => ids.sort((a, b) => a - b));
const partitions = transcripts.chain((ids) =>
  fc.record({ ids: fc.constant(ids), cuts: fc.subarray(ids.map((_, index) => index).slice(1)) }),
);

t.test('a random partition of a transcript has no findings', async (t) => {
  fc.assert(
    fc.property(
      partitions,
      ({ ids, cuts }) => contentFindings(partition(ids, cuts), { format: 'json', ids }).length === 0,
    ),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(
      fc.integer({ min: -50, max: 50 }),
      fc.integer({ min: 1, max: 60 }),
      fc.infiniteStream(fc.boolean()),
      (first, length, coin) => {
        const ids = Array.from({ length }, (_, index) => first + index);
        const cuts = ids.map((_, index) => index).filter((index) => index > 0 && coin.next().value);
        return contentFindings(partition(ids, cuts)).length === 0;
      },
    ),
  );
  t.pass();
});

t.test('reports any moved boundary with its scene or an adjacent scene', async (t) => {
  fc.assert(
    fc.property(
      partitions,
      fc.nat(),
      fc.boolean(),
      fc.integer({ min: -6000, max: 6000 }),
      ({ ids, cuts }, pick, atStart, to) => {
        const map = partition(ids, cuts);
        const index = pick % map.scenes.length;
        const field = atStart ? 'start_segment_id' : 'end_segment_id';
        fc.pre(map.scenes[index]![field] !== to);
        map.scenes[index]![field] = to;
        const found = contentFindings(map, { format: 'json', ids });
        const near = [index - 1, index, index + 1].map((one) => `/scenes/${one}/`);
        return found.length > 0 && found.some(({ pointer }) => near.some((one) => pointer.startsWith(one)));
      },
    ),
    { numRuns: 1000 },
  );
  t.pass();
});

t.test('finds a moved boundary without a transcript, too', async (t) => {
  fc.assert(
    fc.property(fc.nat(3), fc.boolean(), fc.integer({ min: -20, max: 70 }), (index, atStart, to) => {
      const map = soundMap();
      const field = atStart ? 'start_segment_id' : 'end_segment_id';
      fc.pre(map.scenes[index]![field] !== to);
      map.scenes[index]![field] = to;
      return contentFindings(map).length > 0;
    }),
  );
  t.pass();
});

t.test('reports each rule by name, with its message', async (t) => {
  const findingsAfter = (change: (map: SceneMap) => void): [string, string][] => {
    const map = soundMap();
    change(map);
    return contentFindings(map).map(({ code, message }) => [code, message]);
  };
  t.match(
    findingsAfter((map) => (map.scenes[1]!.start_segment_id = 14)),
    [['gap', 'Segments 11 to 13 are in no scene, between scene 1 ("S1") and scene 2 ("S2").']],
  );
  t.match(
    findingsAfter((map) => (map.scenes[1]!.start_segment_id = 12)),
    [['gap', /^Segment 11 is in no scene/]],
  );
  t.match(
    findingsAfter((map) => (map.scenes[1]!.start_segment_id = 9)),
    [['overlap', 'Scene 2 ("S2") overlaps scene 1 ("S1"): segments 9 and 10 are in both.']],
  );
  t.match(
    findingsAfter((map) => (map.scenes[0]!.start_segment_id = 3)),
    [['gap', 'Segments 1 and 2 are in no scene, before scene 1 ("S1"), the first.']],
  );
  t.match(
    findingsAfter((map) => (map.scenes[3]!.end_segment_id = 39)),
    [['gap', 'Segment 40 is in no scene, after scene 4 ("S4"), the last.']],
  );
  t.match(
    findingsAfter((map) => (map.scenes[3]!.end_segment_id = 41)),
    [['outside_scope', /ends at segment 41/]],
  );
  t.match(
    findingsAfter((map) => (map.scenes[0]!.start_segment_id = 0)),
    [['outside_scope', /starts at segment 0/]],
  );
  t.same(
    findingsAfter((map) => map.scenes.reverse()).map(([code]) => code),
    ['out_of_order', 'out_of_order', 'out_of_order'],
  );
  t.match(
    findingsAfter((map) => (map.scenes[1]!.end_segment_id = 5)).map(([code]) => code),
    ['scene_reversed', 'gap'],
  );
  t.ok(
    findingsAfter((map) => (map.session_scope.first_segment_id = 99)).some(
      ([code]) => code === 'scope_reversed',
    ),
  );
  t.match(
    findingsAfter((map) => (map.scenes[2]!.scene_id = 'S1')),
    [['duplicate_scene_id', /"S1" of scene 3 is used by scene 1/]],
  );
  t.match(
    findingsAfter((map) => (map.scenes[2]!.scene_id = 'S02')),
    [['scene_id_not_sequential', /does not come after the number 2/]],
  );
  t.same(
    findingsAfter((map) => (map.scenes[2]!.scene_id = 'Act2-1')),
    [],
    'another prefix has its own sequence',
  );
  t.match(
    findingsAfter((map) => (map.scenes[0]!.summary = 'One. Two. Three. Four.')),
    [['summary_too_long', /has 4 sentences/]],
  );
  t.match(
    findingsAfter((map) => (map.scenes[0]!.summary = ' \u200B')),
    [['empty_string', /summary is empty/]],
  );
  t.match(
    findingsAfter((map) => (map.scenes[0]!.main_participants = ['Bram', ''])),
    [['empty_string', /participant/]],
  );
  t.match(
    findingsAfter((map) => (map.boundary_caveats = ['\n'])),
    [['empty_string', /caveat/]],
  );
  t.ok(
    findingsAfter((map) => (map.scenes[3]!.end_segment_id = 2 ** 53)).some(
      ([code]) => code === 'unsafe_integer',
    ),
  );
});

t.test(
  'with a transcript, a gap names the missing ids, and an unknown boundary the nearest ones',
  async (t) => {
    const ids = Array.from({ length: 60 }, (_, index) => (index + 1) * 10);
    const map = partition(ids, [20, 40]);
    map.scenes[1]!.start_segment_id = 360;
    const gap = contentFindings(map, { format: 'json', ids });
    t.match(gap, [
      { code: 'gap', message: /^Segments 210, 220, .* 300 and 5 more up to 350 are in no scene/ },
    ]);
    map.scenes[1]!.start_segment_id = 213;
    t.match(contentFindings(map, { format: 'json', ids }), [
      { code: 'gap' },
      {
        code: 'segment_not_in_transcript',
        message: 'Segment 213 is not in the transcript; the nearest are 210 and 220.',
        pointer: '/scenes/1/start_segment_id',
      },
    ]);
  },
);

t.test('counts sentences', async (t) => {
  const counts: [string, number][] = [
    ['', 0],
    ['No stop at the end', 1],
    ['Dr. Venn met J. R. R. Tolkien. He fell.', 2],
    ['"Halt!" the guard shouted.', 1],
    ['"Halt!" Bram cried. He ran.', 2],
    ['Well... Bram fell.', 1],
    ['Well… Bram fell.', 1],
    ['He waited… and then he left.', 1],
    ['The door opened… The goblins attacked.', 2],
    ['Bram said: "Go. Run. Hide. Now." They left.', 2],
    ['Bram said: “Go. Run. Hide. Now.” They left.', 2],
    ['They won 3.5 gold, e.g. No. 5, vs. Goblins. What?! Yes!!', 3],
    ['(He fell. Sadly.) Then nothing.', 2],
    ['1. They met. 2. They fought.', 2],
    ['A line\nthat wraps. Another.', 2],
    ['First part\n\nSecond part', 2],
    ['一。二。三。四。', 4],
    ['They left at 5 p.m. No one saw.', 2],
  ];
  for (const [text, count] of counts) t.equal(countSentences(text), count, text);
});

t.test('the fast check finds every long summary', async (t) => {
  const words = fc.constantFrom(
    'Bram',
    'fell',
    '.',
    '!',
    '?',
    '…',
    '...',
    ' ',
    '\n',
    '\n\n',
    '。',
    '"',
    '(',
    ')',
    'Dr.',
    'é',
    '।',
    '؟',
    '܀',
    '\u0085',
    '\u2024',
    '‼',
    '𑂾',
    '‘',
    '’',
    '\u2029',
    'ſ',
  );
  fc.assert(
    fc.property(fc.array(words, { maxLength: 30 }), (parts) => {
      const text = parts.join('');
      return !isWithinSentenceLimit(text, 3) || countSentences(text) <= 3;
    }),
    { numRuns: 3000 },
  );
  t.pass();
});
