import type * as kinds from './kinds.ts';

/**
 * The kinds of values that a setting can have. A module that declares its own settings gets these as a
 * parameter, so it does not have to import anything.
 */
export type Kinds = typeof kinds;

export type { Settings } from './setting.ts';
