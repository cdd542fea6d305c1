/**
 * A setting as it is declared: what it may be, and what people are told of it. It is a plain value: `accept`
 * judges documents by it, and `joi-schema.ts` makes of it the schema that knows what is wrong with one. A
 * setting cannot change; each method gives another one.
 */
export class Setting<T = unknown> {
  /** What a value looks like once it was accepted; never there. */
  declare readonly accepted?: T;

  constructor(
    readonly form: Form,
    readonly about: About,
  ) {}

  required(): Setting<T> {
    return this.#with({ isRequired: true });
  }

  /** What stands for a value that is left out; without an argument, the defaults of the keys of a map. */
  default(...given: [value?: unknown]): Setting<T> {
    return this.#with({ initial: given.length === 0 ? 'of its keys' : { value: given[0] } });
  }

  description(text: string): Setting<T> {
    return this.#with({ description: text });
  }

  example(value: unknown): Setting<T> {
    return this.#with({ example: value });
  }

  #with(more: Partial<About>): Setting<T> {
    return new Setting<T>(this.form, { ...this.about, ...more });
  }
}

/** The schemas of settings, by key. */
export type Settings = Record<string, Setting>;

export interface About {
  /** The phrase that every failure tells. */
  expected: string;
  /** The kind of text, for editors and for the type column of the reference. */
  title?: string;
  isRequired?: boolean;
  initial?: { value: unknown } | 'of its keys';
  description?: string;
  example?: unknown;
}

/** What is wrong with a value, where more can be said than what was expected. */
export interface Refusal {
  reason?: string;
  /** Instead of the phrase of the setting. */
  expected?: string;
}

/** What a value may be. No value is converted: `"8080"` is no number. */
export type Form =
  | TextForm
  | { kind: 'boolean' }
  | NumberForm
  | { kind: 'choice'; values: readonly string[] }
  | { kind: 'either'; forms: readonly Form[] }
  | { kind: 'list'; items: Setting; min: number; isUnique?: boolean }
  | MapForm
  | { kind: 'map by name'; names: { form: RegExp; expected: string }; values: Setting }
  | {
      /** A map whose keys depend on the value of one of them. */
      kind: 'variants';
      discriminator: string;
      maps: Readonly<Record<string, Setting>>;
      /** Judges a map of none of these; without it there is no such map. */
      otherwise: Setting | null;
    };

export interface TextForm {
  kind: 'text';
  pattern: RegExp | null;
  mayBeEmpty?: boolean;
  check?: (value: string) => Refusal | null;
}

export interface NumberForm {
  kind: 'number';
  isWhole: boolean;
  min: number;
  /** Null for as large as a number can be that is exact. */
  max: number | null;
  check?: (value: number) => Refusal | null;
}

export interface MapForm {
  kind: 'map';
  /** These and no others. */
  keys: Settings;
  /** Groups of keys that are set together or not at all. */
  setTogether: readonly (readonly string[])[];
  /** Groups of keys of which exactly one is set. */
  oneOf: readonly (readonly string[])[];
  /** What is wrong with the accepted values taken together. */
  check?: (value: never) => Refusal | null;
}
