/** A number that is rounded once, at the very end, to this many digits. The exact value is kept. */
export class Rounded {
  readonly exact: number;
  readonly digits: number;

  constructor(exact: number, digits: number) {
    this.exact = exact;
    this.digits = digits;
  }

  /** Either adjacent value if the exact one is half-way between them, within floating-point precision. */
  isRoundedTo(found: unknown): boolean {
    return (
      typeof found === 'number' &&
      found === Number(found.toFixed(this.digits)) &&
      Math.abs(found - this.exact) <= 0.5 * 10 ** -this.digits + 1e-9 * Math.max(1, Math.abs(this.exact))
    );
  }
}

/** For a bearing: 359.7 is 0. */
export class RoundedBearing extends Rounded {
  override isRoundedTo(found: unknown): boolean {
    return (
      typeof found === 'number' &&
      found >= 0 &&
      found < 360 &&
      [found - 360, found, found + 360].some((each) => super.isRoundedTo(each))
    );
  }
}

export interface Compared {
  /** The number of values that are neither objects nor lists. */
  leaves: number;
  /** Each difference with its path. Empty if everything matches. */
  differences: string[];
}

/** Compares an answer with the expected one, leaf by leaf: names, their number and their values. */
export function compare(found: unknown, expected: unknown): Compared {
  const compared: Compared = { leaves: 0, differences: [] };
  walk(found, expected, '', compared);
  return compared;
}

function walk(found: unknown, expected: unknown, place: string, compared: Compared): void {
  const differs = (): void => {
    compared.differences.push(`${place}: ${describe(found)}, expected ${describe(expected)}`);
  };
  if (expected instanceof Rounded || typeof expected !== 'object' || expected === null) {
    compared.leaves += 1;
    const agrees = expected instanceof Rounded ? expected.isRoundedTo(found) : Object.is(found, expected);
    if (!agrees) differs();
    return;
  }
  if (typeof found !== 'object' || found === null || Array.isArray(found) !== Array.isArray(expected)) {
    differs();
    return;
  }
  const [here, there] = [new Map(Object.entries(found)), new Map(Object.entries(expected))];
  for (const name of new Set([...here.keys(), ...there.keys()])) {
    const at = `${place}/${name}`;
    if (!there.has(name)) compared.differences.push(`${at}: is not expected`);
    else if (!here.has(name)) compared.differences.push(`${at}: is missing`);
    else walk(here.get(name), there.get(name), at, compared);
  }
}

function describe(value: unknown): string {
  return value instanceof Rounded
    ? `${value.exact} to ${value.digits} digits`
    : JSON.stringify(value).slice(0, 200);
}
