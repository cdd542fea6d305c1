import type joi from 'joi';
import type * as kinds from './kinds.ts';

/**
 * The kinds of values, handed to whatever declares settings of its own. Worker threads load those modules
 * too, and never a schema: with the kinds as an argument they need no joi.
 */
export type Kinds = typeof kinds;

/** The schemas of settings, by key. */
export type Settings = Record<string, joi.Schema>;
