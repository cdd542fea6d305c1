import type { DigestedBundle } from '../bundle/validate-bundle.ts';
import type { RelativePath } from '../paths.ts';
import { digestOf, type Digest } from '../digest.ts';
import type { GeneratedOutputs } from '../config/config.ts';

/** What every generator may look at. */
export interface GeneratorInput {
  bundle: DigestedBundle;
  /** The generated outputs that are described already. */
  siblings: readonly Sibling[];
}

/** Another generated output, as it will be published. */
export interface Sibling {
  path: RelativePath;
  kind: string;
  digest: Digest;
  size: number;
}

/** An output that the publisher makes. Nothing is made before `open` is called. */
export interface GeneratedFile {
  path: RelativePath;
  kind: string;
  contentType: string;
  /**
   * The digest of everything that decides the bytes: equal inputs of one generator and version are equal
   * bytes.
   */
  inputs: Digest;
  /** The bytes, the same each time. */
  open(): AsyncIterable<Uint8Array>;
}

/**
 * Makes one kind of output. Raise `version` with every change of the code that changes bytes: published ones
 * are then made anew. A new generator is an entry in the list in `generators.ts`, and a switch in the
 * configuration.
 */
export interface Generator {
  name: string;
  version: number;
  switchedBy: keyof GeneratedOutputs;
  /** One file or several, or none if the bundle has nothing to make them from. */
  describe(input: GeneratorInput): Promise<GeneratedFile[]>;
}

/** Digest of inputs: of values whose JSON form is the same each time (lists and scalars). */
export function digestInputs(...inputs: readonly unknown[]): Digest {
  return digestOf(JSON.stringify(inputs));
}

/** Bytes that are small enough to keep, made once, when they are first asked for. */
export function keptBytes(make: () => string): () => AsyncIterable<Uint8Array> {
  let kept: Buffer | undefined;
  return async function* () {
    kept ??= Buffer.from(make());
    if (kept.byteLength > 0) yield kept;
  };
}
