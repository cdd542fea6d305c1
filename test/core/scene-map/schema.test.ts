import { readFile } from 'node:fs/promises';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import t from 'tap';
import { sceneMapArtifacts } from '../../../scripts/generate-scene-map.ts';
import { checkSceneMap } from '../../../src/core/scene-map/read-scene-map.ts';
import { sceneMapSchemaText } from '../../../src/core/scene-map/schema-file.ts';
import { bytesOf, soundMap } from './maps.ts';

interface Node {
  $schema?: string;
  $id?: string;
  type: string;
  properties?: Record<string, Node>;
  required?: string[];
  items?: Node;
  additionalProperties?: boolean;
  enum?: string[];
  title?: string;
  description?: string;
}

const schema = JSON.parse(sceneMapSchemaText()) as Node;

t.test('the schema is valid under the 2020-12 meta-schema and Ajv accepts it in strict mode', async (t) => {
  const ajv = new Ajv2020({ strict: true });
  t.ok(ajv.validateSchema(schema));
  t.ok(ajv.compile(schema)(soundMap()));
  t.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema');
  t.type(schema.$id, 'string');
});

t.test(
  'every object requires all its properties and allows no others, as strict structured output requires',
  async (t) => {
    const allowed = new Set([
      '$schema',
      '$id',
      'title',
      'description',
      'type',
      'additionalProperties',
      'required',
      'properties',
      'items',
    ]);
    for (const word of ['const', 'enum', 'pattern', 'minItems']) allowed.add(word);
    let objects = 0;
    for (const { node, place } of walk(schema, '#')) {
      t.ok(node.title, `${place} has a title`);
      t.ok(node.description, `${place} has a description`);
      t.ok(
        Object.keys(node).every((word) => allowed.has(word)),
        `${place} uses only plain keywords`,
      );
      if (node.type !== 'object') continue;
      objects++;
      t.equal(node.additionalProperties, false, place);
      t.same(node.required, Object.keys(node.properties ?? {}), place);
    }
    t.equal(objects, 3);
  },
);

t.test('matches the generated types and validators with the schema', async (t) => {
  for (const { path, text } of await sceneMapArtifacts())
    t.equal(await readFile(path, 'utf8'), text, `${path}: run npm run generate:scene-map`);
});

t.test('each missing property is reported at its object', async (t) => {
  for (const { pointer, key } of properties()) {
    const document = structuredClone(soundMap());
    Reflect.deleteProperty(at(document, pointer) as object, key);
    const found = checkSceneMap(bytesOf(document), 'a.json');
    t.match(found, [
      {
        severity: 'error',
        code: 'missing_property',
        pointer,
        file: 'a.json',
        line: 1,
        message: new RegExp(`"${key}"`),
      },
    ]);
    t.equal(found.length, 1, `only ${pointer}/${key}`);
  }
});

t.test('each property of a wrong type is reported with its pointer and position', async (t) => {
  const any = fc.oneof(
    fc.constant(null),
    fc.boolean(),
    fc.double(),
    fc.integer(),
    fc.string(),
    fc.constant([]),
    fc.constant({}),
    fc.constant([1]),
  );
  for (const { pointer, key, node } of properties()) {
    fc.assert(
      fc.property(any, (value) => {
        const document = structuredClone(soundMap());
        (at(document, pointer) as Record<string, unknown>)[key] = value;
        const text = JSON.stringify(document, null, 2);
        const parsed = at(JSON.parse(text), `${pointer}/${key}`);
        fc.pre(!hasType(parsed, node.type));
        const place = `${pointer}/${key}`;
        const found = checkSceneMap(bytesOf(text), 'a.json', { schemaOnly: true });
        const one = found.find((item) => item.pointer === place && item.code === 'wrong_type');
        if (one === undefined) throw new Error(`${place} not named: ${JSON.stringify(found)}`);
        const line = text.split('\n')[(one.line ?? 0) - 1] ?? '';
        if (!line.includes(`"${key}": `)) throw new Error(`line ${one.line} is not the line of ${key}`);
        if (
          !line.slice((one.column ?? 0) - 1).startsWith(JSON.stringify(parsed, null, 2).split('\n')[0] ?? '')
        )
          throw new Error('wrong column');
      }),
      { numRuns: 30 },
    );
    t.pass(`${pointer}/${key}`);
  }
});

t.test('rejects an unknown property with any name at every level', async (t) => {
  const known = new Set([...walk(schema, '#')].flatMap(({ node }) => Object.keys(node.properties ?? {})));
  for (const pointer of ['', '/session_scope', '/scenes/2']) {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }).filter((name) => !known.has(name)),
        (name) => {
          const document = structuredClone(soundMap());
          Object.defineProperty(at(document, pointer), name, { value: 1, enumerable: true });
          const escaped = name.replaceAll('~', '~0').replaceAll('/', '~1');
          const found = checkSceneMap(bytesOf(document), 'a.json');
          return (
            found.length === 1 &&
            found[0]?.code === 'unknown_property' &&
            found[0].pointer === `${pointer}/${escaped}` &&
            found[0].column !== 1
          );
        },
      ),
      { examples: [['__proto__'], ['constructor'], ['a/b~c'], ['']] },
    );
    t.pass(pointer);
  }
});

t.test('accepts values at their limits', async (t) => {
  const codes = (change: (map: ReturnType<typeof soundMap>) => void): string[] => {
    const map = soundMap();
    change(map);
    return checkSceneMap(bytesOf(map), 'a.json', { schemaOnly: true }).map(({ code }) => code);
  };
  t.same(
    codes((map) => (map.scenes = [])),
    ['too_few_items'],
  );
  t.same(
    codes((map) => (map.scenes.length = 1)),
    [],
  );
  t.same(
    codes((map) => (map.boundary_caveats = [])),
    [],
  );
  t.same(
    codes((map) => (map.artifact_type = 'scene_map' as never)),
    ['wrong_constant'],
  );
  t.same(
    codes((map) => (map.scenes[0]!.primary_mode = 'combat' as never)),
    ['not_in_enumeration'],
  );
  t.same(
    codes((map) => (map.scenes[0]!.boundary_confidence = '' as never)),
    ['not_in_enumeration'],
  );
  t.same(
    codes((map) => (map.scenes[0]!.start_segment_id = 1.5)),
    ['wrong_type'],
  );
  for (const id of ['', 'S', 'S1a', 'S1 ', 'S١', 'S1\n'])
    t.same(
      codes((map) => (map.scenes[0]!.scene_id = id)),
      ['pattern_mismatch'],
      JSON.stringify(id),
    );
  for (const id of ['0', 'S-9', ' 1'])
    t.same(
      codes((map) => (map.scenes[0]!.scene_id = id)),
      [],
    );
  t.match(
    checkSceneMap(bytesOf(JSON.stringify(soundMap()).replace('"Combat"', '"combat"')), 'a.json')[0]?.message,
    /Did you mean "Combat"/,
  );
});

function* walk(node: Node, place: string): Generator<{ node: Node; place: string }> {
  yield { node, place };
  for (const [name, child] of Object.entries(node.properties ?? {})) yield* walk(child, `${place}/${name}`);
  if (node.items) yield* walk(node.items, `${place}/items`);
}

/** Each property of the schema, with the pointer of an object of the valid map that has it. */
function properties(): { pointer: string; key: string; node: Node }[] {
  const found: { pointer: string; key: string; node: Node }[] = [];
  const visit = (node: Node, pointer: string): void => {
    for (const [key, child] of Object.entries(node.properties ?? {})) {
      found.push({ pointer, key, node: child });
      visit(child, `${pointer}/${key}`);
    }
    if (node.items) visit(node.items, `${pointer}/2`);
  };
  visit(schema, '');
  return found;
}

function at(document: unknown, pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], document);
}

function hasType(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === type;
}
