import { type Catalog, isRootIndexOutput, type OutputRecord } from '../catalog/catalog.ts';
import { readState, requireCatalog } from '../catalog/catalog-store.ts';
import { displayPath, requireManagedPaths } from '../catalog/managed-paths.ts';
import { isNonFile, observeEach } from '../catalog/settle-interrupted.ts';
import { type Digest, parseDigest } from '../lib/digest.ts';
import { type ErrorRecord, errorRecord, hasCode } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { attestationName, checksumsName, checksumsSignatureName } from '../outputs/generator.ts';
import { predicateType, statementType } from '../outputs/signature.ts';
import { sameSource } from '../publish/decision/records.ts';
import { openEnvelope } from '../signing/dsse.ts';
import { maxFileBytes } from '../signing/minisign-text.ts';
import type { PublicKey } from '../signing/public-key.ts';
import { parseSignature, signatureFault } from '../signing/signature.ts';
import { readAll } from '../storage/body.ts';
import { type Owner, sameOwner, type SourceIdentity } from '../storage/identity.ts';
import { listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';

/** A file at a bundle path that is not what the key signed. */
interface Distrusted {
  /** For the catalog, this is `.publisher.json`. */
  path: string;
  reason: string;
}

export interface SignatureReport {
  /** The managed bundle path; `.` for the root. */
  destinationPath: string;
  /** How many files were read and compared. */
  verified: number;
  /** How many bytes were read. */
  bytes: number;
  distrusted: Distrusted[];
  /** The reason why this bundle path could not be verified; null otherwise. */
  error: ErrorRecord | null;
}

/** Large enough for a signed list of half a million names. */
const maxListBytes = 256 * 2 ** 20;

/**
 * Checks every bundle path of a destination against a key: the checksums and their signature, the statement,
 * all files, and the catalog. You need neither the configuration nor the daemon for this. The root index is
 * not signed, so it is skipped. Never writes. Throws the same errors as `requireManagedPaths`.
 */
export async function verifySignatures(
  root: Storage,
  key: PublicKey,
  { concurrency, onBytes }: { concurrency: number; onBytes?: (count: number) => void },
): Promise<SignatureReport[]> {
  const reports: SignatureReport[] = [];
  for (const path of await requireManagedPaths(root)) {
    const report = await verifyPath(subdirectory(root, path), key, { concurrency, onBytes }).catch(
      (error: unknown) => ({ verified: 0, bytes: 0, distrusted: [], error: errorRecord(error) }),
    );
    if (report !== null) reports.push({ destinationPath: displayPath(path), ...report });
  }
  return reports;
}

interface FileReadOptions {
  concurrency: number;
  onBytes: ((count: number) => void) | undefined;
}

async function verifyPath(
  storage: Storage,
  key: PublicKey,
  reading: FileReadOptions,
): Promise<Omit<SignatureReport, 'destinationPath'> | null> {
  const catalog = requireCatalog((await readState(storage)).state);
  const { outputs } = catalog;
  if (outputs.length > 0 && outputs.every(isRootIndexOutput)) return null;
  const distrusted: Distrusted[] = [];
  const distrust = (path: string, reason: string): void => void distrusted.push({ path, reason });
  const signed = await signedDigests(storage, key, distrust);
  const statement = await statementOf(storage, key, distrust);
  if (statement !== null) {
    compareSubjects(statement.digests, signed, distrust);
    for (const [path, digest] of statement.digests) if (!signed.has(path)) signed.set(path, digest);
  }
  const read = await compareFiles(storage, signed, reading, distrust);
  // Without a list that can be trusted, there would be the same problem with each output.
  if (signed.size > 0) compareCatalog(catalog, signed, statement, distrust);
  distrusted.sort((a, b) => compareCodeUnits(a.path, b.path));
  return { ...read, distrusted, error: null };
}

/** Returns the digests in `SHA256SUMS`. If the key did not sign the file, there are none. */
async function signedDigests(
  storage: Storage,
  key: PublicKey,
  distrust: (path: string, reason: string) => void,
): Promise<Map<string, Digest>> {
  const sums = await contentOf(storage, checksumsName, maxListBytes, distrust);
  const file = await contentOf(storage, checksumsSignatureName, maxFileBytes, distrust);
  if (sums === null || file === null) return new Map();
  const parsed = parseSignature(file);
  if (!parsed.ok) {
    distrust(checksumsSignatureName, `is not a signature of minisign: ${parsed.reason}`);
    return new Map();
  }
  const { keyId, trustedComment } = parsed.value;
  if (keyId !== key.id) {
    distrust(checksumsSignatureName, `is by key ${keyId}, and not by key ${key.id}`);
    return new Map();
  }
  const fault = signatureFault(sums, parsed.value, key);
  if (fault !== null) {
    distrust(checksumsName, `does not fit its signature ${checksumsSignatureName} (${fault})`);
    return new Map();
  }
  if (!trustedComment.includes(`file:${checksumsName}\t`))
    distrust(checksumsSignatureName, 'was made for another file');
  return parseSums(sums, distrust);
}

function parseSums(sums: Buffer, distrust: (path: string, reason: string) => void): Map<string, Digest> {
  const digests = new Map<string, Digest>();
  for (const line of sums.toString().split('\n').slice(0, -1)) {
    const [, hex = '', path = ''] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? [];
    const digest = parseDigest(`sha256:${hex}`);
    if (digest === undefined) distrust(checksumsName, `has a line that is not a digest and a path`);
    else digests.set(path, digest);
  }
  return digests;
}

interface Statement {
  digests: Map<string, Digest>;
  owner: Owner;
  source: SourceIdentity;
  created: string;
}

async function statementOf(
  storage: Storage,
  key: PublicKey,
  distrust: (path: string, reason: string) => void,
): Promise<Statement | null> {
  const bytes = await contentOf(storage, attestationName, maxListBytes, distrust);
  if (bytes === null) return null;
  const opened = openEnvelope(bytes.toString(), statementType, key);
  if (!opened.ok) {
    distrust(attestationName, `is not trusted: ${opened.reason}`);
    return null;
  }
  const document = JSON.parse(opened.value.toString()) as {
    predicateType: unknown;
    subject: { name: string; digest: { sha256: string } }[];
    predicate: { pipeline: string; destination: string; source: SourceIdentity; created: string };
  };
  if (document.predicateType !== predicateType) {
    distrust(attestationName, 'is a statement of another kind');
    return null;
  }
  const { pipeline, destination, source, created } = document.predicate;
  const digests = new Map(
    document.subject.map(({ name, digest }) => [name, `sha256:${digest.sha256}` as Digest]),
  );
  return { digests, owner: { pipelineId: pipeline, destinationId: destination }, source, created };
}

/**
 * Makes sure that the two signed lists are the same, because one of them could be from another publication.
 */
function compareSubjects(
  subjects: ReadonlyMap<string, Digest>,
  signed: ReadonlyMap<string, Digest>,
  distrust: (path: string, reason: string) => void,
): void {
  if (signed.size === 0) return;
  const isOther = [...signed].some(([path, digest]) => subjects.get(path) !== digest);
  const extra = [...subjects.keys()].filter((path) => !signed.has(path));
  const isUsual = extra.every((path) => path === checksumsName || path === checksumsSignatureName);
  if (isOther || !isUsual) distrust(attestationName, `names other outputs than ${checksumsName}`);
}

async function compareFiles(
  storage: Storage,
  signed: ReadonlyMap<string, Digest>,
  { concurrency, onBytes }: FileReadOptions,
  distrust: (path: string, reason: string) => void,
): Promise<{ verified: number; bytes: number }> {
  let bytes = 0;
  const files = Array.from(signed, ([path, digest]) => ({ path, digest }));
  const onNonFile = ({ path }: { path: string }): void => distrust(path, 'is not a file');
  await observeEach(storage, files, { concurrency, onBytes, onNonFile }, ({ path, digest }, actual) => {
    bytes += actual?.size ?? 0;
    if (actual === null) distrust(path, 'is missing');
    else if (actual.digest !== digest) distrust(path, 'differs from the signed content');
  });
  return { verified: signed.size, bytes };
}

/** Makes sure that the signed outputs are in the catalog, and that nothing else is. */
function compareCatalog(
  { outputs, bundles }: Pick<Catalog, 'outputs' | 'bundles'>,
  signed: ReadonlyMap<string, Digest>,
  statement: Statement | null,
  distrust: (path: string, reason: string) => void,
): void {
  const records = new Map<string, OutputRecord>(outputs.map((record) => [record.path, record]));
  for (const [path, digest] of signed) {
    const record = records.get(path);
    if (record === undefined) distrust(catalogName, `does not record "${path}", which was signed`);
    else if (record.digest !== digest) distrust(catalogName, `records "${path}" with another digest`);
  }
  for (const { path, owner, source } of outputs) {
    if (path !== attestationName && !signed.has(path))
      distrust(path, 'is recorded in the catalog and was not signed');
    if (statement !== null && !isSameOrigin({ owner, source }, statement))
      distrust(catalogName, `records "${path}" with another owner or source than the statement`);
  }
  const isOther = bundles.some(
    (bundle) =>
      statement !== null && (!isSameOrigin(bundle, statement) || bundle.created !== statement.created),
  );
  if (isOther) distrust(catalogName, 'records another bundle than the statement');
}

function isSameOrigin(
  { owner, source }: Pick<OutputRecord, 'owner' | 'source'>,
  statement: Statement,
): boolean {
  return sameOwner(owner, statement.owner) && sameSource(source, statement.source);
}

const catalogName = '.publisher.json';

async function contentOf(
  storage: Storage,
  path: string,
  maxBytes: number,
  distrust: (path: string, reason: string) => void,
): Promise<Buffer | null> {
  const key = listedKey(path);
  try {
    return await readAll(storage, key, maxBytes);
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) distrust(path, 'is missing');
    else if (await isNonFile(storage, key)) distrust(path, 'is not a file');
    else throw error;
    return null;
  }
}
