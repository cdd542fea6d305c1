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
 * The contract for generators, which create outputs from a bundle. `generators.ts` lists them.
 */

export interface GeneratorInput {
  bundle: DigestedBundle;
  /** The outputs of earlier generators. */
  siblings: readonly Sibling[];
  /** The key and facts for signed outputs; null if the destination does not sign its outputs. */
  signing: (PublicationFacts & { secret: SecretKey }) | null;
}

/** The facts about a publication that are included in a statement. */
export interface PublicationFacts {
  owner: Owner;
  /** null if the publication is not run by a daemon. */
  runId: string | null;
  /** null for schedules, watched sources and commands. */
  publisher: PublisherIdentity | null;
  /** The version of waybill. */
  version: string;
}

/** Another generated output, in its final form. */
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
  /** A digest of everything that determines the content. Equal inputs must produce equal content. */
  inputs: Digest;
  /**
   * Whether the content also names the run, which is not part of the inputs. As long as the inputs are
   * unchanged, the published file is kept.
   */
  namesRun?: boolean;
  /** Streams the content, which is the same every time. */
  open(): AsyncIterable<Uint8Array>;
}

/**
 * Generates one kind of output. Increment `version` with every code change that affects the content, so that
 * published outputs are regenerated. To add a generator, list it in `generators.ts` and add a setting to the
 * configuration.
 */
export interface Generator {
  name: string;
  version: number;
  switchedBy: keyof GeneratedOutputs;
  /** Returns the outputs for this bundle, or none if the generator does not apply to it. */
  describe(input: GeneratorInput): Promise<GeneratedFile[]>;
}

/**
 * Returns a digest of the inputs. Pass only lists and scalars, because the JSON form of objects depends on
 * key order.
 */
export function digestInputs(...inputs: readonly unknown[]): Digest {
  return digestOf(JSON.stringify(inputs));
}

/** Generates the content on the first call and keeps it in memory. Only use it for small content. */
export function keptBytes(make: () => string): () => AsyncIterable<Uint8Array> {
  let kept: Buffer | undefined;
  return async function* () {
    kept ??= Buffer.from(make());
    if (kept.byteLength > 0) yield kept;
  };
}

/** Returns the content of `SHA256SUMS`, which lists every file and every generated output before it. */
export function checksumsText({ bundle, siblings }: Pick<GeneratorInput, 'bundle' | 'siblings'>): string {
  return [...bundle.files, ...siblings.filter(({ path }) => path !== checksumsName)]
    .map(({ path, digest }): [string, string] => [path, hexOf(digest)])
    .sort(([a], [b]) => compareCodeUnits(a, b))
    .map(([path, hex]) => `${hex}  ${path}\n`)
    .join('');
}

/*
 * The names of generated outputs. They depend only on the manifest, so a bundle with a conflicting file is
 * rejected before its files are read: by the API before it responds with 202, by `validate`, and by each run.
 */

/** A bundle as described by its manifest. */
interface NamedBundle extends Pick<SourceBundle, 'path' | 'name'> {
  files: readonly { path: RelativePath; kind: string }[];
}

type Output = keyof GeneratedOutputs;

/**
 * In order of precedence: an output with `auto` is skipped if its name is already taken by an earlier one.
 */
const namesOf: Record<Output, (bundle: NamedBundle) => RelativePath[]> = {
  archive: (bundle) => [archiveName(bundle)],
  sceneMapPage: ({ files }) =>
    files.filter(({ kind }) => kind === sceneMapKind).map(({ path }) => sceneMapPageName(path)),
  checksums: () => [checksumsName],
  index: () => [indexName],
  signature: () => [checksumsSignatureName, attestationName],
};

const settings: Record<Output, string> = {
  archive: 'outputs.archive',
  sceneMapPage: 'outputs.scene_map_page',
  checksums: 'outputs.checksums',
  index: 'outputs.index',
  signature: 'outputs.signature',
};

export const checksumsName = 'SHA256SUMS' as RelativePath;
export const checksumsSignatureName = 'SHA256SUMS.minisig' as RelativePath;
export const attestationName = 'attestation.json' as RelativePath;
export const indexName = 'index.html' as RelativePath;

/** Returns the last segment of the bundle's path, or of its name. */
export function archiveName({ path, name }: Pick<NamedBundle, 'path' | 'name'>): RelativePath {
  const verdict = parseRelativePath(`${nameOf(path === '.' ? (name ?? 'bundle') : path)}.tar.gz`);
  return verdict.ok ? verdict.path : ('bundle.tar.gz' as RelativePath);
}

/** Returns the page's name for a scene map, such as `maps/scenes.html` for `maps/scenes.json`. */
export function sceneMapPageName(path: RelativePath): RelativePath {
  return path.replace(/(\.json)?$/i, '.html') as RelativePath;
}

/** The outputs to generate for a bundle, with `auto` resolved. */
export type ChosenOutputs = Record<Output, boolean>;

/**
 * Decides which outputs a destination generates for a bundle. `taken` contains an error for each output name
 * that is already used by one of the bundle's files or another output.
 */
export function chooseOutputs(
  bundle: NamedBundle,
  { id, outputs }: Pick<DestinationConfig, 'id' | 'outputs'>,
): { chosen: ChosenOutputs; taken: Finding[] } {
  const chosen: ChosenOutputs = {
    ...{ archive: false, sceneMapPage: false, checksums: false, index: false, signature: false },
  };
  const wanted = (Object.keys(namesOf) as Output[]).filter((output) => isWanted(outputs, output));
  const taken: Finding[] = [];
  if (wanted.length === 0) return { chosen, taken };
  const present = new PresentNames(bundle.files.map(({ path }) => path));
  for (const output of wanted) {
    const names = namesOf[output](bundle);
    if (outputs[output] === 'auto' && names.some((name) => present.conflict(name) !== undefined)) continue;
    chosen[output] = true;
    for (const name of names) {
      const conflict = present.conflict(name);
      if (conflict === undefined) present.add(name, output);
      else taken.push(takenName(id, name, output, conflict));
    }
  }
  return { chosen, taken };
}

/** Reports whether an output is wanted. A signature signs the checksums, so it implies them. */
function isWanted(outputs: GeneratedOutputs, output: Output): boolean {
  const signs = (outputs.signature ?? null) !== null;
  if (output === 'signature' || output === 'checksums') return signs || outputs[output] === true;
  return outputs[output] !== false;
}

/** Combines all name conflicts into one error. `name` is the bundle's name for the message. */
export function namesTaken(name: string, taken: readonly Finding[]): WaybillError {
  return invalidBundle(name, taken, {
    hint: 'change the setting named above, or rename the file in the bundle',
  });
}

interface Conflict {
  path: string;
  /** null for one of the bundle's files. */
  output: Output | null;
}

/**
 * Finds paths that conflict with a name, either because they are equal after case folding or because they are
 * below it.
 */
class PresentNames {
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

function takenName(
  id: string,
  name: RelativePath,
  output: Output,
  { path, output: other }: Conflict,
): Finding {
  const setting = settings[output];
  const reason =
    other === null
      ? `destination "${id}" generates "${name}" (${setting}), but the bundle has "${path}"`
      : `destination "${id}" generates "${name}" twice (${settings[other]} and ${setting})`;
  const value = output === 'index' ? 'auto or false' : 'false';
  const remedy = other === null ? ', or remove the file from the bundle' : '';
  const change = output === 'signature' ? `remove ${setting}` : `set ${setting} to ${value}`;
  const message = `${reason}; ${change} there${remedy}`;
  return finding('error', 'generated_path_taken', message, { file: path });
}
