import canonicalize from 'canonicalize';
import { type Digest, digestOf, hexOf, parseDigest } from '../lib/digest.ts';
import { type Finding, finding } from '../lib/errors.ts';
import { type Instant, parseInstant } from '../lib/instant.ts';
import { isRecord } from '../lib/json-document.ts';
import { compareCodeUnits, findCollisions, parseRelativePath, type RelativePath } from '../lib/paths.ts';
import { foldedPath } from '../lib/text.ts';
import { maxListedFiles, maxPathSegments } from './limits.ts';
import { type JsonObject, type JsonValue, type Problems, readJsonDocument } from './manifest-json.ts';

export const manifestName = 'manifest.json';
/** The signature of the manifest, in a file next to it. It is never listed in a manifest. */
export const signatureName = 'manifest.json.minisig';
export const maxSignatureBytes = 16 * 1024;
export const maxManifestBytes = 64 * 2 ** 20;

export interface Manifest {
  name: RelativePath | null;
  created: Instant;
  /** The files, in the same order as in the manifest. */
  files: ManifestFile[];
  /** The original document, including keys that this version does not know. */
  document: JsonObject;
}

export interface ManifestFile {
  path: RelativePath;
  kind: string;
  contentType: string | null;
  /** The declared size in bytes; null if there is none. `digest` works the same way. */
  size: number | null;
  digest: Digest | null;
}

/**
 * Parses a manifest. Each problem is reported with its JSON Pointer, line and column. `file` is the
 * manifest's name in findings. The manifest is null if any of the findings is an error. A lower `maxFiles`
 * reduces how many values the document may have, but does not limit `files`. Parsing 50,000 files takes well
 * under a second.
 */
export function parseManifest(
  bytes: Uint8Array,
  file: string,
  maxFiles: number = maxListedFiles,
): { manifest: Manifest | null; findings: Finding[] } {
  if (bytes.byteLength > maxManifestBytes) {
    const message = `has ${bytes.byteLength} bytes; the maximum for a manifest is ${maxManifestBytes}; split the bundle`;
    return { manifest: null, findings: [finding('error', 'manifest_too_large', message, { file })] };
  }
  const document = readJsonDocument(bytes, file, maxFiles);
  const { problems, value } = document;
  const manifest = value === undefined ? null : readManifest(value, problems);
  const findings = value === undefined || problems.count > 0 ? document.locate() : [];
  return { manifest: findings.length > 0 ? null : manifest, findings };
}

/**
 * Returns the normalized manifest that `manifestDigest` hashes: with defaults filled in, `created` in UTC,
 * and files sorted by path. Unknown keys stay.
 */
export function normaliseManifest(manifest: Manifest): JsonObject {
  const { document, files } = manifest;
  const entries = document['files'] as JsonValue[];
  const normalised = files.map(({ path, kind, contentType, size, digest }, index) => {
    const entry = entries[index];
    const known = { path, kind, content_type: contentType, size, digest };
    return isRecord(entry) ? { ...entry, ...known } : known;
  });
  normalised.sort((a, b) => compareCodeUnits(a.path, b.path));
  return {
    ...document,
    schema_version: 1,
    name: manifest.name,
    created: manifest.created,
    metadata: document['metadata'] ?? {},
    files: normalised,
  };
}

/**
 * Returns the SHA-256 digest of the normalized manifest in RFC 8785 form. Two manifests that mean the same
 * thing have the same digest.
 */
export function manifestDigest(manifest: Manifest): Digest {
  return digestOf(canonicalJson(normaliseManifest(manifest)));
}

/**
 * Like `manifestDigest`, except that measured digests are used for files that have none in the manifest. If
 * all of them are declared, the result is the same. Idempotency keys are bound to this digest.
 */
export function contentDigest(manifest: Manifest, measured: (file: ManifestFile) => Digest): Digest {
  const files = manifest.files.map((file) => ({ ...file, digest: file.digest ?? measured(file) }));
  return manifestDigest({ ...manifest, files });
}

/**
 * Returns the path to publish an upload to: its `name` or, if it has none, its creation time and the first
 * digits of its digest.
 */
export function uploadBundlePath(manifest: Manifest, digest: Digest): string {
  return manifest.name ?? `${compactTimestamp(manifest.created)}-${hexOf(digest).slice(0, 8)}`;
}

/** Returns a value as canonical JSON (RFC 8785). */
export function canonicalJson(value: unknown): string {
  return canonicalize(value) as string;
}

function readManifest(value: JsonValue, problems: Problems): Manifest | null {
  const report: ReportFinding = (code, pointer, message) => problems.add(code, pointer, message);
  if (!isRecord(value))
    return report('wrong_type', '', `must be a JSON object ({…}), but is ${nameOfType(value)}`);
  const version = value['schema_version'] ?? 1;
  if (version !== 1)
    report(
      'unsupported_version',
      '/schema_version',
      `schema_version must be 1, but is ${JSON.stringify(version)}`,
    );
  const metadata = value['metadata'] ?? {};
  if (!isRecord(metadata))
    report('wrong_type', '/metadata', `metadata must be an object, but is ${nameOfType(metadata)}`);

  const created =
    value['created'] === undefined
      ? report(
          'missing_key',
          '/created',
          'the key "created" is missing: when the bundle was made, like "2026-11-20T01:02:03Z"',
        )
      : readText(value, '', 'created', parseInstant, report);
  const name = readText(value, '', 'name', pathVerdict, report);
  const files = readFiles(value['files'], report);
  return created === null || files === null ? null : { name, created, files, document: value };
}

type ReportFinding = (code: string, pointer: string, message: string) => null;

function readFiles(listed: JsonValue | undefined, report: ReportFinding): ManifestFile[] | null {
  if (listed === undefined)
    return report('missing_key', '/files', 'the key "files" is missing: the list of the files of the bundle');
  if (!Array.isArray(listed))
    return report('wrong_type', '/files', `files must be a list, but is ${nameOfType(listed)}`);
  if (listed.length === 0)
    return report('no_files', '/files', 'files is empty; a bundle has at least one file');
  if (listed.length > maxListedFiles)
    return report(
      'too_many_listed_files',
      '/files',
      `files lists ${listed.length} files; the maximum for a bundle is ${maxListedFiles}; split it`,
    );
  const files: ManifestFile[] = [];
  const indexes: number[] = [];
  listed.forEach((entry, index) => {
    const file = readFile(entry, `/files/${index}`, report);
    if (file === null) return;
    files.push(file);
    indexes.push(index);
  });
  for (const { index, reason } of findCollisions(files.map(({ path }) => path))) {
    const path = files[index]?.path ?? '';
    report('path_collision', `/files/${indexes[index] ?? 0}`, `the path "${path}" ${reason}`);
  }
  return files;
}

function readFile(entry: JsonValue, pointer: string, report: ReportFinding): ManifestFile | null {
  if (typeof entry === 'string')
    return readFile({ path: entry }, pointer, (code, _inner, message) => report(code, pointer, message));
  if (!isRecord(entry))
    return report(
      'wrong_type',
      pointer,
      `must be a path or an object with a path, but is ${nameOfType(entry)}`,
    );
  const path =
    entry['path'] == null
      ? report('missing_key', `${pointer}/path`, 'the key "path" is missing')
      : readText(entry, pointer, 'path', filePathVerdict, report);
  const digest = readText(entry, pointer, 'digest', digestVerdict, report);
  const kind = readText(entry, pointer, 'kind', parseKind, report) ?? 'file';
  const contentType = readText(entry, pointer, 'content_type', parseMediaType, report);
  const size = readSize(entry['size'] ?? null, pointer, report);
  return path === null ? null : { path, kind, contentType, size, digest };
}

/**
 * Reads an optional string. Returns null if it is missing, `null` or invalid; the last of these is reported.
 */
function readText<T>(
  object: JsonObject,
  pointer: string,
  key: string,
  parse: (text: string) => FieldVerdict<T>,
  report: ReportFinding,
): T | null {
  const value = object[key];
  if (value === undefined || (value === null && key !== 'created')) return null;
  if (typeof value !== 'string')
    return report('wrong_type', `${pointer}/${key}`, `${key} must be a string, but is ${nameOfType(value)}`);
  const verdict = parse(value);
  return verdict.ok
    ? verdict.value
    : report(
        `invalid_${key}`,
        `${pointer}/${key}`,
        `${key} ${JSON.stringify(shortened(value))} ${verdict.reason}`,
      );
}

function readSize(size: JsonValue, pointer: string, report: ReportFinding): number | null {
  if (size === null) return null;
  if (typeof size === 'number' && Number.isSafeInteger(size) && size >= 0) return size;
  const found = typeof size === 'number' ? String(size) : nameOfType(size);
  return report(
    'invalid_size',
    `${pointer}/size`,
    `size must be a whole number of bytes from 0 on, but is ${found}`,
  );
}

function pathVerdict(text: string): FieldVerdict<RelativePath> {
  if (text.split('/').length > maxPathSegments)
    return { ok: false, reason: `has more than ${maxPathSegments} segments` };
  const verdict = parseRelativePath(text);
  return verdict.ok ? { ok: true, value: verdict.path } : verdict;
}

function filePathVerdict(text: string): FieldVerdict<RelativePath> {
  if (foldedPath(text) === manifestName)
    return { ok: false, reason: 'is the manifest itself, which is not published; leave it out' };
  if (foldedPath(text) === signatureName)
    return { ok: false, reason: 'is the signature of the manifest; leave it out' };
  return pathVerdict(text);
}

function digestVerdict(text: string): FieldVerdict<Digest> {
  const digest = parseDigest(text);
  return digest === undefined
    ? { ok: false, reason: 'is not "sha256:" and 64 lower-case hexadecimal digits' }
    : { ok: true, value: digest };
}

function nameOfType(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function shortened(text: string): string {
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

/** The value of a field, or the reason why it is invalid. */
type FieldVerdict<T> = { ok: true; value: T } | { ok: false; reason: string };

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const mediaType = new RegExp(
  `^${token}/${token}(?:[ \\t]*;[ \\t]*${token}=(?:${token}|"(?:[^"\\\\\\x00-\\x1f\\x7f]|\\\\[\\x20-\\x7e])*"))*$`,
);
const kindForm = /^[a-z][a-z0-9_]{0,31}$/;
const maxMediaTypeLength = 255;

/** Parses a media type (RFC 9110) with a type, a subtype and parameters. */
export function parseMediaType(text: string): FieldVerdict<string> {
  if (text.length > maxMediaTypeLength) return refuse(`is longer than ${maxMediaTypeLength} characters`);
  return mediaType.test(text)
    ? { ok: true, value: text }
    : refuse('is not a media type, like application/json');
}

function parseKind(text: string): FieldVerdict<string> {
  if (kindForm.test(text)) return { ok: true, value: text };
  return refuse('is not a kind: a lower-case letter, then up to 31 lower-case letters, digits or "_"');
}

/** Formats a time as in `20261120T010203Z`. */
function compactTimestamp(instant: Instant): string {
  return `${instant.slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

function refuse(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}
