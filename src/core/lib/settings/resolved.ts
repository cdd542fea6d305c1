import { camelCase } from '../text.ts';
import type { PathBase } from './parse-values.ts';
import type { AcceptedBy, ResolvedBy, Setting } from './setting.ts';

/**
 * Turns a document that the setting accepted into the configuration: with units converted, absolute paths,
 * names in camel case, and null for settings that are not set.
 */
export function resolved<S extends Setting>(setting: S, value: AcceptedBy<S>, base: PathBase): ResolvedBy<S> {
  return resolveValue(setting, value, base) as ResolvedBy<S>;
}

function resolveValue({ form, about }: Setting, value: unknown, base: PathBase): unknown {
  if (value === undefined) return null;
  if (about.resolve !== undefined) return about.resolve(value as never, base);
  switch (form.kind) {
    case 'list':
      return (value as unknown[]).map((item) => resolveValue(form.items, item, base));
    case 'map':
      return Object.fromEntries(
        Object.entries(form.keys).map(([key, setting]) => [
          nameOf(key, setting),
          resolveValue(setting, (value as Record<string, unknown>)[key], base),
        ]),
      );
    case 'map by name':
      return Object.fromEntries(
        Object.entries(value as object).map(([name, each]) => [name, resolveValue(form.values, each, base)]),
      );
    case 'variants': {
      const name = String((value as Record<string, unknown>)[form.discriminator]);
      const setting = form.maps[name] ?? form.otherwise;
      return setting === null ? value : resolveValue(setting, value, base);
    }
    default:
      return value;
  }
}

/** Converts the name of a setting: `upload_timeout` becomes `uploadTimeoutMs`. */
function nameOf(key: string, { about }: Setting): string {
  const name = camelCase(key);
  return about.unit === 'ms' ? `${name}Ms` : name;
}
