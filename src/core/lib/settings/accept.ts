import type { Form, MapForm, NumberForm, Setting, TextForm } from './setting.ts';

/*
 * Judges documents by their settings with yes or no, which is fast. `joi-schema.ts` accepts the same
 * documents and explains a refusal. It takes longer to load and build than most commands take in total.
 */

const refused = Symbol('refused');
type Judged = unknown;

/** The value with its defaults filled in, or null if it is invalid. Pure. */
export function accept<T>(setting: Setting<T>, value: unknown): { value: T } | null {
  const judged = judge(setting, value);
  return judged === refused ? null : { value: judged as T };
}

function judge({ form, about }: Setting, value: unknown): Judged {
  if (value !== undefined) return judgeForm(form, value);
  if (about.isRequired === true) return refused;
  if (about.initial === undefined) return undefined;
  return about.initial === 'of its keys' ? judgeForm(form, {}) : structuredClone(about.initial.value);
}

function judgeForm(form: Form, value: unknown): Judged {
  switch (form.kind) {
    case 'text':
      return isText(form, value) ? value : refused;
    case 'number':
      return isNumber(form, value) ? value : refused;
    case 'boolean':
      return typeof value === 'boolean' ? value : refused;
    case 'choice':
      return typeof value === 'string' && form.values.includes(value) ? value : refused;
    case 'either':
      return form.forms.some((each) => judgeForm(each, value) !== refused) ? value : refused;
    case 'list':
      return judgeList(form, value);
    case 'map':
      return isMap(value) ? judgeMap(form, value) : refused;
    case 'map by name':
      return isMap(value) ? judgeNamed(form, value) : refused;
    case 'variants': {
      if (!isMap(value)) return refused;
      const name = value[form.discriminator];
      const isKnown = typeof name === 'string' && Object.hasOwn(form.maps, name);
      const chosen = isKnown ? form.maps[name] : form.otherwise;
      return chosen === null || chosen === undefined ? refused : judge(chosen, value);
    }
  }
}

function isText({ pattern, mayBeEmpty, check }: TextForm, value: unknown): boolean {
  if (typeof value !== 'string') return false;
  if (value === '') return mayBeEmpty === true;
  return pattern?.test(value) !== false && (check?.(value) ?? null) === null;
}

function isNumber({ isWhole, min, max, check }: NumberForm, value: unknown): boolean {
  if (typeof value !== 'number' || !(Math.abs(value) <= Number.MAX_SAFE_INTEGER)) return false;
  return (
    (!isWhole || Number.isInteger(value)) &&
    value >= min &&
    (max === null || value <= max) &&
    (check?.(value) ?? null) === null
  );
}

function judgeList({ items, min, isUnique }: Extract<Form, { kind: 'list' }>, value: unknown): Judged {
  if (!Array.isArray(value) || value.length < min) return refused;
  if (isUnique === true && new Set(value).size < value.length) return refused;
  const judged = value.map((item: unknown) => (item === undefined ? refused : judge(items, item)));
  return judged.includes(refused) ? refused : judged;
}

function judgeMap({ keys, setTogether, oneOf, check }: MapForm, value: Record<string, unknown>): Judged {
  if (!Object.keys(value).every((key) => Object.hasOwn(keys, key))) return refused;
  const accepted = { ...value };
  for (const [key, setting] of Object.entries(keys)) {
    const judged = judge(setting, value[key]);
    if (judged === refused) return refused;
    if (judged !== undefined) accepted[key] = judged;
  }
  const isTorn = (group: readonly string[]): boolean =>
    new Set(group.map((key) => accepted[key] === undefined)).size > 1;
  const isOne = (group: readonly string[]): boolean =>
    group.filter((key) => accepted[key] !== undefined).length === 1;
  if (setTogether.some(isTorn) || !oneOf.every(isOne)) return refused;
  return (check?.(accepted as never) ?? null) === null ? accepted : refused;
}

function judgeNamed(
  { names, values }: Extract<Form, { kind: 'map by name' }>,
  value: Record<string, unknown>,
): Judged {
  const accepted: Record<string, unknown> = {};
  for (const [name, each] of Object.entries(value)) {
    const judged = names.form.test(name) ? judge(values, each) : refused;
    if (judged === refused) return refused;
    accepted[name] = judged;
  }
  return accepted;
}

/** Whether a value is a plain map from YAML. Other objects are left to the schema. */
function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
