/** Generates the reference in `docs/configuration.md` from the JSON Schema of the configuration. */
import { format, resolveConfig } from 'prettier';
import type { JsonSchema } from '../src/core/config/json-schema.ts';

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
  return sections.join('\n\n');
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

/**
 * Describes the settings of a map. Simple values are listed in a table. Nested maps, lists of maps, and
 * choices between maps get sections of their own.
 */
function describeMap(path: string, schema: JsonSchema, sections: Sections): void {
  const settings = propertiesOf(schema);
  const leaves = settings.filter(({ inner }) => inner === undefined);
  if (path !== '') sections.push([`### \`${path}\``, schema['description']].filter(Boolean).join('\n\n'));
  if (leaves.length > 0) sections.push(table(leaves, schema));
  for (const { name, schema: setting, inner, listed } of settings) {
    if (inner === undefined) continue;
    const below = `${path === '' ? '' : `${path}.`}${name}${listed ? '[]' : ''}`;
    const about = { ...inner, description: setting['description'] };
    if (inner['anyOf'] === undefined) describeMap(below, about, sections);
    else describeVariants(below, about, sections);
  }
}

function describeVariants(path: string, schema: JsonSchema, sections: Sections): void {
  const variants = schema['anyOf'] as JsonSchema[];
  const [first = {}] = variants;
  const discriminator = propertiesOf(first).find(({ schema: setting }) => 'const' in setting)?.name ?? '';
  const kinds = variants.map((variant) => ({
    variant,
    kind: String(propertiesOf(variant).find(({ name }) => name === discriminator)?.schema['const']),
  }));
  const fallback = variants
    .map((variant) => propertiesOf(variant).find(({ name }) => name === discriminator)?.schema['default'])
    .find((value): value is string => typeof value === 'string');
  const shared = propertiesOf(first)
    .map(({ name }) => name)
    .filter(
      (name) => name !== discriminator && variants.every((variant) => sameSetting(name, variant, first)),
    );

  sections.push(`### \`${path}\`\n\n${String(schema['description'])}`);
  sections.push(
    `\`${discriminator}\` ${fallback === undefined ? '(required)' : `(default: \`${fallback}\`)`} is one of ${kinds.map(({ kind }) => `\`${kind}\``).join(', ')}.`,
  );
  for (const [index, { variant, kind }] of kinds.entries()) {
    const repeated = sections.repeated.get(`${discriminator}: ${kind}`);
    const elsewhere = new Set([discriminator, ...shared, ...Object.keys(propertiesIn(repeated?.settings))]);
    const own = pick(variant, (name) => !elsewhere.has(name));
    const above = sameAsAbove(
      own,
      kinds.slice(0, index).map((each) => ({ ...each, kind: `${discriminator}: ${each.kind}` })),
    );
    const about = String(discriminatorOf(variant)?.schema['description']);
    const link = repeated && `Its settings: [${repeated.heading}](#${anchorOf(repeated.heading)}).`;
    const also = [...above].map(([other, names]) => `Also ${names.join(', ')}: as with \`${other}\`.`);
    const heading = `#### \`${path}\` with \`${discriminator}: ${kind}\``;
    const texts = [about, link, ...also].filter((text) => text !== undefined);
    sections.push([heading, texts.join(' ')].join('\n\n'));
    const described = new Set([...above.values()].flat());
    describeTable(
      pick(own, (name) => !described.has(`\`${name}\``)),
      sections,
    );
    for (const { name, schema: setting, inner, listed } of propertiesOf(own))
      if (inner !== undefined && inner['anyOf'] === undefined && !listed)
        describeMap(`${path}.${name}`, { ...inner, description: setting['description'] }, sections);
  }
  if (shared.length === 0) return;
  sections.push(`#### \`${path}\` with any \`${discriminator}\``);
  describeMapBody(
    path,
    pick(first, (name) => shared.includes(name)),
    sections,
  );
}

/** Returns the settings that are the same in an earlier variant, as code, by the kind of that variant. */
function sameAsAbove(
  own: JsonSchema,
  earlier: readonly { kind: string; variant: JsonSchema }[],
): Map<string, string[]> {
  const above = new Map<string, string[]>();
  for (const { name } of propertiesOf(own)) {
    const found = earlier.find(
      ({ variant }) => name in propertiesIn(variant) && isSameIn(name, variant, own),
    );
    if (found !== undefined) above.set(found.kind, [...(above.get(found.kind) ?? []), `\`${name}\``]);
  }
  return above;
}

/** Maps have sections of their own, and are not in the table. */
function describeTable(schema: JsonSchema, sections: Sections): void {
  const settings = propertiesOf(schema).filter(({ inner, listed }) => inner === undefined || listed);
  if (settings.length > 0) sections.push(table(settings, schema));
}

function describeMapBody(path: string, schema: JsonSchema, sections: Sections): void {
  describeTable(schema, sections);
  for (const { name, schema: setting, inner } of propertiesOf(schema))
    if (inner !== undefined)
      describeMap(`${path}.${name}`, { ...inner, description: setting['description'] }, sections);
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

function table(settings: Setting[], parent: JsonSchema): string {
  const required = (parent['required'] ?? []) as string[];
  const rows = settings.map(({ name, schema }) => {
    const fallback = required.includes(name)
      ? '**required**'
      : schema['default'] === undefined
        ? ''
        : `\`${plain(schema['default'])}\``;
    const [example] = (schema['examples'] ?? []) as unknown[];
    const meaning =
      (typeof schema['description'] === 'string' ? withoutSecretSource(schema['description']) : '') +
      (example === undefined || hasKnownForm(schema) ? '' : ` Example: \`${plain(example)}\``);
    return [`\`${name}\``, typeOf(schema), fallback, meaning]
      .map((cell) => cell.replaceAll('|', '\\|'))
      .join(' | ');
  });
  return [
    '| setting | type | default | meaning |',
    '| --- | --- | --- | --- |',
    ...rows.map((row) => `| ${row} |`),
  ].join('\n');
}

/** Reports whether the section on values of the page shows the form, so that an example is not needed. */
function hasKnownForm(schema: JsonSchema): boolean {
  return (
    Array.isArray(schema['enum']) ||
    /^(integer|duration|size|rate|id|path|prefix|URL|host)\b|variable name$/.test(typeOf(schema))
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
  if (Array.isArray(schema['enum'])) return schema['enum'].map((value) => `\`${String(value)}\``).join(', ');
  if (schema['type'] === 'array') return `list of: ${typeOf(schema['items'] as JsonSchema)}`;
  if (schema['type'] === 'integer')
    return `integer, ${String(schema['minimum'])} to ${String(schema['maximum'])}`;
  if (typeof schema['title'] === 'string') return schema['title'];
  return schema['type'] === 'string' ? 'text' : String(schema['type']);
}

function plain(value: unknown): string {
  return typeof value === 'string'
    ? value === ''
      ? "''"
      : value
    : JSON.stringify(value).replaceAll('"', '');
}
