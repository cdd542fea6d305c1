import { describeBundlePath } from '../../bundle-path.ts';
import type { Catalog, OutputRecord } from '../../catalog/catalog.ts';
import { publishedBy } from '../../catalog/published-bundles.ts';
import { WaybillError } from '../../errors.ts';
import { sameOwner, type Owner } from '../../identity.ts';
import { compareCodeUnits } from '../../paths.ts';
import { storedBody } from '../../storage/body.ts';
import { keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { damagedAmong } from '../observation/damage.ts';
import type { BundleIdentity, PlannedOutput } from '../plan.ts';

/*
 * A change of layout: what is published in one layout is adopted in the other, as it is recorded, before
 * anything new is published there. What readers had stays where it was, for those who still come that way,
 * until it is taken down.
 */

/** What a publication adopts: it is what readers had before, and is what they have afterwards. */
export interface Adoptable {
  bundle: BundleIdentity;
  /** Sorted by path; recorded, and there. The bytes are read from where they were published. */
  content: readonly PlannedOutput[];
}

interface AdoptableOptions {
  destinationPath: string;
  /** The bundle that is taken for published if an older waybill did not record which one it was. */
  otherwise: BundleIdentity;
}

/**
 * What can be adopted of a catalog that lies in `storage`: the outputs that are there as they are recorded.
 * Throws `not_owned` if some are of another owner, who would lose them, or the storage's own error.
 */
export async function adoptable(
  storage: Storage,
  catalog: Catalog,
  owner: Owner,
  { destinationPath, otherwise }: AdoptableOptions,
): Promise<Adoptable> {
  const { outputs: records } = catalog;
  const other = records.find((record) => !sameOwner(record.owner, owner))?.owner;
  if (other !== undefined) throw ofOther(destinationPath, other);
  const outputs = asPlanned(storage, records);
  const damaged = await damagedAmong(storage, outputs, storage.facts.localFiles === null);
  const content = outputs
    .filter(({ path }) => !damaged.has(path))
    .sort((a, b) => compareCodeUnits(a.path, b.path));
  const { source, created } = publishedBy({ kind: 'valid', catalog }, owner) ?? otherwise;
  return { bundle: { source, created }, content };
}

/** Records as outputs whose bytes are read from where they are recorded. Pure. */
export function asPlanned(storage: Storage, records: readonly OutputRecord[]): PlannedOutput[] {
  return records.map(({ path, owner, source, kind, digest, size, generated, url }) => {
    const body = storedBody(storage, { key: keyOf(path), size });
    return { path, owner, source, kind, digest, size, generated, url, body };
  });
}

function ofOther(destinationPath: string, { pipelineId, destinationId }: Owner): WaybillError {
  return new WaybillError(
    'not_owned',
    `${describeBundlePath(destinationPath)} holds outputs of ${pipelineId}/${destinationId}, which a change of layout would take from it; nothing was changed`,
    {
      hint: `publish to another path, or take it down there: --pipeline ${pipelineId} --destination ${destinationId}`,
    },
  );
}
