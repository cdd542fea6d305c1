import type * as kinds from './kinds.ts';

/** The kinds of values, handed to whatever declares settings of its own: it needs no more than that. */
export type Kinds = typeof kinds;

export type { Settings } from './setting.ts';
