export interface SharedServer {
  /** Returns environment variables for a file that uses the server. The server is started if necessary. */
  variablesFor: (file: string) => Promise<Record<string, string>>;
  /** Call this when a file has ended. If no other file needs the server, it is stopped. */
  ended: (file: string) => Promise<void>;
}

/**
 * Shares one S3 server between all files that need it, because starting the server takes longer than some of
 * the tests. If it does not start, each file tries it again and reports the reason.
 *
 * @param files The files that need a server. If there is only one, it starts a server itself.
 * @param directory Where the server stores its data. Undefined if the machine has no in-memory file system.
 */
export function shareRadosgw(files: readonly string[], directory: string | undefined): SharedServer {
  const left = new Set(files.length > 1 ? files : []);
  const releases: (() => unknown)[] = [];
  let started: Promise<Record<string, string>> | undefined;
  const start = async (): Promise<Record<string, string>> => {
    const { sharedRadosgw, startOwnRadosgw } = await import('../../test/services/radosgw.ts');
    const test = { teardown: (release: () => unknown): unknown => releases.unshift(release) };
    const { port, endpoint, user } = await startOwnRadosgw(test, directory);
    return { [sharedRadosgw]: JSON.stringify({ port, endpoint, user }) };
  };
  return {
    variablesFor: async (file) => {
      if (!left.has(file)) return {};
      return (started ??= start().catch(() => ({})));
    },
    ended: async (file) => {
      if (!left.delete(file) || left.size > 0) return;
      await started;
      for (const release of releases) await release();
    },
  };
}
