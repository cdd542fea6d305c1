import joi from 'joi';
import { choice } from './kinds.ts';
import type { MapForm, Setting, SettingDescription, TextForm, ValueForm, ValueRefusal } from './setting.ts';

/*
 * Builds the joi schema of a setting, which finds all problems in a document. Since joi is slow, a schema is
 * only built when it is needed.
 */

/**
 * The schemas built so far, by form. Several settings can have the same form, and some are used both on their
 * own and as part of a larger schema.
 */
const schemaCache = new WeakMap<ValueForm, joi.Schema>();

export function joiSchema<T>({ form, about }: Setting<T>): joi.Schema<T> {
  const { isRequired, initial } = about;
  let schema = schemaCache.get(form) ?? labelledSchema(form, about);
  schemaCache.set(form, schema);
  if (isRequired === true) schema = schema.required();
  if (initial !== undefined)
    schema = initial === 'of its keys' ? schema.default() : schema.default(initial.value as joi.BasicType);
  return schema as joi.Schema<T>;
}

function labelledSchema(form: ValueForm, { expected, isNumeric }: SettingDescription): joi.Schema {
  // joi takes thirty times as long if the message is set directly. So set a label, and let
  // `validationOptions` use it as the message of every failure.
  const labelled = bareSchema(form, expected).label(expected);
  if (isNumeric === true) return labelled.error(reportNumber);
  if (form.kind === 'map') return labelled.error(reportKnownKeys(Object.keys(form.keys)));
  return form.kind === 'map by name' ? labelled.error(reportNames(form.names.expected)) : labelled;
}

function bareSchema(form: ValueForm, expected: string): joi.Schema {
  switch (form.kind) {
    case 'text':
      return textSchema(form);
    case 'boolean':
      return joi.boolean();
    case 'number': {
      const least = (form.isWhole ? joi.number().integer() : joi.number()).min(form.min);
      const range = form.max === null ? least : least.max(form.max);
      return form.check === undefined ? range : range.custom(refusedBy(form.check));
    }
    case 'choice':
      return joi.string().valid(...form.values);
    case 'either':
      return joi.alternatives().try(...form.forms.map((each) => bareSchema(each, expected)));
    case 'list': {
      const list = joi.array().items(joiSchema(form.items));
      const long = form.min === 0 ? list : list.min(form.min);
      return form.isUnique === true ? long.unique() : long;
    }
    case 'map':
      return mapSchema(form);
    case 'map by name':
      return joi.object().pattern(form.names.form, joiSchema(form.values));
    case 'variants':
      return variantsSchema(form, expected);
  }
}

function textSchema({ pattern, mayBeEmpty, check }: TextForm): joi.Schema {
  const text = mayBeEmpty === true ? joi.string().allow('') : joi.string();
  const matching = pattern === null ? text : text.pattern(pattern);
  return check === undefined ? matching : matching.custom(refusedBy(check));
}

function mapSchema({ keys, setTogether, oneOf, check }: MapForm): joi.Schema {
  const schemas = Object.entries(keys).map(([key, setting]) => [key, joiSchema(setting)]);
  const map = joi.object(Object.fromEntries(schemas) as joi.SchemaMap);
  const together = setTogether.reduce((with_, group) => with_.and(...group), map);
  const whole = oneOf.reduce((with_, group) => with_.xor(...group), together);
  return check === undefined
    ? whole
    : whole.custom(refusedBy(check as (value: unknown) => ValueRefusal | null));
}

function variantsSchema(
  { discriminator, maps, otherwise }: Extract<ValueForm, { kind: 'variants' }>,
  expected: string,
): joi.Schema {
  const cases = Object.entries(maps).map(([name, setting]) => ({ is: name, then: joiSchema(setting) }));
  return joi.alternatives().conditional(`.${discriminator}`, {
    switch: cases,
    otherwise: otherwise === null ? undecided(discriminator, maps).label(expected) : joiSchema(otherwise),
  });
}

/**
 * Reports the discriminator, which decides which other keys are valid, and keys that none of the maps has.
 * One of these could be a misspelled discriminator.
 */
function undecided(discriminator: string, maps: Readonly<Record<string, Setting>>): joi.Schema {
  const forms = Object.values(maps).map(({ form }) => form);
  const known = forms.flatMap((form) => (form.kind === 'map' ? Object.keys(form.keys) : []));
  return joi
    .object(Object.fromEntries(known.map((key) => [key, joi.any()])))
    .keys({ [discriminator]: joiSchema(choice(...Object.keys(maps)).required()) })
    .error(reportKnownKeys([...new Set(known)]));
}

function refusedBy<V>(check: (value: V) => ValueRefusal | null): joi.CustomValidator<V> {
  return (value, helpers) => {
    const refusal = check(value);
    return refusal === null ? value : helpers.error('waybill.reason', { ...refusal });
  };
}

/**
 * Adds the names of known keys, so that an error can suggest one. joi reports an unknown key without them.
 */
function reportKnownKeys(known: string[]): joi.ValidationErrorFunction {
  return (reports) => {
    for (const report of reports)
      if (report.code === 'object.unknown') (report.local as Record<string, unknown>)['known'] ??= known;
    return reports;
  };
}

function reportNumber(reports: joi.ErrorReport[]): joi.ErrorReport[] {
  for (const report of reports) (report.local as Record<string, unknown>)['isNumeric'] = true;
  return reports;
}

function reportNames(expected: string): joi.ValidationErrorFunction {
  return (reports) => {
    for (const report of reports)
      if (report.code === 'object.unknown')
        (report.local as Record<string, unknown>)['expectedKey'] = expected;
    return reports;
  };
}
