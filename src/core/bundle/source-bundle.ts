import type { Digest } from '../lib/digest.ts';
import { describeFinding, type Finding, WaybillError } from '../lib/errors.ts';
import type { Instant } from '../lib/instant.ts';
import type { RelativePath } from '../lib/paths.ts';
import type { KeyId } from '../signing/minisign-text.ts';
import type { SourceIdentity } from '../storage/identity.ts';
import type { Body } from '../storage/storage.ts';
import type { JsonValue } from './manifest-json.ts';

/** A file in a manifest, with the facts that are known before any byte is read. */
export interface BundleFile {
  path: RelativePath;
  kind: string;
  contentType: string | null;
  size: number;
  /** The declared digest, or null if the manifest has none and it must be computed from `body`. */
  digest: Digest | null;
  body: Body;
}

export interface SignatureFile {
  digest: Digest;
  body: Body;
}

/**
 * A complete bundle: its manifest is valid, and every listed file is present with the declared size. File
 * contents have not been read. Declared digests are verified during the copy, by `validate`, and on upload.
 */
export interface SourceBundle {
  identity: SourceIdentity;
  /** The path relative to the source root. It is `.` for a bundle at the root. */
  path: string;
  name: string | null;
  /** The revision in the manifest's metadata, or null if the producer states none. */
  revision?: Revision | null;
  /** The manifest's `created`, with all its digits. */
  created: Instant;
  /** `manifest.json` byte for byte, with the digest of those bytes. */
  manifestFile: { digest: Digest; body: Body };
  /** `manifest.json.minisig`, if the bundle has one. It may be invalid. */
  signatureFile?: SignatureFile | null;
  /** The trusted key whose signature was verified. Set only if the pipeline has a signature policy. */
  signedBy?: KeyId;
  files: BundleFile[];
  /** Findings that do not prevent publication (unlisted files, skipped links, …). */
  warnings: Finding[];
}

const fixTheBundle = 'fix the findings in the bundle; docs/manifest.md has the rules';

/** Returns one error for all findings of a bundle. `name` identifies the bundle to users. */
export function invalidBundle(
  name: string,
  findings: readonly Finding[],
  { verdict = 'is not a valid bundle', hint = fixTheBundle }: { verdict?: string; hint?: string } = {},
): WaybillError {
  const errors = findings.filter(({ severity }) => severity === 'error');
  const first = errors[0] === undefined ? '' : `: ${describeFinding(errors[0])}`;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new WaybillError('invalid_bundle', `${name} ${verdict}${first}${more}`, {
    hint,
    findings,
  });
}

export function hasErrors(findings: readonly Finding[]): boolean {
  return findings.some(({ severity }) => severity === 'error');
}

/** The origin of a bundle, as stated by its producer. It is for display only. No decision depends on it. */
export interface Revision {
  message: string | null;
  /** The commit in version control. */
  commit: string | null;
  branch: string | null;
  author: string | null;
}

/** The maximum length of a message in characters. */
export const maxMessageChars = 500;
const maxNameChars = 200;

/**
 * Returns the revision in a manifest's metadata: the keys `message`, `commit`, `branch` and `author`. Any
 * client with upload permission can set them, so texts are truncated, control characters become spaces, and
 * credentials in URLs are removed. Returns null if all keys are missing.
 */
export function revisionOf(metadata: JsonValue | undefined): Revision | null {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return null;
  const { message, commit, branch, author } = metadata;
  const revision = {
    message: cleaned(message, maxMessageChars),
    commit: cleaned(commit, maxNameChars),
    branch: cleaned(branch, maxNameChars),
    author: cleaned(author, maxNameChars),
  };
  return Object.values(revision).every((value) => value === null) ? null : revision;
}

/** Control characters, and characters that change the text direction. */
const notText = /[\p{Cc}\p{Zl}\p{Zp}\u{202a}-\u{202e}\u{2066}-\u{2069}]+/gu;

function cleaned(value: JsonValue | undefined, maxChars: number): string | null {
  if (typeof value !== 'string') return null;
  // Cut first, far above the limit, so that a very long text costs no time.
  const text = value
    .slice(0, 4 * maxChars)
    .replace(notText, ' ')
    .replace(/(?<=:\/\/)[^/\s@]+@/g, '')
    .trim();
  const chars = Array.from(text);
  if (chars.length > maxChars) return `${chars.slice(0, maxChars - 1).join('')}…`;
  return text === '' ? null : text;
}
