import { manifestText } from '../../bundle/pack/make-manifest.ts';
import type { BundleFile, SourceBundle } from '../../bundle/source-bundle.ts';
import type { OutputRecord } from '../../catalog/catalog.ts';
import type { PipelineConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { digestOf, finishDigest, startDigest } from '../../lib/digest.ts';
import { type Finding, finding, firstFindings, hasCode, WaybillError } from '../../lib/errors.ts';
import { compareCodeUnits, parseRelativePath, pathWithin, type RelativePath } from '../../lib/paths.ts';
import { archiveName } from '../../outputs/generator.ts';
import { bytesBody, storedBody } from '../../storage/body.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import { keyOf } from '../../storage/key.ts';
import { sizesOf } from '../../storage/sizes.ts';
import type { Body } from '../../storage/storage.ts';
import { publishBundles } from '../publish.ts';
import type { PublishRequest } from '../publish-request.ts';
import type { PipelineResult } from '../results/result.ts';
import { bundleRecords, type PublishedContent, recordedBundle } from './read-published.ts';

/*
 * Publishes the content of one destination to another, without going back to the pipeline's source.
 */

interface Promotion {
  /** The name of the destination to copy from, for messages. */
  from: string;
  published: readonly PublishedContent[];
  /** The owner whose outputs are promoted. */
  owner: Owner;
  /** The id of the destination to publish to. */
  to: string;
  /**
   * Whether to publish each bundle under the path it has at the first destination. Otherwise, it gets the
   * path from the pipeline's source, as if it had been published from there.
   */
  keepsPaths: boolean;
}

/**
 * Publishes one owner's outputs to another destination of the same pipeline. Bundles keep their identity, so
 * a later run from the source sees nothing to do. Each file is checked against the catalog as it is read. If
 * the target fails, the result says so.
 *
 * Throws `not_published` if the owner has no files to promote, `verification_failed` if a file is missing or
 * does not have its recorded size, or the storage's error. Nothing is published then.
 */
export async function promote(
  context: CoreContext,
  pipeline: PipelineConfig,
  promotion: Promotion,
  request: PublishRequest,
): Promise<PipelineResult> {
  const { from, published, owner, to } = promotion;
  const bundles: SourceBundle[] = [];
  const damaged: Finding[] = [];
  for (const content of published) {
    const bundle = publishedBundle(pipeline, promotion, content);
    if (bundle === null) continue;
    for (const damage of await damageIn(content, bundle)) damaged.push(damage);
    bundles.push(bundle);
  }
  if (damaged.length > 0) throw unlikeCatalog(from, damaged);
  if (bundles.length === 0)
    throw new WaybillError(
      'not_published',
      `${from} has no files that ${owner.pipelineId}/${owner.destinationId} published`,
      { hint: `publish to ${from} first` },
    );
  return publishBundles(context, pipeline, bundles, { ...request, destinationIds: [to] });
}

/** Turns the owner's published files into a bundle, without reading them. Returns null if there are none. */
function publishedBundle(
  { autoManifest }: PipelineConfig,
  { from, owner, keepsPaths }: Omit<Promotion, 'published' | 'to'>,
  content: PublishedContent,
): SourceBundle | null {
  const records = bundleRecords(content.catalog, owner);
  const [first] = records;
  if (first === undefined) return null;
  const { source, created } = recordedBundle(content, owner, first);
  const path = keepsPaths ? content.destinationPath : source.path;
  const made = autoManifest === undefined ? null : manifestName(owner);
  const name = path === '.' ? (archivedName(content, owner) ?? made) : null;
  const files = records
    .map((record) => publishedFile(from, content, record))
    .sort((a, b) => compareCodeUnits(a.path, b.path));
  // The original manifest is not published. If that one was generated from a listing, this one is identical
  // to it.
  const manifest = Buffer.from(manifestText(records, { created, name: name ?? undefined }));
  return {
    identity: source,
    path,
    name,
    created,
    files,
    warnings: [],
    manifestFile: { digest: digestOf(manifest), body: bytesBody(manifest) },
  };
}

/**
 * Returns the name of a bundle at the source root. The name is taken from the bundle's archive; if no archive
 * was published, returns null.
 */
function archivedName({ catalog }: PublishedContent, owner: Owner): RelativePath | null {
  const archive = catalog.outputs.find(
    (record) => record.generated.generator?.name === 'archive' && sameOwner(record.owner, owner),
  );
  const name = archive?.path.replace(/\.tar\.gz$/, '') as RelativePath | undefined;
  const isKnown =
    name !== undefined && name !== 'bundle' && archiveName({ path: '.', name }) === archive?.path;
  return isKnown ? name : null;
}

/** Returns the name that goes into a generated manifest. */
function manifestName({ pipelineId }: Owner): RelativePath | null {
  const verdict = parseRelativePath(pipelineId);
  return verdict.ok ? verdict.path : null;
}

function publishedFile(from: string, content: PublishedContent, record: OutputRecord): BundleFile {
  const { path, kind, digest, size, generated } = record;
  return {
    path,
    kind,
    contentType: generated.contentType,
    size,
    digest,
    body: verifiedBody(from, content, record),
  };
}

/**
 * Returns a body that reads a published file. If the file does not match its record, reading fails with
 * `verification_failed`, no matter who reads it.
 */
function verifiedBody(
  from: string,
  { destinationPath, storage }: PublishedContent,
  { path, digest, size }: OutputRecord,
): Body {
  const stored = storedBody(storage, { key: keyOf(path), size });
  const { placeOf } = storage;
  const refuse = (code: string, message: string): WaybillError =>
    unlikeCatalog(from, [finding('error', code, message, { file: pathWithin(destinationPath, path) })]);
  return {
    size,
    origin: placeOf && (() => placeOf(keyOf(path))),
    async *open() {
      const hash = startDigest();
      let read = 0;
      try {
        for await (const chunk of stored.open()) {
          read += chunk.byteLength;
          if (read > size) throw refuse('size_mismatch', wrongSize({ digest, size }, 'more'));
          hash.update(chunk);
          yield chunk;
        }
      } catch (error) {
        if (!hasCode(error, 'storage_not_found')) throw error;
        throw refuse('file_missing', missing({ digest }));
      }
      if (read !== size) throw refuse('size_mismatch', wrongSize({ digest, size }, read));
      const found = finishDigest(hash);
      if (found !== digest)
        throw refuse('digest_mismatch', `has the digest ${found}, and its catalog records ${digest}`);
    },
  };
}

/** Finds files that are missing or have the wrong size, using a listing. */
async function damageIn(
  { destinationPath, storage }: PublishedContent,
  { files }: SourceBundle,
): Promise<Finding[]> {
  const sizes = await sizesOf(
    storage,
    files.map(({ path }) => path),
  );
  return files.flatMap(({ path, size, digest }) => {
    const found = sizes.get(path);
    const file = pathWithin(destinationPath, path);
    if (found === undefined) return [finding('error', 'file_missing', missing({ digest }), { file })];
    if (found === size) return [];
    return [finding('error', 'size_mismatch', wrongSize({ digest, size }, found), { file })];
  });
}

const missing = ({ digest }: { digest: string | null }): string =>
  `is missing, and its catalog records ${String(digest)}`;

const wrongSize = (
  { digest, size }: { digest: string | null; size: number },
  found: number | 'more',
): string =>
  `has ${found === 'more' ? `more than ${size}` : found} bytes, and its catalog records ${size} bytes of ${String(digest)}`;

function unlikeCatalog(from: string, findings: readonly Finding[]): WaybillError {
  const [first] = findings;
  const what = first === undefined ? '' : `"${first.file ?? ''}" ${first.message}`;
  const more = findings.length > 1 ? ` (and ${findings.length - 1} more)` : '';
  return new WaybillError(
    'verification_failed',
    `${from} differs from its catalog, so it is not promoted: ${what}${more}`,
    {
      hint: `if ${from} is being published to, promote again afterwards; otherwise restore it with waybill verify --repair, or publish to it again`,
      // If there is just one finding, the message already contains it.
      findings: findings.length > 1 ? firstFindings(findings) : [],
    },
  );
}
