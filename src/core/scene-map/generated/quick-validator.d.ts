/* Generated from scene-map.schema.json by scripts/generate-scene-map.ts: change the schema, not this file. */
import type { ErrorObject } from 'ajv';

declare const validate: { (value: unknown): boolean; errors?: ErrorObject[] | null };
export { validate };
