/** Generates the reference in `docs/configuration.md` from the JSON Schema of the configuration. */
import { format, resolveConfig } from 'prettier';
import type { JsonSchema } from '../src/core/lib/parameters.ts';

const begin = '<!-- reference: made by "npm run generate", do not edit -->';
const end = '<!-- end of reference -->';

/** Replaces the reference between the two markers in the page, formatted with Prettier. */
export async function withReference(page: string, reference: string): Promise<string> {
  const [head, rest] = page.split(begin);
  const tail = rest?.split(end)[1];
  if (head === undefined || tail === undefined)
    throw new Error(`docs/configuration.md lacks the lines ${begin} and ${end}`);
  const options = await resolveConfig('docs/configuration.md');
  return format(`${head}${begin}\n\n${reference}\n\n${end}${tail}`, { ...options, parser: 'markdown' });
}

export function configReference(schema: JsonSchema): string {
  const repeated = repeatedKinds(schema);
  const sections: Sections = Object.assign([], { repeated });
  describeMap('', schema, sections);
  for (const { heading, about, settings } of repeated.values()) {
    sections.push(`### ${heading}\n\n${about}`);
    describeTable(settings, sections);
  }
  return sections.join('\n\n').replaceAll(/\bdocs\/([\w/-]+\.md)/g, '[$1]($1)');
}

/**
 * The sections that have been written so far. If several variants have the same settings, they refer to one
 * of these.
 */
type Sections = string[] & { readonly repeated: ReadonlyMap<string, Repeated> };

/** Settings that can be used in several places, such as an SFTP server. They are only described once. */
interface Repeated {
  heading: string;
  about: string;
  settings: JsonSchema;
}

/**
 * Returns the kinds of settings that occur more than once, such as `backend: sftp`. Those with only one
 * common setting are left out, because it is simpler to describe it again.
 */
function repeatedKinds(schema: JsonSchema): Map<string, Repeated> {
  const variants = new Map<string, JsonSchema[]>();
  for (const variant of variantsIn(schema)) {
    const kind = kindOf(variant);
    if (kind !== undefined) variants.set(kind, [...(variants.get(kind) ?? []), variant]);
  }
  const repeated = new Map<string, Repeated>();
  for (const [kind, all] of variants) {
    const [first = {}] = all;
    const names = propertiesOf(first)
      .filter(({ schema: setting }) => !('const' in setting))
      .map(({ name }) => name)
      .filter((name) => all.every((variant) => isSameIn(name, variant, first)));
    if (all.length < 2 || names.length < 2) continue;
    repeated.set(kind, {
      heading: `Any place with \`${kind}\``,
      about: String(discriminatorOf(first)?.schema['description']),
      settings: pick(first, (name) => names.includes(name)),
    });
  }
  return repeated;
}

/** Returns all variants in the schema. They differ in the value of one setting. */
function variantsIn(schema: JsonSchema): JsonSchema[] {
  return propertiesOf(schema).flatMap(({ inner }) => {
    const variants = (inner?.['anyOf'] ?? []) as JsonSchema[];
    return [...variants, ...[inner ?? {}, ...variants].flatMap(variantsIn)];
  });
}

function discriminatorOf(variant: JsonSchema): Setting | undefined {
  return propertiesOf(variant).find(({ schema: setting }) => 'const' in setting);
}

function kindOf(variant: JsonSchema): string | undefined {
  const found = discriminatorOf(variant);
  return found && `${found.name}: ${String(found.schema['const'])}`;
}

function isSameIn(name: string, a: JsonSchema, b: JsonSchema): boolean {
  const needs = (schema: JsonSchema): boolean => ((schema['required'] ?? []) as string[]).includes(name);
  return sameSetting(name, a, b) && needs(a) === needs(b);
}

/** Returns a schema with only some of the settings. */
function pick(source: JsonSchema, wanted: (name: string) => boolean): JsonSchema {
  return {
    ...source,
    properties: Object.fromEntries(
      Object.entries(source['properties'] as JsonSchema).filter(([name]) => wanted(name)),
    ),
  };
}

/** Returns the anchor that the website uses for a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

/** Describes the settings of a map in a table. Small maps are part of it; others get their own sections. */
function describeMap(path: string, schema: JsonSchema, sections: Sections): void {
  if (path !== '') sections.push([`### \`${path}\``, schema['description']].filter(Boolean).join('\n\n'));
  describeTable(schema, sections);
  describeInner(path, schema, sections);
}

function describeInner(path: string, schema: JsonSchema, sections: Sections): void {
  for (const setting of propertiesOf(schema)) {
    const { name, inner, listed } = setting;
    if (inner === undefined || isSmall(setting)) continue;
    const below = `${path === '' ? '' : `${path}.`}${name}${listed ? '[]' : ''}`;
    const about = { ...inner, description: setting.schema['description'] };
    if (inner['anyOf'] === undefined) describeMap(below, about, sections);
    else describeVariants(below, about, sections);
  }
}

interface Variant {
  kind: string;
  about: string;
  /** Without the settings that another section describes. */
  own: JsonSchema;
}

function describeVariants(path: string, schema: JsonSchema, sections: Sections): void {
  const all = schema['anyOf'] as JsonSchema[];
  const name = all.map(discriminatorOf).find((found) => found !== undefined)?.name ?? '';
  const variants = all.map((variant) => variantOf(name, variant, sections));
  const fallback = all
    .map((variant) => discriminatorOf(variant)?.schema['default'])
    .find((value): value is string => typeof value === 'string');
  sections.push(
    `### \`${path}\`\n\n${String(schema['description'])}`,
    `\`${name}\` ${fallback === undefined ? '(required)' : `(default: \`${fallback}\`)`} is one of:`,
    variants.map(({ kind, about }) => `- \`${kind}\`: ${about}`).join('\n'),
  );
  const rows = variantRows(variants);
  if (rows.length > 0) sections.push(table(rows));
  const described = new Set<string>();
  for (const { own } of variants) {
    describeInner(
      path,
      pick(own, (inner) => !described.has(inner)),
      sections,
    );
    for (const inner of Object.keys(propertiesIn(own))) described.add(inner);
  }
}

function variantOf(name: string, variant: JsonSchema, { repeated }: Sections): Variant {
  const discriminator = discriminatorOf(variant)?.schema;
  const kind = String(discriminator?.['const']);
  const found = repeated.get(`${name}: ${kind}`);
  const about = String(discriminator?.['description']);
  const elsewhere = new Set([name, ...Object.keys(propertiesIn(found?.settings))]);

  return {
    kind,
    about: found ? `[${about}](#${anchorOf(found.heading)})` : about,
    own: pick(variant, (inner) => !elsewhere.has(inner)),
  };
}

/** Returns one row for each setting, with the kinds that have it. Settings of all kinds come first. */
function variantRows(variants: readonly Variant[]): Row[] {
  const rows = new Map<string, Row & { kinds: string[] }>();
  for (const { kind, own } of variants)
    for (const row of rowsOf(own)) {
      const key = JSON.stringify(row);
      const known = rows.get(key) ?? { ...row, kinds: [] };
      known.kinds.push(kind);
      rows.set(key, known);
    }
  const isForAll = ({ kinds }: { kinds: string[] }): boolean => kinds.length === variants.length;
  const [shared, others] = [
    [...rows.values()].filter(isForAll),
    [...rows.values()].filter((row) => !isForAll(row)),
  ];
  return [...shared.map((row) => ({ ...row, kinds: [] })), ...others];
}

function describeTable(schema: JsonSchema, sections: Sections): void {
  const rows = rowsOf(schema);
  const [first] = rows;
  if (first === undefined) return;
  const areAlike =
    rows.length > 3 && rows.every(({ type, meaning }) => type === first.type && meaning === first.meaning);
  if (areAlike) sections.push(`Each is of type ${first.type}.`);
  sections.push(table(areAlike ? rows.map((row) => ({ ...row, value: row.fallback, meaning: '' })) : rows));
}

interface Setting {
  name: string;
  schema: JsonSchema;
  /** The schema of the map if the setting is a map, or of the items if it is a list of maps. */
  inner: JsonSchema | undefined;
  listed: boolean;
}

function propertiesOf(schema: JsonSchema): Setting[] {
  const named = Object.values((schema['patternProperties'] ?? {}) as Record<string, JsonSchema>);
  const settings = [
    ...Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>),
    ...named.map((setting): [string, JsonSchema] => ['<name>', setting]),
  ];
  return settings.map(([name, setting]) => {
    const listed = setting['type'] === 'array';
    const inner = listed ? (setting['items'] as JsonSchema) : setting;
    const isMap =
      inner['properties'] !== undefined ||
      inner['patternProperties'] !== undefined ||
      (inner['anyOf'] as JsonSchema[] | undefined)?.every((item) => item['properties'] !== undefined);
    return { name, schema: setting, inner: isMap ? inner : undefined, listed };
  });
}

function propertiesIn(schema: JsonSchema | undefined): JsonSchema {
  return (schema?.['properties'] ?? {}) as JsonSchema;
}

function sameSetting(name: string, a: JsonSchema, b: JsonSchema): boolean {
  const of = (schema: JsonSchema): string => JSON.stringify((schema['properties'] as JsonSchema)[name]);
  return of(a) === of(b);
}

interface Row {
  name: string;
  /** The kinds that have the setting; empty if all have it. */
  kinds: readonly string[];
  type: string;
  fallback: string;
  /** The default and the type, in short. */
  value: string;
  meaning: string;
}

/** A map with few settings needs no section: the table of the map around it has them, as `name.setting`. */
const maxInline = 3;

function isSmall({ inner, listed }: Setting): boolean {
  return inner !== undefined && !listed && countOf(inner) <= maxInline;
}

function countOf(schema: JsonSchema): number {
  if (schema['anyOf'] !== undefined) return Infinity;
  return propertiesOf(schema).reduce(
    (count, { inner, listed }) => count + (inner === undefined ? 1 : listed ? Infinity : countOf(inner)),
    0,
  );
}

function rowsOf(parent: JsonSchema, path = ''): Row[] {
  const required = (parent['required'] ?? []) as string[];
  return propertiesOf(parent).flatMap((setting): Row[] => {
    const { name, schema, inner } = setting;
    if (inner === undefined) return [rowOf(`${path}${name}`, schema, required.includes(name))];
    if (!isSmall(setting)) return [];
    const [first, ...others] = rowsOf(inner, `${path}${name}.`);
    if (first === undefined) return [];
    const about = typeof schema['description'] === 'string' ? schema['description'] : '';
    if (others.length === 0) return [{ ...first, meaning: `${about} ${first.meaning}`.trim() }];
    const own = {
      name: `\`${path}${name}\``,
      kinds: [],
      type: 'map',
      fallback: '',
      value: '',
      meaning: about,
    };
    const isWorthARow = first.type !== 'map' && about.split(' ').length > 4;
    return [...(isWorthARow ? [own] : []), first, ...others];
  });
}

function rowOf(name: string, schema: JsonSchema, isRequired: boolean): Row {
  const initial = schema['default'];
  const fallback = initial === undefined || plain(initial) === '[]' ? '' : `\`${plain(initial)}\``;
  const [example] = (schema['examples'] ?? []) as unknown[];
  const meaning =
    (typeof schema['description'] === 'string' ? withoutSecretSource(schema['description']) : '') +
    (example === undefined || hasKnownForm(schema) ? '' : ` Example: \`${plain(example)}\``);
  const type = typeOf(schema);
  const value = isRequired ? `${type}, **required**` : valueOf(schema, type, fallback);
  return { name: `\`${name}\``, kinds: [], type, fallback, value, meaning };
}

/** Returns the default, and what it does not show: the other choices, the range, or the type of the items. */
function valueOf(schema: JsonSchema, type: string, fallback: string): string {
  if (fallback === '') return type;
  if (Array.isArray(schema['enum'])) return type.replace(fallback, `**${fallback}**`);
  const [, range] = /^\w+, (.*)$/.exec(type) ?? [];
  if (range !== undefined) return `${fallback} (${range})`;
  return type.startsWith('list') || type.includes(' or ') ? `${fallback} (${type})` : fallback;
}

/** Makes a table without the columns that would be empty. */
function table(rows: readonly Row[]): string {
  const columns: readonly (readonly [string, (row: Row) => string])[] = [
    ['setting', ({ name, kinds }) => [name, ...kinds.map((kind) => `_${kind}_`)].join(' ')],
    ['value', ({ value }) => value],
    ['meaning', ({ meaning }) => meaning],
  ];
  const used = columns.filter(([, cell]) => rows.some((row) => cell(row) !== ''));
  const lines = [
    used.map(([name]) => name),
    used.map(() => '---'),
    ...rows.map((row) => used.map(([, cell]) => cell(row).replaceAll('|', '\\|'))),
  ];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Reports whether the type, or the section on values of the page, makes an example superfluous. */
function hasKnownForm(schema: JsonSchema): boolean {
  return (
    Array.isArray(schema['enum']) ||
    /^(list of: )?(integer|number$|duration|size|rate|path|URL|host|time zone)\b|\b(id|text|name|key|prefix|address)$/.test(
      typeOf(schema),
    )
  );
}

/** The page says once that a variable name stands for an environment variable or a file. */
function withoutSecretSource(description: string): string {
  const text = description.replace(
    /^Environment variables?, or files? in secrets\.directory, (?:with|that holds?) /,
    '',
  );
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

function typeOf(schema: JsonSchema): string {
  if (Array.isArray(schema['enum']) && schema['enum'].length > 10) return 'name';
  if (Array.isArray(schema['enum'])) return schema['enum'].map((value) => `\`${String(value)}\``).join(', ');
  if (schema['type'] === 'array') return `list of: ${typeOf(schema['items'] as JsonSchema)}`;
  if (schema['type'] === 'integer')
    return `integer, ${String(schema['minimum'])}–${String(schema['maximum'])}`;
  if (typeof schema['title'] === 'string') return schema['title'].replace(/^(\w+, \w+) to /, '$1–');
  return schema['type'] === 'string' ? 'text' : String(schema['type']);
}

function plain(value: unknown): string {
  return typeof value === 'string'
    ? value === ''
      ? "''"
      : value
    : JSON.stringify(value).replaceAll('"', '');
}
