/*
 * Checks JSON from a daemon, before anything relies on it. The URL may lead to another program, and a daemon
 * may be broken or hostile. Only fields that callers read are checked.
 */

/**
 * Checks a value of type `T`. Returns null if it is valid, or else the path of the first wrong part. That is
 * `''` for the value itself.
 */
export type Shape<T = unknown> = ((value: unknown) => string | null) & { readonly type?: T };

/** A shape that can be declared as the shape of any type. */
type AnyShape = Shape<never>;

const shapeOf =
  (isValid: (value: unknown) => boolean): AnyShape =>
  (value) =>
    isValid(value) ? null : '';

export const text = shapeOf((value) => typeof value === 'string');
export const number = shapeOf((value) => typeof value === 'number');
export const flag = shapeOf((value) => typeof value === 'boolean');

export const orNull =
  (shape: Shape): AnyShape =>
  (value) =>
    value === null ? null : shape(value);

/** Also accepts a missing field. */
export const optional =
  (shape: Shape): AnyShape =>
  (value) =>
    value === undefined ? null : shape(value);

export const list =
  (shape: Shape): AnyShape =>
  (value) =>
    Array.isArray(value) ? firstFault(value.map((item, index) => [String(index), shape(item)])) : '';

/** An object with at least these fields. */
export const fields =
  (shapes: Readonly<Record<string, Shape>>): AnyShape =>
  (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return '';
    const record = value as Record<string, unknown>;
    return firstFault(Object.entries(shapes).map(([name, shape]) => [name, shape(record[name])]));
  };

function firstFault(parts: readonly (readonly [name: string, fault: string | null])[]): string | null {
  const wrong = parts.find(([, fault]) => fault !== null);
  if (wrong === undefined) return null;
  const [name, fault] = wrong;
  return fault === '' ? name : `${name}/${fault}`;
}
