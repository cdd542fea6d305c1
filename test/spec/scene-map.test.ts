import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { waybill, World } from './harness.ts';

/** The session scene map document, as checked by `waybill scene-map`. */

type Json = Record<string, unknown>;
type SceneMap = Json & { session_scope: Json; scenes: [Json, Json] };

const scene = (number: number, start: number, end: number): Json => ({
  scene_id: `scene-${number}`,
  start_segment_id: start,
  end_segment_id: end,
  short_title: 'A title',
  primary_mode: 'Combat',
  main_participants: ['Ada'],
  summary: 'They meet.',
  boundary_note: 'A new place.',
  boundary_confidence: 'High',
});

const sceneMap = (): SceneMap => ({
  artifact_type: 'current_session_scene_map',
  session_scope: { source_description: 'A transcript', first_segment_id: 1, last_segment_id: 20 },
  scenes: [scene(1, 1, 10), scene(2, 11, 20)],
  boundary_caveats: ['none'],
});

const world = new World(t, '');
const schema = JSON.parse((await waybill(world.root, ['scene-map', 'schema'])).stdout) as Json;

/** Whether the document is valid after a change. The content rules apply, too, unless they are omitted. */
async function isValid(change: (map: SceneMap) => void, ...args: string[]): Promise<boolean> {
  const map = sceneMap();
  change(map);
  world.write('map.json', JSON.stringify(map));
  const { status } = await world.cli('scene-map', 'validate', 'map.json', ...args);
  return status === 0;
}

const unchanged = (): void => undefined;

/** Whether the schema accepts a value for a property of a scene. */
const sceneWith = async (key: string, value: unknown): Promise<boolean> =>
  isValid(({ scenes }) => (scenes[0][key] = value), '--schema-only');

t.test('The artifact is one JSON object that segments a session transcript into scenes.', async (t) => {
  t.ok(await isValid(unchanged));
  for (const text of ['[]', '"text"', '{', '{}{}']) {
    world.write('map.json', text);
    t.equal((await world.cli('scene-map', 'validate', 'map.json')).status, 1, text);
  }
});

for (const title of [
  'Scenes are sequential, contiguous and non-overlapping, and together they cover the transcript.',
  'Scenes are ordered, contiguous and non-overlapping and cover the transcript from first_segment_id to last_segment_id.',
])
  t.test(title, async (t) => {
    t.ok(await isValid(unchanged));
    const wrong: Record<string, (map: SceneMap) => void> = {
      'a gap': ({ scenes }) => (scenes[1]['start_segment_id'] = 12),
      'an overlap': ({ scenes }) => (scenes[1]['start_segment_id'] = 10),
      'another order': (map) => map.scenes.reverse(),
      'a late start': ({ session_scope }) => (session_scope['first_segment_id'] = 0),
      'an early end': ({ session_scope }) => (session_scope['last_segment_id'] = 21),
    };
    for (const [what, change] of Object.entries(wrong)) {
      t.notOk(await isValid(change), what);
      t.ok(await isValid(change, '--schema-only'), `the schema cannot check ${what}`);
    }
  });

t.test('Positions are given as integer transcript segment IDs.', async (t) => {
  for (const value of ['1', 1.5, null]) t.notOk(await sceneWith('start_segment_id', value), String(value));
});

t.test(
  'The object is described with a JSON Schema (2020-12 dialect) in which unknown properties are rejected at every level.',
  async (t) => {
    t.equal(schema['$schema'], 'https://json-schema.org/draft/2020-12/schema');
    for (const change of unknownProperties) t.notOk(await isValid(change, '--schema-only'));
  },
);

const unknownProperties: ((map: SceneMap) => void)[] = [
  (map) => (map['other'] = 1),
  ({ session_scope }) => (session_scope['other'] = 1),
  ({ scenes }) => (scenes[0]['other'] = 1),
];

/** The objects of the three levels, with the number of their properties. */
const levels = [
  [(map: SceneMap): Json => map, 4],
  [(map: SceneMap): Json => map.session_scope, 3],
  [(map: SceneMap): Json => map.scenes[0], 9],
] as const;

t.test('All four properties are required.', async (t) => requiresAll(t, 0));
t.test('All three fields are required.', async (t) => requiresAll(t, 1));
t.test('All nine fields are required.', async (t) => requiresAll(t, 2));
t.test('No additional properties are allowed.', async (t) => refusesUnknown(t, 0));
t.test('No additional properties are allowed. (2)', async (t) => refusesUnknown(t, 1));
t.test('No additional properties are allowed. (3)', async (t) => refusesUnknown(t, 2));

async function requiresAll(t: Test, level: 0 | 1 | 2): Promise<void> {
  const [at, count] = levels[level];
  const names = Object.keys(at(sceneMap()));
  t.equal(names.length, count);
  for (const name of names)
    t.notOk(await isValid((map) => Reflect.deleteProperty(at(map), name), '--schema-only'), name);
}

async function refusesUnknown(t: Test, level: 0 | 1 | 2): Promise<void> {
  t.notOk(await isValid(unknownProperties[level] ?? unchanged, '--schema-only'));
}

t.test('artifact_type · string · Must equal the constant `current_session_scene_map`.', async (t) => {
  for (const value of ['session_scene_map', '', 1])
    t.notOk(await isValid((map) => (map['artifact_type'] = value), '--schema-only'));
});

t.test('session_scope · object · See below.', async (t) => {
  for (const value of [[], 'text', null])
    t.notOk(await isValid((map) => Object.assign(map, { session_scope: value }), '--schema-only'));
});

for (const title of [
  'scenes · array of scene objects · At least 1 item.',
  'scenes has at least 1 item · top-level `scenes`',
])
  t.test(title, async (t) => {
    for (const value of [[], {}, ['text']])
      t.notOk(await isValid((map) => Object.assign(map, { scenes: value }), '--schema-only'));
    t.ok(await isValid((map) => map.scenes.pop(), '--schema-only'));
  });

t.test(
  'boundary_caveats · array of strings · Overall caveats: ambiguous transitions, map-dependent context, alternative reasonable divisions.',
  async (t) => {
    for (const value of ['text', [1]])
      t.notOk(await isValid((map) => (map['boundary_caveats'] = value), '--schema-only'));
    t.ok(await isValid((map) => (map['boundary_caveats'] = [])));
  },
);

t.test('source_description · string · Brief description of the transcript or source reviewed.', async (t) => {
  t.notOk(await isValid(({ session_scope }) => (session_scope['source_description'] = 1), '--schema-only'));
});

t.test('first_segment_id · integer · First transcript segment covered by the map.', async (t) => {
  t.notOk(await isValid(({ session_scope }) => (session_scope['first_segment_id'] = '1'), '--schema-only'));
  t.notOk(await isValid(({ session_scope }) => (session_scope['first_segment_id'] = 2)));
});

t.test('last_segment_id · integer · Final transcript segment covered by the map.', async (t) => {
  t.notOk(await isValid(({ session_scope }) => (session_scope['last_segment_id'] = '20'), '--schema-only'));
  t.notOk(await isValid(({ session_scope }) => (session_scope['last_segment_id'] = 19)));
});

t.test(
  'scene_id · string · Stable sequential scene identifier. Must match the pattern `[0-9]$` (the string ends with a digit).',
  async (t) => {
    t.ok(await sceneWith('scene_id', 'first-1'));
    for (const value of ['scene-one', '', 'scene-1a', 1]) t.notOk(await sceneWith('scene_id', value));
  },
);

t.test('scene_id ends with a digit · each scene', async (t) => {
  t.notOk(await isValid(({ scenes }) => (scenes[1]['scene_id'] = 'last'), '--schema-only'));
});

t.test('start_segment_id · integer · Exact segment ID where the scene begins.', async (t) => {
  t.notOk(await sceneWith('start_segment_id', 'one'));
});

t.test('end_segment_id · integer · Exact segment ID where the scene ends.', async (t) => {
  t.notOk(await sceneWith('end_segment_id', 'ten'));
});

t.test('short_title · string · Compact descriptive title.', async (t) => {
  t.notOk(await sceneWith('short_title', 1));
});

t.test(
  'primary_mode · string · Dominant mode of play. One of `Recap`, `Planning`, `Combat`, `Narrative`.',
  async (t) => {
    for (const mode of ['Recap', 'Planning', 'Combat', 'Narrative'])
      t.ok(await sceneWith('primary_mode', mode));
    for (const mode of ['combat', 'Other', '']) t.notOk(await sceneWith('primary_mode', mode));
  },
);

t.test(
  'main_participants · array of strings · Principal player characters, NPCs, factions or groups in the scene.',
  async (t) => {
    for (const value of ['Ada', [1]]) t.notOk(await sceneWith('main_participants', value));
    t.ok(await sceneWith('main_participants', ['Ada', 'the guard']));
  },
);

t.test('summary · string · One- to three-sentence factual summary of what happened.', async (t) => {
  t.notOk(await sceneWith('summary', 1));
  t.ok(await sceneWith('summary', 'One. Two. Three.'));
});

t.test(
  'boundary_note · string · Brief reason the scene starts and ends at these segment boundaries.',
  async (t) => {
    t.notOk(await sceneWith('boundary_note', 1));
  },
);

t.test(
  'boundary_confidence · string · Confidence that the boundaries are natural and useful. One of `High`, `Medium`, `Low`.',
  async (t) => {
    for (const value of ['High', 'Medium', 'Low']) t.ok(await sceneWith('boundary_confidence', value));
    for (const value of ['high', 'None']) t.notOk(await sceneWith('boundary_confidence', value));
  },
);

t.test('start_segment_id and end_segment_id name exact segment IDs.', async (t) => {
  const ids = Array.from({ length: 20 }, (_, index) => index + 1).filter((id) => id !== 10);
  world.write('t.jsonl', ids.map((id) => JSON.stringify({ segment_id: id, text: 'x' })).join('\n'));
  t.notOk(await isValid(unchanged, '--transcript', 't.jsonl'), 'the first scene ends at a missing segment');
  t.ok(await isValid(({ scenes }) => (scenes[0]['end_segment_id'] = 9), '--transcript', 't.jsonl'));
});

t.test(
  'A document that omits a required property, adds an unknown property, or uses a value outside an enumeration is invalid.',
  async (t) => {
    t.notOk(await isValid((map) => delete map['boundary_caveats'], '--schema-only'));
    t.notOk(await isValid((map) => (map['other'] = 1), '--schema-only'));
    t.notOk(await sceneWith('primary_mode', 'Other'));
  },
);

t.test(
  'The only identifying marker is the constant artifact_type value; the document has no version field.',
  async (t) => {
    for (const name of ['version', 'schema_version'])
      t.notOk(await isValid((map) => (map[name] = 1), '--schema-only'), name);
    t.notOk(await isValid((map) => delete map['artifact_type'], '--schema-only'));
    t.match(Object.keys(schema['properties'] as Json).sort(), Object.keys(sceneMap()).sort());
    t.match(readFileSync(world.at('map.json'), 'utf8'), 'session_scope');
  },
);

t.test('No maximum sizes are stated.', async (t) => {
  const scenes = Array.from({ length: 3_000 }, (_, index) => ({
    ...scene(index, index, index),
    summary: 'A long summary '.repeat(20),
  }));
  const session_scope = { source_description: 'long', first_segment_id: 0, last_segment_id: 2_999 };
  t.ok(await isValid((map) => Object.assign(map, { session_scope, scenes })));
});
