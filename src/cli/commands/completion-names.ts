import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { readYaml } from '../../core/config/yaml-text.ts';

/** The ids of a configuration. */
export interface Names {
  pipelines: { id: string; destinations: string[] }[];
  notifiers: string[];
}

const nothing: Names = { pipelines: [], notifiers: [] };

/**
 * The ids in a configuration, also of one that is not valid yet; none if there is no file or it is no YAML.
 * `~/` is the home directory, since a shell leaves it to whoever reads a line that is not run yet.
 */
export async function namesIn(file: string | undefined): Promise<Names> {
  if (file === undefined) return nothing;
  try {
    const read = readYaml(await readFile(file.replace(/^~(?=\/)/, homedir())));
    return read.ok ? namesOf(read.yaml.value) : nothing;
  } catch {
    return nothing;
  }
}

function namesOf(document: unknown): Names {
  const pipelines = itemsOf(document, 'pipelines').flatMap((pipeline) =>
    idsOf([pipeline]).map((id) => ({ id, destinations: idsOf(itemsOf(pipeline, 'destinations')) })),
  );
  return { pipelines, notifiers: idsOf(itemsOf(document, 'notifiers')) };
}

function itemsOf(value: unknown, key: string): unknown[] {
  const list = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : null;
  return Array.isArray(list) ? list : [];
}

/** Ids as they may be: what is none of them could mean something to a shell. */
function idsOf(items: readonly unknown[]): string[] {
  return items.flatMap((item) => {
    const id = typeof item === 'object' && item !== null && 'id' in item ? item.id : undefined;
    return typeof id === 'string' && /^[a-z0-9][a-z0-9_-]{0,63}$/.test(id) ? [id] : [];
  });
}
