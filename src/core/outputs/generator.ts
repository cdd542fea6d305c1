import { invalidBundle, type SourceBundle } from '../bundle/source-bundle.ts';
import type { DigestedBundle } from '../bundle/validate-bundle.ts';
import type { DestinationConfig, GeneratedOutputs } from '../config/config.ts';
import { type Digest, digestOf, hexOf } from '../lib/digest.ts';
import { type Finding, finding, type WaybillError } from '../lib/errors.ts';
import { ancestorsOf, compareCodeUnits, parseRelativePath, type RelativePath } from '../lib/paths.ts';
import { foldedPath } from '../lib/text.ts';
import type { PublisherIdentity } from '../publishers/published-by.ts';
import { sceneMapKind } from '../scene-map/check-in-bundle.ts';
import type { SecretKey } from '../signing/secret-key.ts';
import type { Owner } from '../storage/identity.ts';
import { nameOf } from '../storage/key.ts';

/*
 * The interface of a generator, which makes new outputs out of a bundle. All of them are listed in
 * `generators.ts`.
 */

export interface GeneratorInput {
  bundle: DigestedBundle;
  /** The outputs that other generators have made before this one. */
  siblings: readonly Sibling[];
  /** Whether a page that lists the bundle is generated, too. */
  hasIndex: boolean;
  /** Whether `SHA256SUMS` is generated, too. */
  hasChecksums: boolean;
  /** The URL of the destination's list of bundles, relative to the bundle; null if there is none. */
  rootIndexHref: string | null;
  /**
   * The key to sign with, and what to say about the publication; null if the destination does not sign its
   * outputs.
   */
  signing: (PublicationFacts & { secret: SecretKey }) | null;
}

/** The facts about a publication that go into a signed statement. */
export interface PublicationFacts {
  owner: Owner;
  /** null if there is no daemon. */
  runId: string | null;
  /** null for schedules, watched sources and commands. */
  publisher: PublisherIdentity | null;
  /** The version of waybill. */
  version: string;
}

/** Another generated output, once it is final. */
export interface Sibling {
  path: RelativePath;
  kind: string;
  digest: Digest;
  size: number;
}

/** A generated output. Nothing happens until `open` is called. */
export interface GeneratedFile {
  path: RelativePath;
  kind: string;
  contentType: string;
  /** A digest of everything the content depends on. If it is the same, the content must be, too. */
  inputs: Digest;
  /**
   * Whether the content also contains the id of the run, even though that is not one of the inputs. The
   * published file is kept for as long as the inputs stay the same.
   */
  includesRunId?: boolean;
  /** Streams the content. It is the same every time. */
  open(): AsyncIterable<Uint8Array>;
}

/**
 * Makes one kind of output. If you change the code in a way that changes the content, increment `version`, so
 * that published outputs are generated again. To add a generator, list it in `generators.ts` and add a
 * setting to turn it on.
 */
export interface Generator {
  name: string;
  version: number;
  setting: keyof GeneratedOutputs;
  /** Returns the outputs for this bundle, or none if the generator has nothing to do. */
  describe(input: GeneratorInput): Promise<GeneratedFile[]>;
}

/**
 * Returns a digest of the inputs. Do not pass objects, only lists and scalars: the JSON of an object depends
 * on the order of its keys.
 */
export function digestInputs(...inputs: readonly unknown[]): Digest {
  return digestOf(JSON.stringify(inputs));
}

/** Generates the content when it is first needed and keeps it in memory. Only for small content. */
export function lazyBytes(make: () => string): () => AsyncIterable<Uint8Array> {
  let bytes: Buffer | undefined;
  return async function* () {
    bytes ??= Buffer.from(make());
    if (bytes.byteLength > 0) yield bytes;
  };
}

/**
 * Returns the content of `SHA256SUMS`. It lists the files of the bundle, and all outputs generated so far.
 */
export function checksumsText({ bundle, siblings }: Pick<GeneratorInput, 'bundle' | 'siblings'>): string {
  return [...bundle.files, ...siblings.filter(({ path }) => path !== checksumsName)]
    .map(({ path, digest }): [string, string] => [path, hexOf(digest)])
    .sort(([a], [b]) => compareCodeUnits(a, b))
    .map(([path, hex]) => `${hex}  ${path}\n`)
    .join('');
}

/*
 * The names of generated outputs. They depend only on the manifest. If one of them is also the name of a
 * file, we can refuse the bundle without reading its files: in the API before it responds with 202, in
 * `validate`, and in each run.
 */

/** A bundle, as far as its manifest describes it. */
interface NamedBundle extends Pick<SourceBundle, 'path' | 'name'> {
  files: readonly { path: RelativePath; kind: string }[];
}

type Output = keyof GeneratedOutputs;

/**
 * The setting of each output, and its names for a bundle. If two outputs have the same name, the first one
 * gets it. The other one is left out if its setting is `auto`.
 */
const named: Record<Output, { setting: string; names: (bundle: NamedBundle) => RelativePath[] }> = {
  archive: { setting: 'outputs.archive', names: (bundle) => [archiveName(bundle)] },
  sceneMapPage: {
    setting: 'outputs.scene_map_page',
    names: ({ files }) =>
      files.filter(({ kind }) => kind === sceneMapKind).map(({ path }) => sceneMapPageName(path)),
  },
  checksums: { setting: 'outputs.checksums', names: () => [checksumsName] },
  index: { setting: 'outputs.index', names: () => [indexName] },
  signature: { setting: 'outputs.signature', names: () => [checksumsSignatureName, attestationName] },
};
const allOutputs = Object.keys(named) as Output[];

export const checksumsName = 'SHA256SUMS' as RelativePath;
export const checksumsSignatureName = 'SHA256SUMS.minisig' as RelativePath;
export const attestationName = 'attestation.json' as RelativePath;
export const indexName = 'index.html' as RelativePath;

/**
 * Returns the name for a bundle's archive. This is the last segment of the bundle's path or, at the root, of
 * its name.
 */
export function archiveName({ path, name }: Pick<NamedBundle, 'path' | 'name'>): RelativePath {
  const verdict = parseRelativePath(`${nameOf(path === '.' ? (name ?? 'bundle') : path)}.tar.gz`);
  return verdict.ok ? verdict.path : ('bundle.tar.gz' as RelativePath);
}

/** Returns the name of the page for a scene map, such as `maps/scenes.html` for `maps/scenes.json`. */
export function sceneMapPageName(path: RelativePath): RelativePath {
  return path.replace(/(\.json)?$/i, '.html') as RelativePath;
}

/** Whether to generate each of the outputs for a bundle. There is no `auto` anymore. */
export type ChosenOutputs = Record<Output, boolean>;

/**
 * Decides which outputs a destination generates for a bundle. `taken` has an error for each output whose name
 * is already the name of a file in the bundle, or of another output.
 */
export function chooseOutputs(
  bundle: NamedBundle,
  { id, outputs }: Pick<DestinationConfig, 'id' | 'outputs'>,
): { chosen: ChosenOutputs; conflicts: Finding[] } {
  const chosen = Object.fromEntries(allOutputs.map((output) => [output, false])) as ChosenOutputs;
  const wanted = allOutputs.filter((output) => isWanted(outputs, output));
  const conflicts: Finding[] = [];
  if (wanted.length === 0) return { chosen, conflicts };
  const present = new ExistingNames(bundle.files.map(({ path }) => path));
  for (const output of wanted) {
    const names = named[output].names(bundle);
    if (outputs[output] === 'auto' && names.some((name) => present.conflict(name) !== undefined)) continue;
    chosen[output] = true;
    for (const name of names) {
      const conflict = present.conflict(name);
      if (conflict === undefined) present.add(name, output);
      else conflicts.push(nameConflict(id, name, output, conflict));
    }
  }
  return { chosen, conflicts };
}

/** Reports whether an output is wanted. The signature signs the checksums, so it requires them as well. */
function isWanted(outputs: GeneratedOutputs, output: Output): boolean {
  const signs = (outputs.signature ?? null) !== null;
  if (output === 'signature' || output === 'checksums') return signs || outputs[output] === true;
  return outputs[output] !== false;
}

/**
 * Returns a single error for all outputs whose names are taken. `name` is the bundle, as it appears in the
 * message.
 */
export function nameConflictError(name: string, conflicts: readonly Finding[]): WaybillError {
  return invalidBundle(name, conflicts, {
    hint: 'change the setting named above, or rename the file in the bundle',
  });
}

interface Conflict {
  path: string;
  /** null if this is a file in the bundle. */
  output: Output | null;
}

/**
 * Finds paths that get in the way of a name, because they are the same except for case, or because they are
 * below it.
 */
class ExistingNames {
  readonly #files = new Map<string, Conflict>();

  constructor(paths: readonly RelativePath[]) {
    for (const path of paths) this.add(path, null);
  }

  add(path: RelativePath, output: Output | null): void {
    const folded = foldedPath(path);
    this.#files.set(folded, { path, output });
    for (const directory of ancestorsOf(folded))
      if (!this.#files.has(directory)) this.#files.set(directory, { path, output });
  }

  conflict(name: RelativePath): Conflict | undefined {
    return this.#files.get(foldedPath(name));
  }
}

function nameConflict(
  id: string,
  name: RelativePath,
  output: Output,
  { path, output: other }: Conflict,
): Finding {
  const { setting } = named[output];
  const reason =
    other === null
      ? `destination "${id}" generates "${name}" (${setting}), but the bundle has "${path}"`
      : `destination "${id}" generates "${name}" twice (${named[other].setting} and ${setting})`;
  const value = output === 'index' ? 'auto or false' : 'false';
  const remedy = other === null ? ', or remove the file from the bundle' : '';
  const change = output === 'signature' ? `remove ${setting}` : `set ${setting} to ${value}`;
  const message = `${reason}; ${change} there${remedy}`;
  return finding('error', 'generated_path_taken', message, { file: path });
}
