import { parse as parseCsv } from 'csv-parse/sync';
import { XMLParser } from 'fast-xml-parser';

/** Values of an answer by their JSON path, in each format. `absent`: the format does not have the value. */

export const absent = Symbol('absent');
/** The value at a path such as `alerts[0].event`, or `meta.unknown[0].field`; `data` is the record itself. */
export type Lookup = (path: string) => unknown;

type Step = string | number;

function stepsOf(path: string): Step[] {
  const [first, ...rest] = path.match(/[^.[\]]+/g) ?? [];
  const steps = first === 'meta' || first === 'data' ? [first, ...rest] : ['data', first ?? '', ...rest];
  return steps.map((step) => (/^\d+$/.test(step) ? Number(step) : step));
}

function walk(value: unknown, steps: readonly Step[]): unknown {
  return steps.reduce<unknown>((at, step) => {
    if (step === 'length' && Array.isArray(at)) return at.length;
    return (at as Record<Step, unknown> | null | undefined)?.[step];
  }, value);
}

export function inJson(body: string): Lookup {
  const document = JSON.parse(body) as unknown;
  return (path) => walk(document, stepsOf(path)) ?? null;
}

/** A list is an element with a child for each item. null is `xsi:nil`. */
export function inXml(body: string): Lookup {
  const parser = new XMLParser({ ignoreAttributes: false, parseTagValue: false, trimValues: false });
  const { response } = parser.parse(body) as { response: unknown };
  return (path) => {
    const found = stepsOf(path).reduce<unknown>((at, step) => {
      if (typeof step === 'number') return itemsOf(at)[step];
      if (step === 'length') return String(itemsOf(at).length);
      return (at as Record<string, unknown> | undefined)?.[step];
    }, response);
    if (isNil(found)) return null;
    return typeof found === 'object' && '#text' in found ? found['#text'] : found;
  };
}

function itemsOf(list: unknown): unknown[] {
  const children: unknown[] = typeof list === 'object' && list !== null ? Object.values(list) : [];
  return children.slice(0, 1).flat();
}

function isNil(found: unknown): found is null | undefined {
  return found === undefined || found === null || (found as Record<string, unknown>)['@_xsi:nil'] === 'true';
}

/** Items of the list `items`, or the record itself, are features. All other values are next to them. */
export function inGeoJson(body: string, items: string | undefined): Lookup {
  const { data, meta, features } = JSON.parse(body) as {
    data: Record<string, unknown> | null;
    meta: unknown;
    features: { properties: Record<string, unknown>; geometry: unknown }[];
  };
  const records = features.map(({ properties, geometry }) => ({ ...properties, geometry }));
  const record = items === undefined ? { ...data, ...records[0] } : { ...data, [items]: records };
  const isNone = data === null && features.length === 0;
  return (path) => walk({ meta, data: isNone ? null : record }, stepsOf(path)) ?? null;
}

/** A row for each item. A column is named like the value, with its unit in parentheses. */
export function inCsv(body: string, items: string | undefined): Lookup {
  const lines: string[][] = parseCsv(body);
  const [header = [], ...rows] = lines;
  const names = header.map((name) => name.replace(/ \(.*$/, ''));
  return (path) => {
    const [, ...steps] = stepsOf(path);
    if (steps.length === 0) return rows.length === 0 ? null : rows;
    if (steps[0] === items && steps[1] === 'length') return String(rows.length);
    const [row, column] = steps[0] === items ? [Number(steps[1]), steps[2]] : [0, steps[0]];
    const isPlain = steps.length === (steps[0] === items ? 3 : 1);
    const index = isPlain ? names.indexOf(String(column)) : -1;
    if (index === -1) return absent;
    const cell = rows[row]?.[index];
    return cell === undefined || cell === '' ? null : cell;
  };
}

/** The words of a page as a reader sees them. */
export function wordsOf(html: string): string {
  const entities: Readonly<Record<string, string>> = {
    amp: '&',
    lt: '<',
    gt: '>',
    quot: '"',
    '#34': '"',
    '#39': "'",
  };
  return spaced(
    html
      .replaceAll(/<(script|style|head)\b.*?<\/\1>/gs, ' ')
      .replaceAll(/<[/!]?[a-z][^>]*>/gi, ' ')
      .replaceAll(/ +([,.:])/g, '$1')
      .replaceAll(/&([a-z]+|#\d+);/g, (whole, name: string) => entities[name] ?? whole),
  );
}

export function spaced(text: string): string {
  return text.replaceAll(/\s+/g, ' ');
}
