import type { Digest } from '../lib/digest.ts';
import { describeFinding, type Finding, firstFindings, WaybillError } from '../lib/errors.ts';
import type { Instant } from '../lib/instant.ts';
import type { RelativePath } from '../lib/paths.ts';
import type { KeyId } from '../signing/minisign-text.ts';
import type { SourceIdentity } from '../storage/identity.ts';
import type { Body } from '../storage/storage.ts';
import type { JsonValue } from './manifest-json.ts';

/** A file in a manifest, with everything known about it before it is read. */
export interface BundleFile {
  path: RelativePath;
  kind: string;
  contentType: string | null;
  size: number;
  /** The declared digest; null if there is none and it has to be computed from `body`. */
  digest: Digest | null;
  body: Body;
}

export interface SignatureFile {
  digest: Digest;
  body: Body;
}

/**
 * A complete bundle. Its manifest is valid, and all listed files exist and have the declared size. The files
 * have not been read: declared digests are verified while copying, by `validate`, and on upload.
 */
export interface SourceBundle {
  identity: SourceIdentity;
  /** The path relative to the source root; `.` for a bundle at the root. */
  path: string;
  name: string | null;
  /** The revision in the manifest's metadata; null if the producer did not add one. */
  revision?: Revision | null;
  /** The manifest's `created` time, with every digit of its fraction. */
  created: Instant;
  /** The exact bytes of `manifest.json`, and their digest. */
  manifestFile: { digest: Digest; body: Body };
  /** `manifest.json.minisig`, if there is one. It might be invalid. */
  signatureFile?: SignatureFile | null;
  /** The trusted key that the bundle was signed with. Only set if the pipeline has a signature policy. */
  signedBy?: KeyId;
  files: BundleFile[];
  /** Findings that do not prevent publishing, such as unlisted files and skipped links. */
  warnings: Finding[];
}

const fixTheBundle = 'fix the bundle; docs/manifest.md has the rules';
const fixTheManifest =
  'if this file belongs to the site, rename it and update its links; otherwise fix it, by the rules in docs/manifest.md';

/** Returns an error with all findings for a bundle. Messages refer to the bundle as `name`. */
export function invalidBundle(
  name: string,
  findings: readonly Finding[],
  { verdict = 'is not a valid bundle', hint }: { verdict?: string; hint?: string } = {},
): WaybillError {
  const errors = findings.filter(({ severity }) => severity === 'error');
  const first = errors[0] === undefined ? '' : `: ${describeFinding(errors[0])}`;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new WaybillError('invalid_bundle', `${name} ${verdict}${first}${more}`, {
    hint: hint ?? (/\bmanifest\.json$/.test(errors[0]?.file ?? '') ? fixTheManifest : fixTheBundle),
    findings: firstFindings(findings),
  });
}

export function hasErrors(findings: readonly Finding[]): boolean {
  return findings.some(({ severity }) => severity === 'error');
}

/**
 * Says where a bundle comes from, according to its producer. It is only shown to users. No decision depends
 * on it.
 */
export interface Revision {
  message: string | null;
  /** The commit in version control. */
  commit: string | null;
  branch: string | null;
  author: string | null;
}

/** The maximum length of a message, in characters. */
export const maxMessageChars = 500;
const maxNameChars = 200;

/**
 * Returns the revision in a manifest's metadata, made up of the keys `message`, `commit`, `branch` and
 * `author`. Anyone who may upload can set these, so long values are cut off, control characters become
 * spaces, and credentials are removed from URLs. Returns null if none of the keys is there.
 */
export function revisionOf(metadata: JsonValue | undefined): Revision | null {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return null;
  const { message, commit, branch, author } = metadata;
  const revision = {
    message: cleanText(message, maxMessageChars),
    commit: cleanText(commit, maxNameChars),
    branch: cleanText(branch, maxNameChars),
    author: cleanText(author, maxNameChars),
  };
  return Object.values(revision).every((value) => value === null) ? null : revision;
}

/** Control characters, and characters that reverse the direction of text. */
const notText = /[\p{Cc}\p{Zl}\p{Zp}\u{202a}-\u{202e}\u{2066}-\u{2069}]+/gu;

function cleanText(value: JsonValue | undefined, maxChars: number): string | null {
  if (typeof value !== 'string') return null;
  // Cut very long text first, leaving far more than the limit, so that it does not take time to clean up.
  const text = value
    .slice(0, 4 * maxChars)
    .replace(notText, ' ')
    .replace(/(?<=:\/\/)[^/\s@]+@/g, '')
    .trim();
  const chars = Array.from(text);
  if (chars.length > maxChars) return `${chars.slice(0, maxChars - 1).join('')}…`;
  return text === '' ? null : text;
}
