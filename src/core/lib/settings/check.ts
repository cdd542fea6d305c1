import { choice } from './kinds.ts';
import type { Form, MapForm, NumberForm, Refusal, Setting } from './setting.ts';

/** Keys and indexes from the top of a document to a value. */
export type KeyPath = readonly (string | number)[];

/** Why a document is invalid, at one place. `expected` is the phrase of the setting there. */
export type Problem = { path: KeyPath } & (
  | { kind: 'value'; found: unknown; expected: string; refusal: Refusal; choices: readonly string[] }
  | { kind: 'missing'; expected: string }
  | { kind: 'unknown key'; known: readonly string[] }
  | { kind: 'bad name'; expected: string }
  /** Of two keys that are set together, one is set. */
  | { kind: 'incomplete'; present: string; missing: string }
  | { kind: 'none of'; keys: readonly string[] }
  | { kind: 'several of'; keys: readonly string[] }
);

/** The value with its defaults filled in, or every problem in it. Pure. */
export function check<T>(
  setting: Setting<T>,
  value: unknown,
): { ok: true; value: T } | { ok: false; problems: Problem[] } {
  const problems: Problem[] = [];
  const checked = checkSetting(setting, value, { path: [], problems });
  return problems.length === 0 ? { ok: true, value: checked as T } : { ok: false, problems };
}

interface Place {
  path: KeyPath;
  /** Collects the problems of the document. */
  problems: Problem[];
}

interface FormPlace extends Place {
  expected: string;
}

function below({ path, problems }: Place, step: string | number): Place {
  return { path: [...path, step], problems };
}

function checkSetting({ form, about }: Setting, value: unknown, place: Place): unknown {
  const at = { ...place, expected: about.expected };
  if (value !== undefined) return checkForm(form, value, at);
  if (about.isRequired === true)
    place.problems.push({ kind: 'missing', path: place.path, expected: about.expected });
  if (about.initial === undefined) return undefined;
  return about.initial === 'of its keys' ? checkForm(form, {}, at) : structuredClone(about.initial.value);
}

function refuse(
  { path, problems, expected }: FormPlace,
  found: unknown,
  { refusal = {}, choices = [] }: { refusal?: Refusal | null; choices?: readonly string[] } = {},
): void {
  problems.push({ kind: 'value', path, found, expected, refusal: refusal ?? {}, choices });
}

function checkForm(form: Form, value: unknown, at: FormPlace): unknown {
  switch (form.kind) {
    case 'text': {
      const isText = typeof value === 'string' && (value !== '' || form.mayBeEmpty === true);
      const refusal = isText && value !== '' ? (form.check?.(value) ?? null) : null;
      if (!isText || refusal !== null || (value !== '' && form.pattern?.test(value) === false))
        refuse(at, value, { refusal });
      return value;
    }
    case 'number':
      if (!isNumber(form, value)) refuse(at, value);
      return value;
    case 'boolean':
      if (typeof value !== 'boolean') refuse(at, value);
      return value;
    case 'choice':
      if (typeof value !== 'string' || !form.values.includes(value))
        refuse(at, value, { choices: form.values });
      return value;
    case 'either':
      return checkEither(form.forms, value, at);
    case 'list':
      return checkList(form, value, at);
    case 'map':
      return checkMap(form, value, at);
    case 'map by name':
      return checkNamed(form, value, at);
    case 'variants':
      return checkVariants(form, value, at);
  }
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

/** If a form fits except for values within, their problems are reported. */
function checkEither(forms: readonly Form[], value: unknown, at: FormPlace): unknown {
  const tries = forms.map((form) => {
    const problems: Problem[] = [];
    checkForm(form, value, { ...at, problems });
    return problems;
  });
  if (tries.some((problems) => problems.length === 0)) return value;
  const inner = tries.find((problems) => problems.every(({ path }) => path.length > at.path.length));
  if (inner === undefined) refuse(at, value);
  else at.problems.push(...inner);
  return value;
}

function checkList(
  { items, min, isUnique }: Extract<Form, { kind: 'list' }>,
  value: unknown,
  at: FormPlace,
): unknown {
  if (!Array.isArray(value)) {
    refuse(at, value);
    return value;
  }
  const before = at.problems.length;
  const checked = value.map((item: unknown, index) => checkSetting(items, item ?? null, below(at, index)));
  if (at.problems.length > before) return checked;
  if (value.length < min) refuse(at, value);
  const repeated = value.findIndex((item, index) => value.indexOf(item) < index);
  if (isUnique === true && repeated !== -1)
    refuse({ ...below(at, repeated), expected: at.expected }, value[repeated]);
  return checked;
}

function checkMap({ keys, setTogether, oneOf, check: whole }: MapForm, value: unknown, at: FormPlace) {
  if (!isMap(value)) {
    refuse(at, value);
    return value;
  }
  const before = at.problems.length;
  for (const key of Object.keys(value))
    if (!Object.hasOwn(keys, key))
      at.problems.push({ kind: 'unknown key', path: [...at.path, key], known: Object.keys(keys) });
  const checked = { ...value };
  for (const [key, setting] of Object.entries(keys)) {
    const inner = checkSetting(setting, value[key], below(at, key));
    if (inner !== undefined) checked[key] = inner;
  }
  const { path } = at;
  const isSet = (key: string): boolean => checked[key] !== undefined;
  for (const group of setTogether) {
    const [present, missing] = [group.find(isSet), group.find((key) => !isSet(key))];
    if (present !== undefined && missing !== undefined)
      at.problems.push({ kind: 'incomplete', path, present, missing });
  }
  for (const group of oneOf) {
    const present = group.filter(isSet);
    if (present.length === 0) at.problems.push({ kind: 'none of', path, keys: group });
    if (present.length > 1) at.problems.push({ kind: 'several of', path, keys: present });
  }
  const refusal = at.problems.length > before ? null : (whole?.(checked as never) ?? null);
  if (refusal !== null) refuse(at, checked, { refusal });
  return checked;
}

function checkNamed(
  { names, values }: Extract<Form, { kind: 'map by name' }>,
  value: unknown,
  at: FormPlace,
): unknown {
  if (!isMap(value)) {
    refuse(at, value);
    return value;
  }
  const checked: Record<string, unknown> = {};
  for (const [name, each] of Object.entries(value)) {
    const place = below(at, name);
    if (names.form.test(name)) checked[name] = checkSetting(values, each, place);
    else at.problems.push({ kind: 'bad name', path: place.path, expected: names.expected });
  }
  return checked;
}

/** A wrong discriminator is the only problem, since the other keys depend on it. */
function checkVariants(
  { discriminator, maps, otherwise }: Extract<Form, { kind: 'variants' }>,
  value: unknown,
  at: FormPlace,
): unknown {
  if (!isMap(value)) {
    if (otherwise === null) refuse(at, value);
    else checkSetting(otherwise, value, at);
    return value;
  }
  const name = value[discriminator];
  const isKnown = typeof name === 'string' && Object.hasOwn(maps, name);
  const chosen = isKnown ? (maps[name] ?? otherwise) : otherwise;
  if (chosen !== null) return checkSetting(chosen, value, at);
  return checkSetting(choice(...Object.keys(maps)).required(), name, below(at, discriminator));
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
