import type { PathBase } from './values.ts';

/**
 * The declaration of a setting: its values, its default and its documentation. `check` uses it to validate
 * documents, and the JSON Schema is derived from it. Settings are immutable, so each method returns a new
 * one.
 *
 * `T` is the type of a valid value, and `R` is the type of the value to which `resolved` converts it. `IsSet`
 * is true if a valid document always has a value, because the setting is required or has a default.
 */
export class Setting<T = unknown, IsSet extends boolean = boolean, R = unknown> {
  /** Used only for type inference. */
  declare readonly accepted?: T;
  declare readonly isSet?: IsSet;
  declare readonly resolved?: R;

  constructor(
    readonly form: Form,
    readonly about: About,
  ) {}

  required(): Setting<T, true, R> {
    return this.#with({ isRequired: true });
  }

  /**
   * Sets the value used if the setting is missing. Without an argument, it is a map of its keys' defaults.
   */
  default(...given: [value?: unknown]): Setting<T, true, R> {
    return this.#with({ initial: given.length === 0 ? 'of its keys' : { value: given[0] } });
  }

  description(text: string): Setting<T, IsSet, R> {
    return this.#with({ description: text });
  }

  example(value: unknown): Setting<T, IsSet, R> {
    return this.#with({ example: value });
  }

  #with<Set extends boolean>(more: Partial<About>): Setting<T, Set, R> {
    return new Setting<T, Set, R>(this.form, { ...this.about, ...more });
  }
}

/** The settings of a map, by key. */
export type Settings = Record<string, Setting>;

/** A value that a setting accepted. */
export type AcceptedBy<S> = S extends Setting<infer T> ? T : never;

/** A map with these keys after validation, with the names used in the file and all defaults filled in. */
export type DocumentOf<K extends Settings> = {
  [P in keyof K as K[P] extends Setting<unknown, true> ? P : never]: AcceptedBy<K[P]>;
} & {
  [P in keyof K as K[P] extends Setting<unknown, true> ? never : P]?: AcceptedBy<K[P]>;
};

/** Marks a duration, whose resolved value is in milliseconds and whose resolved name ends in `Ms`. */
export interface Duration {
  readonly unit: 'ms';
}

/** A configuration value in the units used in code. */
export type ResolvedBy<S> =
  S extends Setting<unknown, boolean, infer R> ? (R extends Duration ? number : R) : never;

type CamelCase<K extends string> = K extends `${infer A}_${infer B}` ? `${A}${Capitalize<CamelCase<B>>}` : K;
type ResolvedName<K extends string, S> =
  S extends Setting<unknown, boolean, Duration> ? `${CamelCase<K>}Ms` : CamelCase<K>;

/** A map with these keys in the configuration, with names in camel case and null for unset settings. */
export type ResolvedOf<K extends Settings> = {
  [P in keyof K & string as ResolvedName<P, K[P]>]: K[P] extends Setting<unknown, true>
    ? ResolvedBy<K[P]>
    : ResolvedBy<K[P]> | null;
};

export interface About {
  /** The phrase that every failure includes. */
  expected: string;
  /** The kind of text, for editors and the reference's type column. */
  title?: string;
  isRequired?: boolean;
  initial?: { value: unknown } | 'of its keys';
  description?: string;
  example?: unknown;
  /** Converts a valid value to the one in the configuration. By default, they are the same. */
  resolve?: (value: never, base: PathBase) => unknown;
  unit?: Duration['unit'];
}

/** Details of a failure, for checks that can report more than the expected value. */
export interface Refusal {
  reason?: string;
  /** Replaces the setting's phrase. */
  expected?: string;
}

/** The form of a value. Values are not converted: `"8080"` is not a number. */
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
      /** Validates a map with any other discriminator. If null, such maps are invalid. */
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
  /** The maximum, or null for the largest safe integer. */
  max: number | null;
  check?: (value: number) => Refusal | null;
}

export interface MapForm {
  kind: 'map';
  /** The allowed keys. All others are invalid. */
  keys: Settings;
  /** Groups of keys that must be set together or not at all. */
  setTogether: readonly (readonly string[])[];
  /** Groups of keys of which exactly one must be set. */
  oneOf: readonly (readonly string[])[];
  /** Checks the accepted values together. */
  check?: (value: never) => Refusal | null;
}
