import type { PathBase } from './parse-values.ts';

/**
 * Declares a setting, with its valid values, its default and its documentation. `check` uses this to validate
 * documents, and it is also the source of the JSON Schema. A setting never changes, so each method returns a
 * new one.
 *
 * `T` is the type of a valid value, and `R` is what `resolved` turns it into. `IsSet` is true if a valid
 * document always has a value, either because the setting is required or because it has a default.
 */
export class Setting<T = unknown, IsSet extends boolean = boolean, R = unknown> {
  /** Only exists for type inference. */
  declare readonly accepted?: T;
  declare readonly isSet?: IsSet;
  declare readonly resolved?: R;

  constructor(
    readonly form: ValueForm,
    readonly about: SettingDescription,
  ) {}

  required(): Setting<T, true, R> {
    return this.#with({ isRequired: true });
  }

  /**
   * Sets the value to use if the setting is missing. Call it without an argument for a map that has the
   * defaults of its keys.
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

  #with<Set extends boolean>(more: Partial<SettingDescription>): Setting<T, Set, R> {
    return new Setting<T, Set, R>(this.form, { ...this.about, ...more });
  }
}

/** Settings by key, such as the members of a map. */
export type Settings = Record<string, Setting>;

export type AcceptedBy<S> = S extends Setting<infer T> ? T : never;

/**
 * A validated map with these keys. Names are as in the file, and there are defaults for everything that is
 * not set.
 */
export type DocumentOf<K extends Settings> = {
  [P in keyof K as K[P] extends Setting<unknown, true> ? P : never]: AcceptedBy<K[P]>;
} & {
  [P in keyof K as K[P] extends Setting<unknown, true> ? never : P]?: AcceptedBy<K[P]>;
};

/** Marks a duration. It becomes a number of milliseconds, and `Ms` is added to its name. */
export interface Duration {
  readonly unit: 'ms';
}

/** The type of the value in the configuration, in the unit that the code uses. */
export type ResolvedBy<S> =
  S extends Setting<unknown, boolean, infer R> ? (R extends Duration ? number : R) : never;

type CamelCase<K extends string> = K extends `${infer A}_${infer B}` ? `${A}${Capitalize<CamelCase<B>>}` : K;
type ResolvedName<K extends string, S> =
  S extends Setting<unknown, boolean, Duration> ? `${CamelCase<K>}Ms` : CamelCase<K>;

/**
 * A map with these keys as it is in the configuration: names are in camel case, and settings that are not set
 * are null.
 */
export type ResolvedOf<K extends Settings> = {
  [P in keyof K & string as ResolvedName<P, K[P]>]: K[P] extends Setting<unknown, true>
    ? ResolvedBy<K[P]>
    : ResolvedBy<K[P]> | null;
};

export interface SettingDescription {
  /** The phrase that describes a valid value. It is part of every failure. */
  expected: string;
  /** The name of this kind of value in editors, and in the type column of the reference. */
  title?: string;
  /** A boolean or a number, with or without a unit. These cannot be secrets, even if there is a typo. */
  isNumeric?: boolean;
  isRequired?: boolean;
  initial?: { value: unknown } | 'of its keys';
  description?: string;
  example?: unknown;
  /** Turns a valid value into the one for the configuration. Default: they are the same. */
  resolve?: (value: never, base: PathBase) => unknown;
  unit?: Duration['unit'];
}

/** More details about a failure, if a check can give any. */
export interface ValueRefusal {
  reason?: string;
  /** Used in place of the setting's own phrase. */
  expected?: string;
}

/** Describes the structure of valid values. There is no conversion: `"8080"` is not a number. */
export type ValueForm =
  | TextForm
  | { kind: 'boolean' }
  | NumberForm
  | { kind: 'choice'; values: readonly string[] }
  | { kind: 'either'; forms: readonly ValueForm[] }
  | { kind: 'list'; items: Setting; min: number; isUnique?: boolean }
  | MapForm
  | { kind: 'map by name'; names: { form: RegExp; expected: string }; values: Setting }
  | {
      /** A map in which the value of one key decides which others are allowed. */
      kind: 'variants';
      discriminator: string;
      maps: Readonly<Record<string, Setting>>;
      /** Checks a map whose discriminator has any other value; null if that is not allowed. */
      otherwise: Setting | null;
    };

export interface TextForm {
  kind: 'text';
  pattern: RegExp | null;
  mayBeEmpty?: boolean;
  check?: (value: string) => ValueRefusal | null;
}

export interface NumberForm {
  kind: 'number';
  isWhole: boolean;
  min: number;
  /** The maximum; null means the largest safe integer. */
  max: number | null;
  check?: (value: number) => ValueRefusal | null;
}

export interface MapForm {
  kind: 'map';
  keys: Settings;
  /** Groups of keys that belong together: set all of them or none. */
  setTogether: readonly (readonly string[])[];
  /** Groups of keys that exclude each other: set exactly one. */
  oneOf: readonly (readonly string[])[];
  /** Checks the values against each other, once each of them is valid. */
  check?: (value: never) => ValueRefusal | null;
}
