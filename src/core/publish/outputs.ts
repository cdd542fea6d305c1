import { readFileSync } from 'node:fs';
import mime from 'mime';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import { type DigestedFile, type ReadProgress, withDigests } from '../bundle/validate-bundle.ts';
import type { GeneratedMetadata, OutputRecord } from '../catalog/catalog.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { Digest } from '../lib/digest.ts';
import { WaybillError } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import type { Secrets } from '../lib/secrets.ts';
import {
  chooseOutputs,
  type ChosenOutputs,
  type GeneratedFile,
  type Generator,
  nameConflictError,
  type PublicationFacts,
  type Sibling,
} from '../outputs/generator.ts';
import { parseSecretKeyFile, type SecretKey } from '../signing/secret-key.ts';
import { sizeAndDigest } from '../storage/body.ts';
import type { Owner } from '../storage/identity.ts';
import type { Body } from '../storage/storage.ts';
import type { PlannedOutput } from './plan.ts';

export interface OutputsOptions {
  owner: Owner;
  destination: Pick<DestinationConfig, 'outputs' | 'publicBaseUrl' | 'cacheControl' | 'mapping'> &
    Partial<Pick<DestinationConfig, 'rootIndex' | 'releases'>>;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /**
   * The current records. A generated output is not generated again if its generator, version and inputs are
   * the same as in its record.
   */
  recorded: readonly OutputRecord[];
  /** The key to sign outputs with. Default: do not sign. */
  signing?: Signing | null;
  /** Returns the published file of a record, or null if its size is not the recorded one. */
  published?: (record: OutputRecord) => Promise<Body | null>;
  /** Called with progress while files without a declared digest are read. */
  reading?: ReadProgress | undefined;
}

/**
 * Plans a bundle's outputs at a destination: the files it lists, and the generated outputs that are enabled,
 * sorted by path. Only reads a file to compute a digest that was not declared, or to generate an output that
 * has not been recorded yet.
 *
 * Throws `invalid_bundle`, before reading anything, if a generated output has the same name as a listed file;
 * `body_mismatch` if a file does not match the manifest; or the source's error.
 */
export async function planOutputs(bundle: SourceBundle, options: OutputsOptions): Promise<PlannedOutput[]> {
  const { chosen, conflicts } = chooseOutputs(bundle, {
    id: options.owner.destinationId,
    outputs: options.destination.outputs,
  });
  if (conflicts.length > 0) throw nameConflictError(`"${bundle.path}"`, conflicts);
  const digested = await withDigests(bundle, options.reading);
  const metadata = sharedMetadata(options.destination.cacheControl);
  const planned = digested.files.map((file) => plannedFile(digested, file, metadata, options));
  const recorded = new Map<string, OutputRecord>();
  const wanted = await wantedGenerators(chosen);
  if (wanted.length > 0) for (const record of options.recorded) recorded.set(record.path, record);
  const siblings: Sibling[] = [];
  for (const generator of wanted) {
    const input = {
      bundle: digested,
      siblings: [...siblings],
      hasIndex: chosen.index,
      hasChecksums: chosen.checksums,
      rootIndexHref: rootIndexHref(options),
      signing: options.signing ?? null,
    };
    for (const file of await generator.describe(input)) {
      const output = await plannedGenerated(digested, generator, file, recorded.get(file.path), options);
      siblings.push(output);
      planned.push(output);
    }
  }
  return planned.sort((a, b) => compareCodeUnits(a.path, b.path));
}

/** Generators are imported on demand, because they pull in a template engine. */
async function wantedGenerators(chosen: ChosenOutputs): Promise<Generator[]> {
  if (!Object.values(chosen).includes(true)) return [];
  const { generators } = await import('../outputs/generators.ts');
  return generators.filter(({ setting }) => chosen[setting]);
}

/** Returns a function that builds the metadata of listed files, with one shared object per content type. */
function sharedMetadata(cacheControl: string | null): (contentType: string) => GeneratedMetadata {
  const known = new Map<string, GeneratedMetadata>();
  return (contentType) => {
    let metadata = known.get(contentType);
    if (metadata === undefined) {
      metadata = { contentType, generator: null, cacheControl };
      known.set(contentType, metadata);
    }
    return metadata;
  };
}

function plannedFile(
  { identity: source }: SourceBundle,
  { path, kind, digest, size, body, contentType }: DigestedFile,
  metadata: (contentType: string) => GeneratedMetadata,
  options: OutputsOptions,
): PlannedOutput {
  const { owner } = options;
  const generated = metadata(contentType ?? contentTypeOf(path));
  return { path, kind, digest, size, body, generated, url: urlOf(path, options), source, owner };
}

async function plannedGenerated(
  bundle: SourceBundle,
  { name, version }: Generator,
  file: GeneratedFile,
  record: OutputRecord | undefined,
  options: OutputsOptions,
): Promise<PlannedOutput> {
  const { path, kind, contentType, inputs } = file;
  const before = record?.generated.generator ?? null;
  const isRecorded = before?.name === name && before.version === version && before.inputs === inputs;
  const reusedBody = record !== undefined && isRecorded ? await keptBody(file, record, options) : null;
  const { digest, size } = reusedBody ?? (await sizeAndDigest(file.open()));
  const body = reusedBody?.body ?? { size, open: () => file.open() };
  const { cacheControl } = options.destination;
  const metadata = (): GeneratedMetadata => ({
    contentType,
    generator: { name, version, inputs },
    cacheControl,
  });
  const output = plannedFile(bundle, { path, kind, digest, size, body, contentType }, metadata, options);
  return file.includesRunId === true ? { ...output, includesRunId: true } : output;
}

/**
 * Returns the content of a generated output that is already published, or null if it must be generated again.
 */
async function keptBody(
  file: GeneratedFile,
  record: OutputRecord,
  { published }: OutputsOptions,
): Promise<{ digest: Digest; size: number; body: Body | null } | null> {
  if (file.includesRunId !== true) return { ...record, body: null };
  const body = (await published?.(record)) ?? null;
  return body === null ? null : { ...record, body };
}

/**
 * Returns the relative URL of the list of bundles. A release has no fixed distance from it, because readers
 * can reach a release under more than one path.
 */
function rootIndexHref({ destination, destinationPath }: OutputsOptions): string | null {
  const { rootIndex = false, releases = null } = destination;
  if (!rootIndex || releases !== null || destinationPath === '.') return null;
  return `${'../'.repeat(destinationPath.split('/').length)}index.html`;
}

function urlOf(
  path: string,
  { destination: { publicBaseUrl }, destinationPath }: OutputsOptions,
): string | null {
  if (publicBaseUrl === null) return null;
  const whole = destinationPath === '.' ? path : `${destinationPath}/${path}`;
  return publicBaseUrl + whole.split('/').map(encodeURIComponent).join('/');
}

function contentTypeOf(path: string): string {
  const type = mime.getType(path) ?? 'application/octet-stream';
  return type.startsWith('text/') ? `${type}; charset=utf-8` : type;
}

interface Signing extends PublicationFacts {
  secret: SecretKey;
}

/**
 * Returns the key from `outputs.signature` and the facts that go into the signed statement, or null if the
 * destination does not sign its outputs. Throws `secrets_invalid` if the secret is missing, and
 * `signing_key_invalid` if it is not a private key or needs a passphrase. The key never appears in an error.
 */
export async function signingOf(
  { secrets }: { secrets: Secrets },
  { owner, destination }: { owner: Owner; destination: DestinationConfig },
  { runId = null, publisher = null }: Partial<Pick<PublicationFacts, 'runId' | 'publisher'>>,
): Promise<Signing | null> {
  const { signature = null } = destination.outputs;
  if (signature === null) return null;
  const secret = await readSigningKey(signature.keyEnv, secrets, owner.destinationId);
  return { secret, owner, runId, publisher, version: productVersion() };
}

/** Returns the key that the outputs of a destination are signed with. Throws the errors of `signingOf`. */
export async function readSigningKey(
  keyEnv: string,
  secrets: Secrets,
  destinationId: string,
): Promise<SecretKey> {
  const text = secrets.require(keyEnv, `destination "${destinationId}"`);
  const parsed = parseSecretKeyFile(Buffer.from(`${text.trimEnd()}\n`));
  if (!parsed.ok) throw invalid(keyEnv, parsed.reason);
  if (parsed.value.needsPassphrase) throw invalid(keyEnv, 'it needs a passphrase');
  const opened = await parsed.value.open('');
  if (!opened.ok) throw invalid(keyEnv, opened.reason);
  return opened.value;
}

function invalid(name: string, reason: string): WaybillError {
  return new WaybillError('signing_key_invalid', `the key in ${name} cannot be used: ${reason}`, {
    hint: 'store the file there that waybill key new --no-passphrase writes',
  });
}

let version: string | undefined;

function productVersion(): string {
  version ??= (
    JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }
  ).version;
  return version;
}
