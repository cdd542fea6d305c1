import { camelCase } from './text.ts';

/**
 * Returns the JSON document of a command or an HTTP response (`schemas/cli-output.schema.json`). Names are
 * changed to snake case one object at a time while writing, since a run can have a hundred thousand objects.
 *
 * @param indent How many spaces to indent each level by; 0 to write everything on one line.
 */
export function jsonDocument(kind: string, body: object, indent: number): string {
  return JSON.stringify({ schemaVersion: 1, kind, ...body }, inSnakeCase, indent);
}

function inSnakeCase(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [snakeCase(key), inner as unknown]));
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns a parsed document with names in camel case: the reverse of `jsonDocument`. */
export function inCamelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inCamelCase);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [camelCase(key), inCamelCase(inner)]),
  );
}

/** Whether a parsed JSON value is an object, and neither an array nor null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
