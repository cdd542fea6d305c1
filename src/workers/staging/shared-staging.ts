import { randomUUID } from 'node:crypto';
import { isArchiveName, storeStagedBundle } from '../../core/bundle/shared-archive.ts';
import { errorMessage, WaybillError } from '../../core/lib/errors.ts';
import { describeLocation, type StorageLocation } from '../../core/storage/backends.ts';
import { bytesBody } from '../../core/storage/body.ts';
import { listedKey } from '../../core/storage/key.ts';
import type { OpenStorage } from '../../core/storage/open-storage.ts';
import type { Storage } from '../../core/storage/storage.ts';
import type { StagedJob } from '../queue/job.ts';
import { stagingFailure } from './staging-check.ts';

/** Moves bundles from the host that received them to whichever host publishes them. */
export interface SharedStaging {
  /** Writes the job's staged bundle to a single archive with this name. Resolves with the job to queue. */
  share(job: StagedJob, name: string): Promise<StagedJob>;
  /**
   * Deletes an archive. Ignores names that no archive can have, since they must come from a Redis that was
   * tampered with.
   */
  remove(name: string): Promise<void>;
  /** Checks that shared staging can be written to. Throws `staging_unavailable` or `insufficient_storage`. */
  check(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens shared staging and checks that it can be written to. Throws `config_invalid` if it cannot. The
 * storage stays open between uploads. If anything fails, it is opened again the next time.
 */
export async function openSharedStaging(
  location: StorageLocation,
  openStorage: OpenStorage,
): Promise<SharedStaging> {
  let open: Shared | undefined;
  const using = async <T>(work: (storage: Storage) => Promise<T>): Promise<T> => {
    const used = (open ??= { storage: openStorage(location, { readOnly: false }), users: 0 });
    used.users += 1;
    try {
      return await work(await used.storage);
    } catch (error) {
      if (open === used) open = undefined;
      throw error;
    } finally {
      used.users -= 1;
      if (used.users === 0 && open !== used) void closeStorage(used);
    }
  };
  await using(probe).catch((cause: unknown) => {
    const why = errorMessage(cause);
    throw new WaybillError(
      'config_invalid',
      `server.staging ${describeLocation(location)} cannot be used: ${why}`,
      {
        cause,
        hint: 'choose a storage that every host can write to, with space for the uploads that they retain',
      },
    );
  });
  return {
    share: async (job, name) => {
      const { staged: directory, pipelineId, bundlePath, description } = job;
      const archive = await using((storage) =>
        storeStagedBundle(storage, name, { directory, pipelineId, bundlePath, description }),
      );
      return { ...job, staged: '', archive };
    },
    check: () =>
      using(probe).catch((error: unknown) => {
        throw stagingFailure(error);
      }),
    remove: async (name) => {
      if (isArchiveName(name)) await using((storage) => storage.remove(listedKey(name)));
    },
    close: async () => {
      if (open !== undefined) await closeStorage(open);
      open = undefined;
    },
  };
}

/** An open storage. After a failure, it is closed when its last user has finished. */
interface Shared {
  storage: Promise<Storage>;
  users: number;
}

async function closeStorage({ storage }: Shared): Promise<void> {
  await storage.then((opened) => opened.close()).catch(() => undefined);
}

async function probe(storage: Storage): Promise<void> {
  const key = listedKey(`.waybill-probe-${randomUUID()}`);
  await storage.write(key, bytesBody('probe'), { mode: 'replace' });
  await storage.remove(key);
}
