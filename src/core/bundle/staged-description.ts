import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Digest, digestOf, parseDigest } from '../lib/digest.ts';
import { type Finding, WaybillError } from '../lib/errors.ts';

/*
 * The description of a staged bundle, `staged.json`. The job contains its digest, so we notice if anything
 * about the bundle changes between the time it is accepted and the time it is published.
 */
export const descriptionName = 'staged.json';

export interface FileFacts {
  size: number;
  digest: Digest;
}

interface DescribedFiles {
  manifest: Uint8Array;
  signature: Uint8Array | null;
}

/**
 * The description of a staged bundle. Older versions did not write the digests of the manifest and signature.
 */
interface StagedDescription {
  files: readonly FileFacts[];
  warnings: Finding[];
  manifest?: Digest;
  signature?: Digest | null;
}

/** Returns the contents of the description file. */
export function descriptionText({
  files,
  warnings,
  ...bytes
}: Pick<StagedDescription, 'files' | 'warnings'> & DescribedFiles): Buffer {
  const facts: StagedDescription = { files, warnings, ...digestsOf(bytes) };
  return Buffer.from(JSON.stringify(facts));
}

/** Throws a `body_mismatch` error if the manifest or signature is not the one in the description. */
export function checkAgainstDescription(facts: StagedDescription, bytes: DescribedFiles): void {
  const { manifest, signature } = digestsOf(bytes);
  if (facts.manifest !== manifest || facts.signature !== signature) throw descriptionMismatch();
}

function digestsOf({
  manifest,
  signature,
}: DescribedFiles): Required<Pick<StagedDescription, 'manifest' | 'signature'>> {
  return { manifest: digestOf(manifest), signature: signature === null ? null : digestOf(signature) };
}

/**
 * Reads the description. Throws `bundle_not_found` if it is gone, or `body_mismatch` if its digest is not
 * `description`.
 */
export function readDescription(directory: string, description: Digest | undefined): StagedDescription {
  const bytes = readStagedFile(path.join(directory, descriptionName));
  if (description !== undefined && digestOf(bytes) !== description) throw descriptionMismatch();
  // `stage` writes this file in exactly this form, and no other user can write to the directory.
  const facts = JSON.parse(bytes.toString()) as StagedDescription;
  if (
    !facts.files.every(({ size, digest }) => Number.isSafeInteger(size) && parseDigest(digest) !== undefined)
  )
    throw stagedFilesLost();
  return facts;
}

export function readStagedFile(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw stagedFilesLost(error);
  }
}

function descriptionMismatch(): WaybillError {
  return new WaybillError('body_mismatch', 'the staged bundle was changed after it was accepted', {
    hint: 'find out which program writes to the staging directory, then upload the bundle again',
  });
}

export function stagedFilesLost(cause?: unknown): WaybillError {
  return new WaybillError('bundle_not_found', 'the staged bundle no longer exists, or is incomplete', {
    cause,
    hint: 'upload it again',
  });
}
