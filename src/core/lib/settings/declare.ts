import type * as kinds from './kinds.ts';

/**
 * The kinds of values. Modules that declare their own settings receive these as a parameter and need nothing
 * else.
 */
export type Kinds = typeof kinds;

export type { Settings } from './setting.ts';
