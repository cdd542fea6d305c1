import type { DigestedBundle } from '../bundle/validate-bundle.ts';
import type { RelativePath } from '../lib/paths.ts';
import { digestOf, type Digest } from '../lib/digest.ts';
import type { GeneratedOutputs } from '../config/config.ts';

/*
 * The contract of generators, which create outputs from a bundle. `generators.ts` lists them.
 */

export interface GeneratorInput {
  bundle: DigestedBundle;
  /** The outputs of the generators before this one. */
  siblings: readonly Sibling[];
}

/** Another generated output, as it will be published. */
export interface Sibling {
  path: RelativePath;
  kind: string;
  digest: Digest;
  size: number;
}

/** A generated output. Nothing is generated before `open` is called. */
export interface GeneratedFile {
  path: RelativePath;
  kind: string;
  contentType: string;
  /** The digest of everything that determines the content. Equal inputs must give equal content. */
  inputs: Digest;
  /** Streams the content, which is the same each time. */
  open(): AsyncIterable<Uint8Array>;
}

/**
 * Generates one kind of output. Raise `version` with every code change that changes the content, so that
 * published outputs are generated again. To add a generator, list it in `generators.ts` and add a switch to
 * the configuration.
 */
export interface Generator {
  name: string;
  version: number;
  switchedBy: keyof GeneratedOutputs;
  /** The outputs for this bundle; empty if the generator does not apply to it. */
  describe(input: GeneratorInput): Promise<GeneratedFile[]>;
}

/**
 * The digest of inputs. Pass only lists and scalars, because the JSON form of objects depends on key order.
 */
export function digestInputs(...inputs: readonly unknown[]): Digest {
  return digestOf(JSON.stringify(inputs));
}

/** Generates small content on the first call and keeps it in memory. */
export function keptBytes(make: () => string): () => AsyncIterable<Uint8Array> {
  let kept: Buffer | undefined;
  return async function* () {
    kept ??= Buffer.from(make());
    if (kept.byteLength > 0) yield kept;
  };
}
